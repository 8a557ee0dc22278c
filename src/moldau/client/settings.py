"""The settings of a client: keywords with Kafka's names, defaults and meaning.

A client's constructor lists its settings as keyword arguments, so that an editor completes them and
a type checker finds a misspelt one. `accepts_kafka_names` lets it be called with the dotted names
of a Kafka properties file too (`**{"linger.ms": 5}`). Under either name a value may be text as it
stands in such a file, or in an environment variable: "false" is never taken for true.

    @accepts_kafka_names
    def __init__(self, bootstrap_servers: Servers = DEFAULT_SERVERS, *, linger_ms: float = 5, ...):
        values = locals()
        self._connection = pick(ConnectionSettings, values)
        self._settings = pick(ProducerSettings, values)
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, cast, dataclass_transform

from moldau.base.errors import ConfigError
from moldau.base.network import Address
from moldau.base.removed_settings import removal
from moldau.client.removed_settings import REMOVED

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Settings")

Servers = str | Sequence[str | tuple[str, int]]
"""`host:port` pairs, in one text with commas or one by one."""

DEFAULT_SERVERS = "localhost:9092"
DEFAULT_PORT = 9092

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

IGNORED: Mapping[str, str] = {
    "auto.include.jmx.reporter": "there is no JMX in Python",
    "metric.reporters": "metrics are read with metrics()",
    "metrics.num.samples": "metrics are read with metrics()",
    "metrics.recording.level": "metrics are read with metrics()",
    "metrics.sample.window.ms": "metrics are read with metrics()",
    "enable.metrics.push": "the client pushes no metrics to brokers",
    "config.providers": "values are taken as they are",
    "security.providers": "it names Java classes",
    "api.version.request": "versions are always agreed on",
    "api.version.auto.timeout.ms": "versions are always agreed on",
    "broker.version.fallback": "versions are always agreed on",
    "log.connection.close": "Python's logging decides what is shown",
}
"""Settings of other clients that have nothing to set here; one log line says so."""

REFUSED: Mapping[str, str] = {
    "api.version": "versions are agreed on with each broker",
}
"""Settings that would change what the user gets; ignoring them would mislead."""

UNSUPPORTED_FAMILIES = ("ssl.", "sasl.")


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


class ConnectionSettings(Settings):
    """How a client finds the cluster and keeps in touch with it. Times are in milliseconds."""

    bootstrap_servers: Servers = DEFAULT_SERVERS
    """Any brokers of the cluster: the first that answers names all others."""
    client_id: str = ""
    """A name for quotas and for people who read the broker's log."""
    bootstrap_timeout_ms: int = 10_000
    """Ours: for how long a client that starts looks for a broker that is not there yet, as where
    services start side by side; 0 asks every server once."""
    request_timeout_ms: int = 30_000
    """How long an answer is waited for before the connection counts as lost."""
    socket_connection_setup_timeout_ms: int = 10_000
    """How long connecting may take; grows with every failure in a row (KIP-601)."""
    socket_connection_setup_timeout_max_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    """How old knowledge of topics may become when nothing seems to change."""
    metadata_recovery_strategy: str = "rebootstrap"
    """`rebootstrap` or `none`: whether to go back to the bootstrap servers when no broker that is
    known can be reached (KIP-899)."""
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    """For how long refreshing may fail before the known brokers are given up (KIP-1102)."""
    connections_max_idle_ms: int = 540_000
    """Below the broker's ten minutes, so that the client closes first and loses no request."""
    receive_buffer_bytes: int = 65_536
    send_buffer_bytes: int = 131_072
    """Sizes of the socket's buffers; -1 leaves them to the kernel."""
    client_dns_lookup: str = "use_all_dns_ips"
    allow_auto_create_topics: bool = True
    """Whether asking for a topic may create it, where the broker does so."""
    security_protocol: str = "PLAINTEXT"
    version_ceilings: Mapping[int, int] = MappingProxyType({})
    """The newest version to speak of an API, by its key, whatever the broker offers: to see how a
    client behaves towards an older cluster."""

    @functools.cached_property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap servers, read."""
        return parse_servers(self.bootstrap_servers)

    def check(self) -> None:
        """Refuse what cannot be, and what is not supported."""
        parse_servers(self.bootstrap_servers)
        for name in _NOT_NEGATIVE:
            at_least(0, name, getattr(self, name))
        at_least(-1, "receive_buffer_bytes", self.receive_buffer_bytes)
        at_least(-1, "send_buffer_bytes", self.send_buffer_bytes)
        one_of(("rebootstrap", "none"), "metadata_recovery_strategy",
               self.metadata_recovery_strategy)  # fmt: skip
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
    "request_timeout_ms",
    "reconnect_backoff_ms",
    "reconnect_backoff_max_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "metadata_max_age_ms",
    "metadata_recovery_rebootstrap_trigger_ms",
)


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
        return Address(*given)
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


def at_least(minimum: float, name: str, value: float) -> None:
    """Refuse a number below the least that makes sense."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"{name}={value!r} is not a number")
    if value < minimum:
        raise ConfigError(f"{name}={value!r} is below {minimum}")


