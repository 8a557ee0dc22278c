"""The configs of states."""

from __future__ import annotations

from moldau.server.config_definition import (
    ConfigDefinition,
    at_least,
    between,
    boolean,
    cluster_wide,
    integer,
    internal,
    short,
)

STATES: tuple[ConfigDefinition, ...] = (
    integer("share.coordinator.append.linger.ms", -1, "", at_least(-1)),
    integer("share.coordinator.load.buffer.size", 5_242_880, "", at_least(1)),
    integer("share.coordinator.snapshot.update.records.per.snapshot", 500, "", between(0, 500)),
    integer("share.coordinator.state.topic.compression.codec", 0, ""),
    short("share.coordinator.state.topic.min.isr", 2, "", at_least(1)),
    integer("share.coordinator.state.topic.num.partitions", 50, "", at_least(1)),
    short("share.coordinator.state.topic.replication.factor", 3, "", at_least(1)),
    integer("share.coordinator.state.topic.segment.bytes", 104_857_600, "", at_least(1)),
    integer("share.coordinator.threads", 1, "", at_least(1)),
    integer("share.coordinator.write.timeout.ms", 5_000, "", at_least(1)),
    integer("share.fetch.purgatory.purge.interval.requests", 1_000, ""),
    integer("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, "", at_least(1)),
    integer("transaction.max.timeout.ms", 900_000, "", at_least(1)),
    integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, "", at_least(1)
    ),
    integer("transaction.state.log.load.buffer.size", 5_242_880, "", at_least(1)),
    integer("transaction.state.log.min.isr", 2, "", at_least(1)),
    integer("transaction.state.log.num.partitions", 50, "", at_least(1)),
    short("transaction.state.log.replication.factor", 3, "", at_least(1)),
    integer("transaction.state.log.segment.bytes", 104_857_600, "", at_least(1)),
    boolean("transaction.two.phase.commit.enable", False, ""),
    integer("transactional.id.expiration.ms", 604_800_000, "", at_least(1)),
    *cluster_wide(
        integer("share.coordinator.cached.buffer.max.bytes", 1_048_588, "", at_least(524_288)),
        boolean("transaction.partition.verification.enable", True, ""),
    ),
    *internal(
        integer("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, "", at_least(1)),
        integer("share.coordinator.state.topic.prune.interval.ms", 300_000, "", at_least(1)),
    ),
)
