"""Every config of a topic: its definition, and the broker config that stands in for it.

Definitions, defaults and bounds are Kafka 4.3's, except that small segments stay legal as they
were up to Kafka 4.0, since people learn and test with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final

from moldau.base.errors import ConfigError
from moldau.base.texts import shorten
from moldau.server.configuration.broker_configs.logs import NO_PREALLOCATION, SEGMENT_SIZE_MIN
from moldau.server.configuration.broker_configs.tiering import NO_TIERS
from moldau.server.configuration.definition import (
    ConfigDefinition,
    Value,
    at_least,
    between,
    between_or,
    boolean,
    double,
    integer,
    list_of,
    long,
    names,
    one_of,
    refused,
    string,
    without_effect,
)
from moldau.server.configuration.values import BrokerValues, Found
from moldau.storage.topic_config import DAY_MS, LONG_MAX, LogConfig

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS

THROTTLED: Final = re.compile(r"[0-9]+:[0-9]+")
"""One entry of the replicas to throttle: a partition and a broker."""


def _throttled(name: str, documentation: str) -> ConfigDefinition:
    """Declare a list of replicas to throttle."""

    def check(value: Value) -> str | None:
        assert isinstance(value, tuple)
        if value == ("*",) or all(THROTTLED.fullmatch(entry) for entry in value):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return names(name, (), documentation, check)


_DEFINITIONS: tuple[ConfigDefinition, ...] = (
    names(
        "cleanup.policy",
        ("delete",),
        "What happens to old segments: delete them, compact them, both, or (empty) keep them.",
        list_of("compact", "delete"),
    ),
    integer(
        "compression.gzip.level",
        -1,
        "How hard gzip tries when compression.type is gzip; -1 leaves it to the library.",
        between_or(1, 9, -1),
    ),
    integer(
        "compression.lz4.level",
        9,
        "How hard lz4 tries when compression.type is lz4.",
        between(1, 17),
    ),
    string(
        "compression.type",
        "producer",
        "How batches are kept: as the producer compressed them, or all with one codec.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    integer(
        "compression.zstd.level",
        3,
        "How hard zstd tries when compression.type is zstd.",
        between(-131_072, 22),
    ),
    long(
        "file.delete.delay.ms",
        MINUTE_MS,
        "How long a removed segment stays on the disk for readers that still hold it.",
        at_least(0),
    ),
    long(
        "flush.messages",
        LONG_MAX,
        "Force the log to the disk after this many records.",
        at_least(1),
    ),
    long(
        "flush.ms",
        LONG_MAX,
        "Force the log to the disk when its oldest unforced record is this old.",
        at_least(0),
    ),
    integer(
        "index.interval.bytes",
        4096,
        "Bytes of log between two entries of its indexes.",
        at_least(0),
    ),
    integer(
        "max.message.bytes",
        1_048_588,
        "The largest record batch that is accepted, as it arrives.",
        at_least(0),
    ),
    long(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        "How far in the future a record's own timestamp may lie.",
        at_least(0),
    ),
    long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far in the past a record's own timestamp may lie.",
        at_least(0),
    ),
    string(
        "message.timestamp.type",
        "CreateTime",
        "Whose time a record carries: the producer's, or that of its append to the log.",
        one_of("CreateTime", "LogAppendTime"),
    ),
    integer(
        "min.insync.replicas",
        1,
        "In-sync replicas a write with acks=all needs to be accepted.",
        at_least(1),
    ),
    long(
        "retention.bytes",
        -1,
        "Bytes a partition keeps before old segments are deleted; -1 means without limit.",
    ),
    long(
        "retention.ms",
        7 * DAY_MS,
        "How long records are kept before their segments are deleted; -1 means for ever.",
        at_least(-1),
    ),
    integer(
        "segment.bytes",
        1 << 30,
        "The size of one segment file.",
        at_least(SEGMENT_SIZE_MIN),
    ),
    integer(
        "segment.index.bytes",
        10 * 1024 * 1024,
        "The size an index may grow to; a full index begins a new segment.",
        at_least(4),
    ),
    long(
        "segment.jitter.ms",
        0,
        "By up to how much, drawn at random, segment.ms is cut, so that logs do not roll at once.",
        at_least(0),
    ),
    long("segment.ms", 7 * DAY_MS, "How old a segment may become before a new one.", at_least(1)),
    *without_effect(
        NO_PREALLOCATION,
        boolean("preallocate", False, "Give a new segment its full size on the disk at once."),
    ),
    boolean(
        "unclean.leader.election.enable",
        False,
        "Let a replica that may lack records lead when no in-sync one is left.",
    ),
    long(
        "delete.retention.ms",
        DAY_MS,
        "How long compaction keeps the mark of a deleted key.",
        at_least(0),
    ),
    long(
        "max.compaction.lag.ms",
        LONG_MAX,
        "The longest a record may wait for compaction.",
        at_least(1),
    ),
    double(
        "min.cleanable.dirty.ratio",
        0.5,
        "The part of a log that must be uncompacted before it is worth compacting.",
        between(0, 1),
    ),
    long(
        "min.compaction.lag.ms",
        0,
        "The shortest time a record stays uncompacted.",
        at_least(0),
    ),
    _throttled(
        "follower.replication.throttled.replicas",
        "Replicas whose fetching from the leader is throttled.",
    ),
    _throttled(
        "leader.replication.throttled.replicas",
        "Replicas whose serving of followers is throttled.",
    ),
    *without_effect(
        NO_TIERS,
        long(
            "local.retention.bytes",
            -2,
            "Bytes a tiered partition keeps locally; -2 means retention.bytes.",
            at_least(-2),
        ),
        long(
            "local.retention.ms",
            -2,
            "How long a tiered partition keeps records locally; -2 means retention.ms.",
            at_least(-2),
        ),
    ),
    *refused(
        NO_TIERS,
        boolean("remote.log.copy.disable", False, "Copy no more segments to remote storage."),
        boolean(
            "remote.log.delete.on.disable",
            False,
            "Delete what is remote when remote storage is turned off.",
        ),
        boolean("remote.storage.enable", False, "Keep old segments in remote storage."),
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, ConfigDefinition]] = MappingProxyType(
    {one.name: one for one in sorted(_DEFINITIONS, key=lambda one: one.name)}
)

BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cleanup.policy": ("log.cleanup.policy",),
        "compression.gzip.level": ("compression.gzip.level",),
        "compression.lz4.level": ("compression.lz4.level",),
        "compression.type": ("compression.type",),
        "compression.zstd.level": ("compression.zstd.level",),
        "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
        "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
        "flush.messages": ("log.flush.interval.messages",),
        "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        "index.interval.bytes": ("log.index.interval.bytes",),
        "local.retention.bytes": ("log.local.retention.bytes",),
        "local.retention.ms": ("log.local.retention.ms",),
        "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
        "max.message.bytes": ("message.max.bytes",),
        "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
        "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
        "message.timestamp.type": ("log.message.timestamp.type",),
        "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
        "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
        "min.insync.replicas": ("min.insync.replicas",),
        "preallocate": ("log.preallocate",),
        "retention.bytes": ("log.retention.bytes",),
        "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        "segment.bytes": ("log.segment.bytes",),
        "segment.index.bytes": ("log.index.size.max.bytes",),
        "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        "segment.ms": ("log.roll.ms", "log.roll.hours"),
        "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    }
)
"""The broker configs that stand in for a topic's own, the stronger ones first."""

