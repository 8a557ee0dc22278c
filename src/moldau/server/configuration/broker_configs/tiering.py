"""Configs of remote storage of old segments."""

from __future__ import annotations

from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    between,
    boolean,
    cluster_wide,
    double,
    integer,
    internal,
    long,
    refused,
    string,
    without_effect,
)
from moldau.storage.topic_config import LONG_MAX

NO_TIERS: Final = "Tiered storage is not part of this version"

TIERING: tuple[ConfigDefinition, ...] = (
    *refused(
        NO_TIERS,
        boolean(
            "remote.log.storage.system.enable",
            False,
            "Keep old segments of topics that ask for it in remote storage.",
        ),
    ),
    *without_effect(
        NO_TIERS,
        *cluster_wide(
            long(
                "log.local.retention.bytes",
                -2,
                "Bytes a tiered partition keeps locally; -2 means log.retention.bytes.",
                at_least(-2),
            ),
            long(
                "log.local.retention.ms",
                -2,
                "How long a tiered partition keeps records locally; -2 means log.retention.ms.",
                at_least(-2),
            ),
            boolean(
                "follower.fetch.last.tiered.offset.enable",
                False,
                "Let a new follower begin behind what is already remote.",
            ),
            integer(
                "remote.fetch.max.wait.ms",
                500,
                "How long a fetch waits for remote data.",
                at_least(1),
            ),
            long(
                "remote.list.offsets.request.timeout.ms",
                30_000,
                "How long a look-up by time waits for remote data.",
                at_least(1),
            ),
            long(
                "remote.log.index.file.cache.total.size.bytes",
                1_073_741_824,
                "Disk space for indexes of remote segments.",
                at_least(1),
            ),
            integer(
                "remote.log.manager.copier.thread.pool.size",
                10,
                "Threads that copy segments away.",
                at_least(1),
            ),
            long(
                "remote.log.manager.copy.max.bytes.per.second",
                LONG_MAX,
                "How much is copied away per second.",
                at_least(1),
            ),
            integer(
                "remote.log.manager.expiration.thread.pool.size",
                10,
                "Threads that delete remote segments.",
                at_least(1),
            ),
            long(
                "remote.log.manager.fetch.max.bytes.per.second",
                LONG_MAX,
                "How much is fetched back per second.",
                at_least(1),
            ),
            integer(
                "remote.log.manager.follower.thread.pool.size",
                2,
                "Threads that follow remote segments on followers.",
                at_least(1),
            ),
            integer("remote.log.reader.threads", 10, "Threads that read remote data.", at_least(1)),
        ),
        *internal(
            long(
                "remote.log.index.file.cache.ttl.ms",
                900_000,
                "How long an unused index of a remote segment is kept.",
                at_least(-1),
            ),
            long(
                "remote.log.manager.task.retry.backoff.ms",
                500,
                "The first rest after a failed task.",
                at_least(1),
            ),
            long(
                "remote.log.manager.task.retry.backoff.max.ms",
                30_000,
                "The longest rest after a failed task.",
                at_least(1),
            ),
            double(
                "remote.log.manager.task.retry.jitter",
                0.2,
                "How much chance is added to that rest.",
                between(0, 0.5),
            ),
        ),
        integer(
            "remote.log.manager.copy.quota.window.num",
            11,
            "Samples that quota is averaged over.",
            at_least(1),
        ),
        integer(
            "remote.log.manager.copy.quota.window.size.seconds",
            1,
            "How long each of those samples is.",
            at_least(1),
        ),
        integer(
            "remote.log.manager.fetch.quota.window.num",
            11,
            "Samples that quota is averaged over.",
            at_least(1),
        ),
        integer(
            "remote.log.manager.fetch.quota.window.size.seconds",
            1,
            "How long each of those samples is.",
            at_least(1),
        ),
        long(
            "remote.log.manager.task.interval.ms",
            30_000,
            "How often logs are looked through for segments to copy or delete.",
            at_least(1),
        ),
        integer(
            "remote.log.manager.thread.pool.size", 2, "Threads for all of these tasks.", at_least(1)
        ),
        integer(
            "remote.log.metadata.custom.metadata.max.bytes",
            128,
            "The most a storage plug-in may note about a segment.",
            at_least(0),
        ),
        string(
            "remote.log.metadata.manager.class.name",
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            "The Java class that remembers which segments are remote.",
        ),
        string("remote.log.metadata.manager.class.path", None, "Where that class is found."),
        string(
            "remote.log.metadata.manager.impl.prefix",
            "rlmm.config.",
            "The beginning of the keys meant for that class.",
        ),
        string(
            "remote.log.metadata.manager.listener.name",
            None,
            "The listener that class connects to.",
        ),
        integer(
            "remote.log.reader.max.pending.tasks",
            100,
            "Reads of remote data that may wait.",
            at_least(1),
        ),
        string(
            "remote.log.storage.manager.class.name",
            None,
            "The Java class that stores segments remotely.",
        ),
        string("remote.log.storage.manager.class.path", None, "Where that class is found."),
        string(
            "remote.log.storage.manager.impl.prefix",
            "rsm.config.",
            "The beginning of the keys meant for that class.",
        ),
    ),
)
