"""Settings: values by keyword, checked once; and those of every connection to a cluster.

`Settings` is what all classes of settings are made of, those of the faces above too.
`ConnectionSettings` is how the engine finds brokers and keeps in touch with them, under Kafka's
names, with its defaults and its meaning.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform

from moldau.base.errors import ConfigError
from moldau.base.network import Address

S = TypeVar("S", bound="Settings")

Servers = str | Sequence[str | tuple[str, int]]
"""`host:port` pairs, in one text with commas or one by one."""

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
"""What Kafka's settings may be: most numbers of them travel, or are sizes of what travels."""

DEFAULT_SERVERS = "localhost:9092"
DEFAULT_PORT = 9092


class IsolationLevel(IntEnum):
    """Which records are handed out; the number is that of Fetch and ListOffsets."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Settings:
    """Values given by keyword, defaults where none is given; checked once, never changed.

    To a type checker a subclass is a frozen dataclass. It is none, because writing and compiling
    the methods of one takes two milliseconds for two dozen fields, which everybody who imports a
    client would pay for. What follows from the values is a cached property.
    """

    def __init__(self, **given: Any) -> None:
        own = type(self)
        if strange := given.keys() - own.__annotations__.keys():
            raise TypeError(f"{own.__name__} has no {', '.join(sorted(strange))}")
        vars(self).update({name: getattr(own, name) for name in own.__annotations__} | given)
        self.check()

    def check(self) -> None:
        """Refuse values that cannot be, alone or together: ConfigError."""

    def values(self) -> dict[str, Any]:
        """Return every value under its name."""
        return {name: getattr(self, name) for name in type(self).__annotations__}

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"{name} of {type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings) or type(other) is not type(self):
            return NotImplemented
        return self.values() == other.values()

    def __hash__(self) -> int:
        return hash(type(self))  # values may be of any kind; nobody keeps many settings

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.values().items())
        return f"{type(self).__name__}({shown})"


def pick(settings: type[S], values: Mapping[str, Any]) -> S:
    """Make settings from those values that are theirs; the rest is somebody else's."""
    return settings(**{name: values[name] for name in settings.__annotations__ if name in values})


def at_least(minimum: float, name: str, value: float, *, most: int = INT32_MAX) -> None:
    """Refuse a number below the least that makes sense, or above the most that Kafka takes."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and math.isnan(value)):
        raise ConfigError(f"{name}={value!r} is not a number")
    if value < minimum:
        raise ConfigError(f"{name}={value!r} is below {minimum}")
    if value > most:
        raise ConfigError(f"{name}={value!r:.100} is above {most}")


def one_of(choices: Sequence[object], name: str, value: object) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        listed = ", ".join(str(choice) for choice in choices)
        raise ConfigError(f"{name}={value!r} is not one of {listed}")


class ConnectionSettings(Settings):
    """How a client connects to the cluster. Times are in milliseconds."""

    bootstrap_servers: Servers = DEFAULT_SERVERS
    """Some brokers of the cluster; the first that answers names all others."""
    client_id: str = ""
    """The name of the client in quotas and broker logs."""
    bootstrap_timeout_ms: int = 10_000
    """Moldau only: how long a new client looks for the first broker; 0: try each server once."""
    request_timeout_ms: int = 30_000
    """How long to wait for a response before the connection counts as lost."""
    socket_connection_setup_timeout_ms: int = 10_000
    """How long connecting may take; grows with every failure in a row (KIP-601)."""
    socket_connection_setup_timeout_max_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    """How often metadata is refreshed without a reason to."""
    metadata_recovery_strategy: str = "rebootstrap"
    """`rebootstrap` or `none`: whether to return to the bootstrap servers when no known broker can
    be reached (KIP-899)."""
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    """How long metadata refreshes may fail before the client rebootstraps (KIP-1102)."""
    connections_max_idle_ms: int = 540_000
    """Below the broker's ten minutes: the client closes first and loses no request. -1: never."""
    receive_buffer_bytes: int = 65_536
    send_buffer_bytes: int = 131_072
    """Sizes of the socket's buffers; -1: the kernel decides."""
    client_dns_lookup: str = "use_all_dns_ips"
    allow_auto_create_topics: bool = True
    """Whether a metadata request may create a missing topic, if the broker allows it."""
    security_protocol: str = "PLAINTEXT"
    version_ceilings: Mapping[int, int] = MappingProxyType({})
    """The highest version to use per API key, to test a client against older protocol versions."""

    @functools.cached_property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap servers, read."""
        return parse_servers(self.bootstrap_servers)

    def check(self) -> None:
        """Refuse what cannot be, and what is not supported."""
        parse_servers(self.bootstrap_servers)
        at_least(0, "request_timeout_ms", self.request_timeout_ms)
        for name in _NOT_NEGATIVE:
            at_least(0, name, getattr(self, name), most=INT64_MAX)
        at_least(-1, "connections_max_idle_ms", self.connections_max_idle_ms, most=INT64_MAX)
        at_least(-1, "receive_buffer_bytes", self.receive_buffer_bytes)
        at_least(-1, "send_buffer_bytes", self.send_buffer_bytes)
        one_of(("rebootstrap", "none"), "metadata_recovery_strategy",
               self.metadata_recovery_strategy)  # fmt: skip
        _check_ceilings(self.version_ceilings)
        if self.client_dns_lookup != "use_all_dns_ips":
            raise ConfigError(
                f"client_dns_lookup={self.client_dns_lookup!r} is not supported: every address of a"
                " name is tried (use_all_dns_ips)"
            )
        if self.security_protocol != "PLAINTEXT":
            raise ConfigError(
                f"security_protocol={self.security_protocol!r} is not supported yet: PLAINTEXT is"
            )


_NOT_NEGATIVE: Final = (
    "bootstrap_timeout_ms",
    "socket_connection_setup_timeout_ms",
    "socket_connection_setup_timeout_max_ms",
    "reconnect_backoff_ms",
    "reconnect_backoff_max_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "metadata_max_age_ms",
    "metadata_recovery_rebootstrap_trigger_ms",
)


def _check_ceilings(given: object) -> None:
    if not isinstance(given, Mapping) or not all(
        type(number) is int for pair in given.items() for number in pair
    ):
        raise ConfigError(f"version_ceilings={given!r:.100} is not a dict of ints by ints")


def parse_servers(servers: Servers) -> tuple[Address, ...]:
    """Read `host:port` pairs; a port left out is 9092. ConfigError if one cannot be read."""
    if not isinstance(servers, (str, Sequence)):
        raise ConfigError(f"bootstrap_servers={servers!r} is not host:port, nor a list of such")
    given: Iterable[str | tuple[str, int]]
    given = servers.split(",") if isinstance(servers, str) else servers
    found = tuple(_address(one) for one in given if not isinstance(one, str) or one.strip())
    if not found:
        raise ConfigError("bootstrap_servers names no server")
    return found


def _address(given: str | tuple[str, int]) -> Address:
    if not isinstance(given, str):
        match given:
            case (str(host), int(number)) if host and 0 < number < 65536 and number is not True:
                return Address(host, number)
        raise ConfigError(f"bootstrap_servers: {given!r:.100} is not host:port")
    text = given.strip().removeprefix("PLAINTEXT://")
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if rest else str(DEFAULT_PORT)
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, str(DEFAULT_PORT)
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap_servers: {given!r} is not host:port")
    return Address(host, int(port))
