"""Configs of a topic that Kafka refuses, however they are given: by CreateTopics or a change."""

from __future__ import annotations

WrongConfigs = tuple[tuple[str, str | None], ...]

_ALONE: tuple[tuple[str, str | None], ...] = (
    ("no.such.config", "1"),
    ("", "1"),
    ("retention.ms", "soon"),
    ("retention.ms", None),
    ("retention.ms", "-2"),
    ("retention.ms", ""),
    ("retention.ms", " 5 x"),
    ("retention.ms", "9223372036854775808"),
    ("retention.bytes", "1 GB"),
    ("retention.bytes", "1.5"),
    ("cleanup.policy", "archive"),
    ("cleanup.policy", "delete,archive"),
    ("cleanup.policy", "archive,delete,burn"),
    ("cleanup.policy", "delete,"),
    ("cleanup.policy", "archive,"),
    ("cleanup.policy", "Delete"),
    ("compression.type", "rar"),
    ("compression.type", ""),
    ("compression.type", "GZIP"),
    ("compression.gzip.level", "10"),
    ("compression.gzip.level", "0"),
    ("compression.lz4.level", "18"),
    ("compression.zstd.level", "23"),
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "one"),
    ("segment.ms", "0"),
    ("segment.jitter.ms", "-1"),
    ("segment.index.bytes", "3"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "1e6"),
    ("min.cleanable.dirty.ratio", "2"),
    ("min.cleanable.dirty.ratio", "-0.1"),
    ("min.cleanable.dirty.ratio", "half"),
    ("message.timestamp.type", "Now"),
    ("message.timestamp.type", "createtime"),
    ("message.timestamp.before.max.ms", "-1"),
    ("unclean.leader.election.enable", "maybe"),
    ("min.compaction.lag.ms", "-1"),
    ("max.compaction.lag.ms", "0"),
    ("index.interval.bytes", "-1"),
    ("flush.messages", "0"),
    ("preallocate", "1"),
    ("segment.bytes", "999999999999"),
    ("local.retention.ms", "-3"),
    ("local.retention.bytes", "-3"),
    ("remote.storage.enable", "true"),
    ("leader.replication.throttled.replicas", "x"),
    ("leader.replication.throttled.replicas", "0:1,x"),
    ("follower.replication.throttled.replicas", "*,0:1"),
)

WRONG_CONFIGS: tuple[WrongConfigs, ...] = (
    *((one,) for one in _ALONE),
    (("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")),
    (("retention.ms", "soon"), ("no.such.config", "1")),
    (("retention.ms", None), ("no.such.config", "1")),
    (("retention.ms", None), ("segment.ms", None)),
    (("message.format.version", "2.0"),),
)
"""Each with all that one request says of a topic. Kafka 3.9 takes the last one, and creates it."""


def case_label(configs: WrongConfigs) -> str:
    """Return what a case is called."""
    return " ".join(f"{name}={value}" for name, value in configs)
