"""Which addresses a broker listens on, and which ones it tells clients.

Pure: texts of the settings in, endpoints out, ConfigError if they contradict each other. The rules
are Kafka's: a listener has a name, the name is mapped to a security protocol, an empty host means
every interface, and what is advertised must be an address a client can connect to. Listeners named
by `controller.listener.names` are for other nodes of the cluster, never for clients. A node that is
a controller alone has no others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moldau.base.errors import ConfigError
from moldau.security.session import SecurityProtocol

EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound

_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<bracketed>[0-9A-Fa-f:.%a-z]*)\]|(?P<host>[^\[\]:/,]*))"
    r":(?P<port>-?[0-9]{1,6})"
)


SERVED = frozenset({SecurityProtocol.PLAINTEXT})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener: where it listens, and where clients are sent to reach it."""

    name: str
    host: str
    """The interface to bind; empty for all of them."""
    port: int
    """0 lets the system choose one."""
    advertised_host: str
    advertised_port: int
    """0 stands for the port that is bound."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


@dataclass(frozen=True, slots=True)
class ListenerConfigs:
    """The settings that listeners are made of."""

    listeners: Sequence[str]
    advertised_listeners: Sequence[str] = ()
    protocol_map: str = ""
    inter_broker_listener_name: str | None = None
    inter_broker_protocol: str = "PLAINTEXT"
    controller_listener_names: Sequence[str] = ()
    is_broker: bool = True
    """Whether the node serves clients; False for a controller alone."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listeners of one node."""

    endpoints: tuple[Endpoint, ...]
    """Those for clients and other brokers, in the order of the settings."""
    inter_broker: str
    """The name of the one by which brokers reach each other."""
    controller: tuple[Endpoint, ...] = ()
    """Those for nodes that ask the controller in this process; none where nobody can join it."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all listeners that are opened."""
        return frozenset(one.name for one in (*self.endpoints, *self.controller))


@dataclass(frozen=True, slots=True)
class _Listener:
    name: str
    host: str
    port: int


def resolve_listeners(configs: ListenerConfigs, host_name: Callable[[], str]) -> Listeners:
    """Decide on the listeners; `host_name` tells what one on every interface advertises."""
    protocols = parse_protocol_map(configs.protocol_map)
    controller = {name.upper() for name in configs.controller_listener_names}
    declared = _parse_listeners("listeners", configs.listeners)
    opened = [one for one in declared if one.name not in controller]
    if configs.is_broker and not opened:
        raise ConfigError("listeners: at least one listener must be for clients")
    if opened and not configs.is_broker:
        raise ConfigError(
            f"listeners: {opened[0].name} is not among controller.listener.names, and a node with"
            " process.roles=controller serves other nodes only"
        )
    _refuse_shared_ports(declared)
    advertised = _advertised(configs, opened, controller)
    endpoints, for_nodes = (
        tuple(_endpoint(one, advertised.get(one.name), protocols, host_name) for one in some)
        for some in (opened, [one for one in declared if one.name in controller])
    )
    return Listeners(endpoints, _inter_broker(configs, endpoints), for_nodes)


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Parse `listener.security.protocol.map`: NAME:PROTOCOL,..."""
    found: dict[str, SecurityProtocol] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        where = f"listener.security.protocol.map: {entry}"
        if not colon or not name or protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(f"{where}: expected NAME:PROTOCOL, with one of {known}")
        if name in found:
            raise ConfigError(f"{where}: the listener is mapped twice")
        found[name] = SecurityProtocol[protocol]
    return found


def _parse_listeners(key: str, entries: Sequence[str]) -> list[_Listener]:
    found: dict[str, _Listener] = {}
    for entry in entries:
        matched = _LISTENER.fullmatch(entry)
        if matched is None:
            raise ConfigError(f"{key}: {entry!r} is not of the form NAME://HOST:PORT")
        name, port = matched["name"].upper(), int(matched["port"])
        if not 0 <= port <= 65535:
            raise ConfigError(f"{key}: the port of {entry} must lie between 0 and 65535")
        if name in found:
            raise ConfigError(f"{key}: the listener name {name} is used twice")
        found[name] = _Listener(name, matched["bracketed"] or matched["host"] or "", port)
    return list(found.values())


def _refuse_shared_ports(listeners: Sequence[_Listener]) -> None:
    """Refuse two listeners on one port, unless one is for IPv4 and the other for IPv6 (KIP-797)."""
    for index, one in enumerate(listeners):
        for other in listeners[:index]:
            if one.port != other.port or one.port == 0:
                continue
            apart = one.host != other.host and not EVERY_INTERFACE & {one.host, other.host}
            two_families = (":" in one.host) != (":" in other.host)
            if not apart and not (two_families and one.host and other.host):
                raise ConfigError(
                    f"listeners: {other.name} and {one.name} both listen on port {one.port}"
                )


def _advertised(
    configs: ListenerConfigs, opened: Sequence[_Listener], controller: set[str]
) -> dict[str, _Listener]:
    names = {one.name for one in opened}
    found = {}
    of_nodes = {}
    for one in _parse_listeners("advertised.listeners", configs.advertised_listeners):
        if one.name in controller:
            of_nodes[one.name] = one
            continue
        if one.name not in names:
            raise ConfigError(f"advertised.listeners: {one.name} is not among listeners")
        if one.host in EVERY_INTERFACE - {""}:
            raise ConfigError(
                f"advertised.listeners: {one.name} advertises {one.host}, "
                "which no client can connect to"
            )
        found[one.name] = one
    missing = names - found.keys()
    if found and missing:
        raise ConfigError(f"advertised.listeners: {', '.join(sorted(missing))} is missing")
    return found | of_nodes


def _endpoint(
    listener: _Listener,
    advertised: _Listener | None,
    protocols: dict[str, SecurityProtocol],
    host_name: Callable[[], str],
) -> Endpoint:
    protocol = protocols.get(listener.name)
    if protocol is None:
        raise ConfigError(
            f"listeners: {listener.name} has no security protocol; "
            f"add {listener.name}:PLAINTEXT to listener.security.protocol.map"
        )
    if protocol not in SERVED:
        raise ConfigError(
            f"listeners: {listener.name} asks for {protocol.name}, "
            "which this version does not serve; it serves PLAINTEXT"
        )
    shown = advertised or listener
    return Endpoint(
        listener.name,
        listener.host,
        listener.port,
        host_name() if shown.host in EVERY_INTERFACE else shown.host,
        shown.port,
        protocol,
    )


def _inter_broker(configs: ListenerConfigs, endpoints: Sequence[Endpoint]) -> str:
    name = configs.inter_broker_listener_name
    if name is not None:
        if configs.is_broker and all(one.name != name.upper() for one in endpoints):
            raise ConfigError(f"inter.broker.listener.name: {name} is not among listeners")
        return name.upper()
    for endpoint in endpoints:
        if endpoint.security_protocol.name == configs.inter_broker_protocol:
            return endpoint.name
    if not configs.is_broker:
        # The listeners of brokers stand in their own settings; by default they have this name.
        return configs.inter_broker_protocol
    raise ConfigError(
        f"security.inter.broker.protocol: no listener speaks {configs.inter_broker_protocol}"
    )
