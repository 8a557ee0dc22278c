"""The configs of cluster."""

from __future__ import annotations

from moldau.server.config_definition import (
    ConfigDefinition,
    at_least,
    boolean,
    integer,
    long,
    names,
    string,
)

CLUSTER: tuple[ConfigDefinition, ...] = (
    integer("controller.quorum.append.linger.ms", 25, "", at_least(0)),
    boolean("controller.quorum.auto.join.enable", False, ""),
    names("controller.quorum.bootstrap.servers", (), ""),
    integer("controller.quorum.election.backoff.max.ms", 1_000, "", at_least(0)),
    integer("controller.quorum.election.timeout.ms", 1_000, "", at_least(0)),
    integer("controller.quorum.fetch.max.bytes", 1_048_576, "", at_least(1)),
    integer("controller.quorum.fetch.snapshot.max.bytes", 1_048_576, "", at_least(1)),
    integer("controller.quorum.fetch.timeout.ms", 2_000, "", at_least(0)),
    integer("controller.quorum.request.timeout.ms", 2_000, "", at_least(0)),
    integer("controller.quorum.retry.backoff.ms", 20, "", at_least(0)),
    names("controller.quorum.voters", (), ""),
    string("metadata.log.dir", None, ""),
    long("metadata.log.max.record.bytes.between.snapshots", 20_971_520, "", at_least(1)),
    long("metadata.log.max.snapshot.interval.ms", 3_600_000, "", at_least(0)),
    integer("metadata.log.segment.bytes", 1_073_741_824, "", at_least(8_388_608)),
    long("metadata.log.segment.ms", 604_800_000, ""),
    integer("metadata.max.idle.interval.ms", 500, "", at_least(0)),
    long("metadata.max.retention.bytes", 104_857_600, ""),
    long("metadata.max.retention.ms", 604_800_000, ""),
    integer("replica.fetch.backoff.ms", 1_000, "", at_least(0)),
    integer("replica.fetch.max.bytes", 1_048_576, "", at_least(0)),
    integer("replica.fetch.min.bytes", 1, ""),
    integer("replica.fetch.response.max.bytes", 10_485_760, "", at_least(0)),
    integer("replica.fetch.wait.max.ms", 500, ""),
    long("replica.high.watermark.checkpoint.interval.ms", 5_000, ""),
    long("replica.lag.time.max.ms", 30_000, ""),
    string("replica.selector.class", None, ""),
    integer("replica.socket.receive.buffer.bytes", 65_536, ""),
    integer("replica.socket.timeout.ms", 30_000, ""),
    integer("replication.quota.window.num", 11, "", at_least(1)),
    integer("replication.quota.window.size.seconds", 1, "", at_least(1)),
)
