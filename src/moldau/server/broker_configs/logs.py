"""The configs of logs."""

from __future__ import annotations

from sys import float_info
from typing import Final

from moldau.server.config_definition import (
    ConfigDefinition,
    at_least,
    between,
    between_or,
    boolean,
    cluster_wide,
    double,
    integer,
    internal,
    list_of,
    long,
    names,
    one_of,
    string,
)
from moldau.storage.topic_config import LONG_MAX

SEGMENT_SIZE_MIN: Final = 14
"""The smallest a log of Kafka 1.1 accepted; its users keep the small segments they teach with."""

LOGS: tuple[ConfigDefinition, ...] = (
    *cluster_wide(
        integer("compression.gzip.level", -1, "", between_or(1, 9, -1)),
        integer("compression.lz4.level", 9, "", between(1, 17)),
        string(
            "compression.type",
            "producer",
            "",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        integer("compression.zstd.level", 3, "", between(-131_072, 22)),
        long("log.cleaner.backoff.ms", 15_000, "", at_least(0)),
        long("log.cleaner.dedupe.buffer.size", 134_217_728, ""),
        long("log.cleaner.delete.retention.ms", 86_400_000, "", at_least(0)),
        double("log.cleaner.io.buffer.load.factor", 0.9, ""),
        integer("log.cleaner.io.buffer.size", 524_288, "", at_least(0)),
        double("log.cleaner.io.max.bytes.per.second", float_info.max, ""),
        long("log.cleaner.max.compaction.lag.ms", LONG_MAX, "", at_least(1)),
        double("log.cleaner.min.cleanable.ratio", 0.5, "", between(0, 1)),
        long("log.cleaner.min.compaction.lag.ms", 0, "", at_least(0)),
        integer("log.cleaner.threads", 1, "", at_least(0)),
        names("log.cleanup.policy", ("delete",), "", list_of("compact", "delete")),
        long("log.flush.interval.messages", LONG_MAX, "", at_least(1)),
        long("log.flush.interval.ms", None, ""),
        integer("log.index.interval.bytes", 4_096, "", at_least(0)),
        integer("log.index.size.max.bytes", 10_485_760, "", at_least(4)),
        long("log.local.retention.bytes", -2, "", at_least(-2)),
        long("log.local.retention.ms", -2, "", at_least(-2)),
        long("log.message.timestamp.after.max.ms", 3_600_000, "", at_least(0)),
        long("log.message.timestamp.before.max.ms", LONG_MAX, "", at_least(0)),
        string(
            "log.message.timestamp.type", "CreateTime", "", one_of("CreateTime", "LogAppendTime")
        ),
        boolean("log.preallocate", False, ""),
        long("log.retention.bytes", -1, ""),
        long("log.retention.ms", None, ""),
        long("log.roll.jitter.ms", None, ""),
        long("log.roll.ms", None, ""),
        integer("log.segment.bytes", 1_073_741_824, "", at_least(SEGMENT_SIZE_MIN)),
        long("log.segment.delete.delay.ms", 60_000, "", at_least(0)),
    ),
    boolean("log.cleaner.enable", True, ""),
    names("log.dir", ("/tmp/kafka-logs",), ""),
    long("log.dir.failure.timeout.ms", 30_000, "", at_least(1)),
    names("log.dirs", None, ""),
    integer("log.flush.offset.checkpoint.interval.ms", 60_000, "", at_least(0)),
    long("log.flush.scheduler.interval.ms", LONG_MAX, ""),
    integer("log.flush.start.offset.checkpoint.interval.ms", 60_000, "", at_least(0)),
    long("log.retention.check.interval.ms", 300_000, "", at_least(1)),
    integer("log.retention.hours", 168, ""),
    integer("log.retention.minutes", None, ""),
    integer("log.roll.hours", 168, "", at_least(1)),
    integer("log.roll.jitter.hours", 0, "", at_least(0)),
    *internal(long("log.initial.task.delay.ms", 30_000, "", at_least(0))),
)
