"""The settings of one broker, resolved and checked before anything is started or touched.

`BrokerSettings.load` takes Kafka's properties, options and environment, and either returns
settings that hold together or raises ConfigError with one line: the key, the value, what is wrong
with it and where it was set. Nothing has been changed by then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from moldau.base.errors import ConfigError
from moldau.base.memory_budget import MemoryBudget
from moldau.base.network import Address
from moldau.base.removed_settings import removal
from moldau.server.configuration.broker_configs import BROKER_CONFIGS, OPEN_PREFIXES
from moldau.server.configuration.broker_configs.earlier import REPLACED
from moldau.server.configuration.broker_configs.network import HOST_LIMIT
from moldau.server.configuration.broker_configs.own import ADDRESS
from moldau.server.configuration.definition import Status, printable, split_list
from moldau.server.configuration.quorum import QuorumSettings, is_broker, quorum_settings
from moldau.server.configuration.sources import ReadFile, Setting, Settings, gather
from moldau.server.configuration.values import NOTHING, BrokerValues
from moldau.server.configuration.zookeeper_tls import unread_login
from moldau.server.network.listeners import Endpoint, ListenerConfigs, Listeners, resolve_listeners

HEARTBEAT_INTERVAL: Final = "broker.heartbeat.interval.ms"
SESSION_TIMEOUT: Final = "broker.session.timeout.ms"

LIKENESS: Final = 0.75
"""How alike an unknown key must be to a known one to be taken for a slip of the pen."""


def _of(key: str) -> Any:
    """Declare a field that is the config of this name."""
    return field(metadata={"key": key})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BrokerSettings:
    """What this broker was told before its start, typed. A field is named like its config."""

    min_incremental_fetch_session_eviction_ms: ClassVar[int] = 120_000
    """How long a fetch session is safe from being evicted; Kafka has no config for it."""

    values: BrokerValues
    """Every config, for those that have no field here, and for descriptions."""
    listeners: Listeners
    quorum: QuorumSettings
    """Whether this node stands alone, votes or observes, and where the controllers are."""
    warnings: tuple[str, ...] = ()
    """Lines to log at the start."""

    # Who and where

    node_id: int = _of("node.id")
    log_dirs: tuple[str, ...] = _of("log.dirs")
    metadata_log_dir: str | None = _of("metadata.log.dir")
    rack: str | None = _of("broker.rack")
    metrics_listen: Address | None = field(metadata={"key": "moldau.metrics.listen"})
    metrics_partitions_max: int = _of("moldau.metrics.partitions.max")

    # Connections and requests

    connections_max_idle_ms: int = _of("connections.max.idle.ms")
    fetch_max_bytes: int = _of("fetch.max.bytes")
    max_incremental_fetch_session_cache_slots: int = _of(
        "max.incremental.fetch.session.cache.slots"
    )
    max_request_partition_size_limit: int = _of("max.request.partition.size.limit")
    queued_max_request_bytes: int = _of("queued.max.request.bytes")
    replica_socket_receive_buffer_bytes: int = _of("replica.socket.receive.buffer.bytes")
    socket_listen_backlog_size: int = _of("socket.listen.backlog.size")
    socket_receive_buffer_bytes: int = _of("socket.receive.buffer.bytes")
    socket_request_max_bytes: int = _of("socket.request.max.bytes")
    socket_send_buffer_bytes: int = _of("socket.send.buffer.bytes")

    # Topics and logs

    auto_create_topics_enable: bool = _of("auto.create.topics.enable")
    default_replication_factor: int = _of("default.replication.factor")
    delete_topic_enable: bool = _of("delete.topic.enable")
    internal_topics_writable: bool = _of("internal.topics.writable")
    log_flush_offset_checkpoint_interval_ms: int = _of("log.flush.offset.checkpoint.interval.ms")
    log_retention_check_interval_ms: int = _of("log.retention.check.interval.ms")
    log_scrub_interval_ms: int = _of("log.scrub.interval.ms")
    num_partitions: int = _of("num.partitions")
    producer_id_expiration_check_interval_ms: int = _of("producer.id.expiration.check.interval.ms")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners to open."""
        return self.listeners.endpoints

    def memory_budget(self) -> MemoryBudget:
        """Make the budget of one broker; the default grows with the largest request."""
        limit, largest = self.queued_max_request_bytes, self.socket_request_max_bytes
        return MemoryBudget(max(limit, largest) if limit > 0 else -1, largest_request=largest)

    @classmethod
    def load(
        cls,
        text: str | None,
        overrides: Mapping[str, str] = NOTHING,
        environ: Mapping[str, str] = NOTHING,
        *,
        defaults: Mapping[str, str] = NOTHING,
        strict: bool = False,
        read_file: ReadFile | None = None,
        host_name: Callable[[], str] = lambda: "localhost",
    ) -> Self:
        """Resolve settings: option before environment before file before default.

        `read_file` serves references into files; `host_name` tells what a listener on every
        interface advertises. With `strict` an unknown key is an error instead of a warning.
        """
        settings = gather(text, overrides, environ, defaults, read_file)
        unknown = [one for one in settings.values() if not _known(one.key)]
        if unknown and strict:
            raise ConfigError(_unknown(unknown[0]))
        for setting in settings.values():
            _check(setting)
        values = BrokerValues(_static(settings))
        try:
            check_together(values)
            listeners = _listeners(values, host_name)
            quorum = quorum_settings(values, listeners.names)
            typed = {
                one.name: _SPECIAL.get(one.name, BrokerValues.value)(values, one.metadata["key"])
                for one in fields(cls)
                if "key" in one.metadata
            }
            _check_cordons(values.entries("cordoned.log.dirs"), typed["log_dirs"])
        except ConfigError as error:
            raise _placed(error, settings) from error
        return cls(
            values=values,
            listeners=listeners,
            quorum=quorum,
            warnings=(
                *map(_unknown, unknown),
                *_notes(settings),
                *_short_sessions(values),
                *(unread_login(environ) if quorum.zookeeper is not None else ()),
            ),
            **typed,
        )

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{key}={BROKER_CONFIGS[key].shown(text)}"
            for key, text in sorted(self.values.static.items())
        )
        return f"BrokerSettings({shown})"