def one_of(choices: Sequence[object], name: str, value: object) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        listed = ", ".join(str(choice) for choice in choices)
        raise ConfigError(f"{name}={value!r} is not one of {listed}")


def pick(settings: type[S], values: Mapping[str, Any]) -> S:
    """Make settings from those values that are theirs; the rest is somebody else's."""
    return settings(**{name: values[name] for name in settings.__annotations__ if name in values})


def read_texts(settings: type[S], values: Mapping[str, Any]) -> S:
    """Make settings as `pick` does, where values may be texts: each is read as what it is."""
    kinds = settings.__annotations__
    read = {name: _read(name, value, kinds.get(name)) for name, value in values.items()}
    return pick(settings, read)


def accepts_kafka_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let a constructor be called with Kafka's dotted names for its keyword arguments.

    A name it does not have is refused with the nearest one that it has. To a type checker the
    signature stays as it is written.
    """

    @functools.cache
    def parameters() -> Mapping[str, inspect.Parameter]:  # read late: not all who import also call
        return inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*arguments: P.args, **settings: P.kwargs) -> R:
        return function(*arguments, **cast("Any", _translated(settings, parameters())))

    return call


def _translated(
    settings: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    translated: dict[str, Any] = {}
    for name, value in settings.items():
        own = name.replace(".", "_")
        if own in parameters and own != "self":
            if own in translated:
                raise ConfigError(f"{name} is given twice")
            translated[own] = _read(name, value, parameters[own].annotation)
        elif (reason := IGNORED.get(name.replace("_", "."))) is not None:
            logger.info("%s is ignored: %s", name, reason)
        else:
            raise ConfigError(_refusal(name, parameters))
    return translated


def _refusal(name: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    dotted = name.replace("_", ".")
    if (reason := REFUSED.get(dotted)) is not None:
        return f"{name} is not taken: {reason}"
    if (removed := REMOVED.get(dotted)) is not None:
        return removal(name, removed)
    if dotted.startswith(UNSUPPORTED_FAMILIES):
        return f"{name} is not supported yet: connections are plaintext"
    from difflib import get_close_matches  # noqa: PLC0415 - only who misspells pays for it

    own = [known for known in parameters if known != "self"]
    near = get_close_matches(name.replace(".", "_"), own, 1)
    if not near:
        return f"there is no setting {name}"
    meant = near[0].replace("_", ".") if "." in name else near[0]
    return f"there is no setting {name}: is {meant} meant?"


def _read(name: str, value: Any, annotation: object) -> Any:
    """Read a value as what the setting is, from text too; ConfigError if it is something else.

    Settings that are none of the plain kinds are checked by whoever takes them.
    """
    kind, _, rest = annotation.partition(" | ") if isinstance(annotation, str) else ("", "", "")
    if kind not in _KINDS or rest not in ("", "None") or (rest and value is None):
        return value
    types, from_text, meant = _KINDS[kind]
    if isinstance(value, str) and from_text is not None:
        try:
            return from_text(value.strip().lower())
        except (KeyError, ValueError):
            raise ConfigError(f"{name}={value!r} is not {meant}") from None
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"{name}={value!r} is not {meant}")
    return value


_KINDS: Final[Mapping[str, tuple[tuple[type, ...], Callable[[str], Any] | None, str]]] = {
    "bool": ((bool,), {"true": True, "false": False}.__getitem__, "true or false"),
    "int": ((int,), int, "a whole number"),
    "float": ((int, float), float, "a number"),
    "str": ((str,), None, "text"),
}
"""By how a constructor declares a setting: what is taken as it is, how text is read, what to say.

Declarations are text that nobody evaluates: resolving the types of a constructor would import what
it only mentions."""
