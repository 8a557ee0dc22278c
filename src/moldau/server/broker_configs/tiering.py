"""The configs of tiering."""

from __future__ import annotations

from moldau.server.config_definition import (
    ConfigDefinition,
    at_least,
    between,
    boolean,
    cluster_wide,
    double,
    integer,
    internal,
    long,
    string,
)
from moldau.storage.topic_config import LONG_MAX

TIERING: tuple[ConfigDefinition, ...] = (
    *cluster_wide(
        integer("remote.fetch.max.wait.ms", 500, "", at_least(1)),
        long("remote.list.offsets.request.timeout.ms", 30_000, "", at_least(1)),
        long("remote.log.index.file.cache.total.size.bytes", 1_073_741_824, "", at_least(1)),
        integer("remote.log.manager.copier.thread.pool.size", 10, "", at_least(1)),
        long("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, "", at_least(1)),
        integer("remote.log.manager.expiration.thread.pool.size", 10, "", at_least(1)),
        long("remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, "", at_least(1)),
        integer("remote.log.manager.follower.thread.pool.size", 2, "", at_least(1)),
        integer("remote.log.reader.threads", 10, "", at_least(1)),
    ),
    *internal(
        long("remote.log.index.file.cache.ttl.ms", 900_000, "", at_least(-1)),
        long("remote.log.manager.task.retry.backoff.max.ms", 30_000, "", at_least(1)),
        long("remote.log.manager.task.retry.backoff.ms", 500, "", at_least(1)),
        double("remote.log.manager.task.retry.jitter", 0.2, "", between(0, 0.5)),
    ),
    integer("remote.log.manager.copy.quota.window.num", 11, "", at_least(1)),
    integer("remote.log.manager.copy.quota.window.size.seconds", 1, "", at_least(1)),
    integer("remote.log.manager.fetch.quota.window.num", 11, "", at_least(1)),
    integer("remote.log.manager.fetch.quota.window.size.seconds", 1, "", at_least(1)),
    long("remote.log.manager.task.interval.ms", 30_000, "", at_least(1)),
    integer("remote.log.manager.thread.pool.size", 2, "", at_least(1)),
    integer("remote.log.metadata.custom.metadata.max.bytes", 128, "", at_least(0)),
    string(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "",
    ),
    string("remote.log.metadata.manager.class.path", None, ""),
    string("remote.log.metadata.manager.impl.prefix", "rlmm.config.", ""),
    string("remote.log.metadata.manager.listener.name", None, ""),
    integer("remote.log.reader.max.pending.tasks", 100, "", at_least(1)),
    string("remote.log.storage.manager.class.name", None, ""),
    string("remote.log.storage.manager.class.path", None, ""),
    string("remote.log.storage.manager.impl.prefix", "rsm.config.", ""),
    boolean("remote.log.storage.system.enable", False, ""),
)