def _static(settings: Settings) -> dict[str, str]:
    """Return the texts of known keys; a node under its earlier name has its present one too."""
    found = {key: one.value.strip() for key, one in settings.items() if key in BROKER_CONFIGS}
    if "node.id" not in found and int(found.get("broker.id", -1)) >= 0:
        found["node.id"] = found["broker.id"]
    elif "node.id" in found:
        found.setdefault("broker.id", found["node.id"])
    return found


def check_together(values: BrokerValues) -> None:
    """Raise ConfigError if configs contradict each other."""
    _check_roles(values)
    queued = values.integer("queued.max.request.bytes")
    is_set = values.is_set("queued.max.request.bytes")
    if is_set and 0 < queued < values.integer("socket.request.max.bytes"):
        raise ConfigError(
            f"queued.max.request.bytes={queued}: must be at least socket.request.max.bytes, "
            "or not positive"
        )
    if values.integer("replica.fetch.wait.max.ms") > values.integer("replica.lag.time.max.ms"):
        raise ConfigError("replica.fetch.wait.max.ms must not exceed replica.lag.time.max.ms")
    # A broker alone need not know how long sessions last: that is the controller's setting.
    is_controller = "controller" in values.entries("process.roles")
    if is_controller and values.integer(HEARTBEAT_INTERVAL) > values.integer(SESSION_TIMEOUT):
        raise ConfigError(
            f"{HEARTBEAT_INTERVAL}={values.integer(HEARTBEAT_INTERVAL)}: must not exceed"
            f" {SESSION_TIMEOUT} ({values.integer(SESSION_TIMEOUT)}), because every session would"
            " end before the next heartbeat"
        )


def _check_roles(values: BrokerValues) -> None:
    both = values.is_set("node.id") and values.integer("broker.id") >= 0
    if both and values.integer("node.id") != values.integer("broker.id"):
        raise ConfigError("node.id and broker.id are both set and differ")


def _check(setting: Setting) -> None:
    definition = BROKER_CONFIGS.get(setting.key)
    if definition is None:
        return
    try:
        definition.parse(setting.value)
    except ConfigError as error:
        raise ConfigError(f"{error} (set by {setting.place})") from error


def _placed(error: ConfigError, settings: Settings) -> ConfigError:
    """Say where the key was set that an error about several of them begins with."""
    text = printable(str(error))
    key = re.split(r"[:= ]", text, maxsplit=1)[0]
    return ConfigError(f"{text} (set by {settings[key].place})" if key in settings else text)