_STANDS_FOR: Final[Mapping[str, str]] = MappingProxyType(
    {broker: topic for topic, brokers in BROKER_SYNONYMS.items() for broker in brokers}
)

_LOG_FIELDS: Final = {
    one.name.replace("_", "."): one.name
    for one in fields(LogConfig)
    if one.name.replace("_", ".") in TOPIC_CONFIGS
}

LogValue = Value | frozenset[str]
LogValues = Mapping[str, LogValue]
"""Values by field of LogConfig."""


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise ConfigError unless a topic may have these configs of its own."""
    for name in configs:
        if name not in TOPIC_CONFIGS:
            raise ConfigError(f"Unknown topic config name: {shorten(name)}")
    values: dict[str, Any] = {name: one.default for name, one in TOPIC_CONFIGS.items()}
    for name, text in configs.items():
        values[name] = TOPIC_CONFIGS[name].parse(text)
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if shortest > longest:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})"
        )


def broker_default(name: str, broker: BrokerValues) -> tuple[Value, list[Found]]:
    """Return what a topic config is where the topic says nothing, and what it was found in."""
    definition = TOPIC_CONFIGS[name]
    found = broker.find_all(BROKER_SYNONYMS.get(name, ()))
    if not found:
        return definition.default, found
    return definition.parse(_in_topic_units(name, found[0].name, found[0].text)), found


def check_broker_default(broker_name: str, text: str) -> None:
    """Raise ConfigError if a broker config stands in for a topic's, which may not be this.

    Kafka's bounds are narrower for some topic configs than for the broker's: segment.ms is at least
    1, log.roll.ms is not bounded. A broker that took such a value could serve no topic.
    """
    name = _STANDS_FOR.get(broker_name)
    if name is not None:
        TOPIC_CONFIGS[name].parse(_in_topic_units(name, broker_name, text))


def _in_topic_units(name: str, broker_name: str, text: str) -> str:
    """Turn a broker's text into the topic's: hours and minutes into milliseconds."""
    if broker_name.endswith((".hours", ".minutes")):
        factor = HOUR_MS if broker_name.endswith(".hours") else MINUTE_MS
        text = str(int(text) * factor)
    if name == "retention.ms":
        text = str(max(int(text), -1))
    return text


def log_defaults(broker: BrokerValues) -> LogValues:
    """Return what storage needs to know of a topic that says nothing, by field of LogConfig."""
    return {
        field: _for_storage(broker_default(name, broker)[0]) for name, field in _LOG_FIELDS.items()
    }


def log_config(configs: Mapping[str, str], defaults: LogValues) -> LogConfig:
    """Return what a topic's own configs come to on a broker with these defaults."""
    values: dict[str, Any] = dict(defaults)
    throttled = {}
    for name, text in configs.items():
        if name in _LOG_FIELDS:
            values[_LOG_FIELDS[name]] = _for_storage(TOPIC_CONFIGS[name].parse(text))
        elif name.endswith("throttled.replicas"):
            throttled[name] = frozenset(map(str.strip, text.split(",")))
    if "compact" in values["cleanup_policy"]:
        # What is being written cannot be compacted, so it must be closed in time (KIP-354).
        values["segment_ms"] = min(values["segment_ms"], values["max_compaction_lag_ms"])
    return LogConfig(**values, throttled_replicas=throttled)


def _for_storage(value: Value) -> LogValue:
    return frozenset(value) if isinstance(value, tuple) else value
