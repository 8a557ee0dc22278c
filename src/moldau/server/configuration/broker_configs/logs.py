"""Configs of topics and their logs."""

from __future__ import annotations

from sys import float_info
from typing import Final

from moldau.server.configuration.definition import (
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
    not_zero,
    one_of,
    per_broker,
    string,
    without_effect,
)
from moldau.storage.topic_config import LONG_MAX

SEGMENT_SIZE_MIN: Final = 14
"""The smallest a log of Kafka 1.1 accepted; its users keep the small segments they teach with."""

NO_PREALLOCATION: Final = "files grow as they are written"
ONE_CHECKPOINT: Final = "all checkpoints are written together"
ONE_LOOP: Final = "logs are loaded one after the other"
NO_REPLICATION: Final = "replicas do not move between directories in this version"
ONE_CLEANER: Final = "one cleaner serves all logs, in a process of its own"

LOGS: tuple[ConfigDefinition, ...] = (
    integer(
        "num.partitions",
        1,
        "Partitions of a topic that is created without a number of them.",
        at_least(1),
    ),
    integer(
        "default.replication.factor",
        1,
        "Replicas of a topic that is created without a number of them.",
    ),
    boolean(
        "auto.create.topics.enable",
        True,
        "Create a topic when somebody asks for one that does not exist.",
    ),
    boolean("delete.topic.enable", True, "Allow topics to be deleted."),
    names(
        "log.dirs",
        None,
        "Directories of the logs; a new partition goes to the one with the fewest.",
    ),
    names(
        "log.dir",
        ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default, which stands
        "The directory of the logs where log.dirs is not set.",
    ),
    integer(
        "log.retention.minutes",
        None,
        "How long records are kept, in minutes, where log.retention.ms is not set.",
        not_zero,
    ),
    integer(
        "log.retention.hours",
        168,
        "How long records are kept, in hours, where nothing more exact is set.",
        not_zero,
    ),
    long(
        "log.retention.check.interval.ms",
        300_000,
        "How often logs are looked through for segments to delete.",
        at_least(1),
    ),
    integer(
        "log.roll.hours",
        168,
        "How old a segment may become, in hours, where log.roll.ms is not set.",
        at_least(1),
    ),
    integer(
        "log.roll.jitter.hours",
        0,
        "The same in hours, where log.roll.jitter.ms is not set.",
        at_least(0),
    ),
    long(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        "Stands in for log.flush.interval.ms where that is not set.",
    ),
    integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often it is written down how far logs are on the disk.",
        at_least(0),
    ),
    *cluster_wide(
        integer(
            "producer.id.expiration.ms",
            86_400_000,
            "How long a silent producer's sequence numbers are remembered.",
            at_least(1),
        ),
        integer(
            "message.max.bytes",
            1_048_588,
            "The largest record batch that is accepted.",
            at_least(0),
        ),
        integer(
            "min.insync.replicas",
            1,
            "In-sync replicas a write with acks=all needs to be accepted.",
            at_least(1),
        ),
        string(
            "compression.type",
            "producer",
            "How batches are kept: as the producer compressed them, or all with one codec.",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        integer(
            "compression.gzip.level",
            -1,
            "How hard gzip tries; -1 leaves it to the library.",
            between_or(1, 9, -1),
        ),
        integer("compression.lz4.level", 9, "How hard lz4 tries.", between(1, 17)),
        integer("compression.zstd.level", 3, "How hard zstd tries.", between(-131_072, 22)),
        names(
            "log.cleanup.policy",
            ("delete",),
            "What happens to old segments: delete them, compact them, both, or (empty) keep them.",
            list_of("compact", "delete"),
        ),
        long("log.retention.ms", None, "How long records are kept; -1 means for ever.", not_zero),
        long("log.retention.bytes", -1, "Bytes a partition keeps; -1 means without limit."),
        integer(
            "log.segment.bytes",
            1_073_741_824,
            "The size of one segment file.",
            at_least(SEGMENT_SIZE_MIN),
        ),
        long(
            "log.segment.delete.delay.ms",
            60_000,
            "How long a removed segment stays on the disk.",
            at_least(0),
        ),
        long("log.roll.ms", None, "How old a segment may become before a new one begins."),
        long("log.roll.jitter.ms", None, "By up to how much, drawn at random, log.roll.ms is cut."),
        integer(
            "log.index.interval.bytes",
            4_096,
            "Bytes of log between two entries of its indexes.",
            at_least(0),
        ),
        integer(
            "log.index.size.max.bytes", 10_485_760, "The size an index may grow to.", at_least(4)
        ),
        long(
            "log.flush.interval.messages",
            LONG_MAX,
            "Force a log to the disk after this many records.",
            at_least(1),
        ),
        long(
            "log.flush.interval.ms",
            None,
            "Force a log to the disk when its oldest unforced record is this old.",
        ),
        string(
            "log.message.timestamp.type",
            "CreateTime",
            "Whose time a record carries: the producer's, or that of its append to the log.",
            one_of("CreateTime", "LogAppendTime"),
        ),
        long(
            "log.message.timestamp.before.max.ms",
            LONG_MAX,
            "How far in the past a record's own timestamp may lie.",
            at_least(0),
        ),
        long(
            "log.message.timestamp.after.max.ms",
            3_600_000,
            "How far in the future a record's own timestamp may lie.",
            at_least(0),
        ),
    ),
    *internal(
        integer(
            "producer.id.expiration.check.interval.ms",
            600_000,
            "How often silent producers are looked for.",
            at_least(1),
        ),
    ),
    *without_effect(
        NO_PREALLOCATION,
        *cluster_wide(
            boolean(
                "log.preallocate", False, "Give a new segment its full size on the disk at once."
            ),
        ),
    ),
    *without_effect(
        ONE_CHECKPOINT,
        integer(
            "log.flush.start.offset.checkpoint.interval.ms",
            60_000,
            "How often it is written down where logs start.",
            at_least(0),
        ),
        long(
            "replica.high.watermark.checkpoint.interval.ms",
            5_000,
            "How often it is written down what is committed.",
        ),
        *internal(
            long(
                "log.initial.task.delay.ms",
                30_000,
                "How long after the start the first chores run.",
                at_least(0),
            ),
        ),
    ),
    *without_effect(
        ONE_LOOP,
        *cluster_wide(
            integer(
                "num.recovery.threads.per.data.dir",
                2,
                "Threads that load and flush the logs of one directory.",
                at_least(1),
            ),
        ),
    ),
    long(
        "log.dir.failure.timeout.ms",
        30_000,
        "How long a failed directory may stay unreported before the broker stops.",
        at_least(1),
    ),
    *without_effect(
        NO_REPLICATION,
        integer(
            "num.replica.alter.log.dirs.threads",
            None,
            "Threads that move replicas between directories.",
        ),
    ),
    *per_broker(
        names("cordoned.log.dirs", (), "Directories that take no new partitions; * for all."),
    ),
    boolean("log.cleaner.enable", True, "Run the cleaner."),
    *without_effect(
        ONE_CLEANER,
        *cluster_wide(integer("log.cleaner.threads", 1, "How many cleaners run.", at_least(0))),
    ),
    *cluster_wide(
        long(
            "log.cleaner.backoff.ms",
            15_000,
            "How long a cleaner rests when there is nothing to clean.",
            at_least(0),
        ),
        long(
            "log.cleaner.dedupe.buffer.size",
            134_217_728,
            "Memory for the keys of all cleaners.",
        ),
        integer(
            "log.cleaner.io.buffer.size",
            524_288,
            "Memory for reading and writing of all cleaners.",
            at_least(0),
        ),
        double(
            "log.cleaner.io.buffer.load.factor",
            0.9,
            "How full the cleaner's table of keys may become.",
        ),
        double(
            "log.cleaner.io.max.bytes.per.second",
            float_info.max,
            "How much the cleaners read and write per second.",
        ),
        long(
            "log.cleaner.delete.retention.ms",
            86_400_000,
            "How long compaction keeps the mark of a deleted key.",
            at_least(0),
        ),
        double(
            "log.cleaner.min.cleanable.ratio",
            0.5,
            "The part of a log that must be uncompacted before it is worth compacting.",
            between(0, 1),
        ),
        long(
            "log.cleaner.min.compaction.lag.ms",
            0,
            "The shortest time a record stays uncompacted.",
            at_least(0),
        ),
        long(
            "log.cleaner.max.compaction.lag.ms",
            LONG_MAX,
            "The longest a record may wait for compaction.",
            at_least(1),
        ),
    ),
)