def _log_dirs(values: BrokerValues, key: str) -> tuple[str, ...]:
    found = values.entries(key if values.is_set(key) else "log.dir")
    if not found or not all(found):
        raise ConfigError("log.dirs: at least one directory must be named")
    return found


def host_limits(values: BrokerValues) -> dict[str, int]:
    """Return the limits of connections for single addresses."""
    text = values.text("max.connections.per.ip.overrides") or ""
    limits = filter(None, map(HOST_LIMIT.fullmatch, split_list(text)))
    return {limit["host"].strip("[]"): int(limit["count"]) for limit in limits}


def _check_cordons(cordoned: Sequence[str], log_dirs: Sequence[str]) -> None:
    """Refuse cordoned directories that there are not; the words are Kafka's."""
    if "*" in cordoned:
        if len(cordoned) > 1:
            raise ConfigError(
                "cordoned.log.dirs: When cordoned.log.dirs is set to *, it must not contain other"
                " values"
            )
        return
    missing = [one for one in cordoned if one not in log_dirs]
    if missing:
        raise ConfigError(
            "cordoned.log.dirs: All entries in cordoned.log.dirs must be present in log.dirs or"
            f" log.dir. Missing entries : {','.join(missing)}"
        )


def _address(values: BrokerValues, key: str) -> Address | None:
    matched = ADDRESS.fullmatch(values.text(key) or "")
    return matched and Address(matched["host"].strip("[]"), int(matched["port"]))


_SPECIAL: Final[Mapping[str, Callable[[BrokerValues, str], Any]]] = {
    "log_dirs": _log_dirs,
    "metrics_listen": _address,
}


def _listeners(values: BrokerValues, host_name: Callable[[], str]) -> Listeners:
    return resolve_listeners(
        ListenerConfigs(
            values.entries("listeners"),
            values.entries("advertised.listeners"),
            _protocol_map(values),
            values.text("inter.broker.listener.name"),
            values.text("security.inter.broker.protocol") or "",
            values.entries("controller.listener.names"),
            is_broker=is_broker(values),
        ),
        host_name,
    )


def _protocol_map(values: BrokerValues) -> str:
    """Return the map of protocols; where it is not set, controllers listen in plain text.

    That is Kafka's default too, unless another listener is encrypted or authenticated.
    """
    key = "listener.security.protocol.map"
    found = values.text(key) or ""
    names = [name.upper() for name in values.entries("controller.listener.names")]
    opened = [entry.upper() for entry in values.entries("listeners")]
    if values.is_set(key) or any(one.startswith(("SSL", "SASL")) for one in (*names, *opened)):
        return found
    return ",".join([found, *(f"{name}:PLAINTEXT" for name in names if name != "PLAINTEXT")])


def _known(key: str) -> bool:
    return key in BROKER_CONFIGS or key.startswith(OPEN_PREFIXES)


def _idle(key: str) -> bool:
    if key in BROKER_CONFIGS:
        return BROKER_CONFIGS[key].status is Status.WITHOUT_EFFECT and key not in REPLACED
    return key.startswith(OPEN_PREFIXES) and not key.startswith("config.providers.")


def _unknown(setting: Setting) -> str:
    # Imported here: only a mistake needs it.
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(setting.key, BROKER_CONFIGS, n=1, cutoff=LIKENESS)
    hint = f"; did you mean {near[0]}?" if near else ""
    return printable(f"unknown config {setting.key} (set by {setting.place}){hint}")


def _short_sessions(values: BrokerValues) -> Iterator[str]:
    """Warn of sessions that one lost heartbeat ends, as Kafka does."""
    interval_ms, session_ms = values.integer(HEARTBEAT_INTERVAL), values.integer(SESSION_TIMEOUT)
    if interval_ms * 2 > session_ms:
        yield (
            f"{HEARTBEAT_INTERVAL} ({interval_ms} ms) must be less than or equal to half of the"
            f" {SESSION_TIMEOUT} ({session_ms} ms): a broker whose heartbeat is late is taken for"
            " dead"
        )


def _notes(settings: Settings) -> Iterator[str]:
    """Say in a line each what was read and will not happen."""
    for key in sorted(settings.keys() & REPLACED.keys()):
        yield f"{removal(key, REPLACED[key])} (set by {settings[key].place})"
    idle = sorted(filter(_idle, settings))
    if idle:
        yield f"accepted without effect: {', '.join(idle)}"
