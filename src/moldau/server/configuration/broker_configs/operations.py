"""Configs of policies, quotas and metrics."""

from __future__ import annotations

from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    cluster_wide,
    integer,
    java_class,
    long,
    names,
    refused,
    string,
    without_effect,
)

NO_POLICY: Final = (
    "Java classes cannot be loaded, and a broker that ignored this one would not keep its rules"
)
NO_QUOTAS: Final = "quotas are not part of this version"
OWN_METRICS: Final = "metrics are served as Prometheus text, see moldau.metrics.listen"

OPERATIONS: tuple[ConfigDefinition, ...] = (
    *refused(
        NO_POLICY,
        java_class(
            "create.topic.policy.class.name", None, "The Java class that may refuse new topics."
        ),
        java_class(
            "alter.config.policy.class.name",
            None,
            "The Java class that may refuse changes of configs.",
        ),
        java_class("client.quota.callback.class", None, "The Java class that decides on quotas."),
    ),
    *without_effect(
        NO_QUOTAS,
        integer("quota.window.num", 11, "Samples client quotas are averaged over.", at_least(1)),
        integer("quota.window.size.seconds", 1, "How long each of those samples is.", at_least(1)),
        integer(
            "replication.quota.window.num",
            11,
            "Samples the replication quota is averaged over.",
            at_least(1),
        ),
        integer(
            "replication.quota.window.size.seconds",
            1,
            "How long each of those samples is.",
            at_least(1),
        ),
        integer(
            "alter.log.dirs.replication.quota.window.num",
            11,
            "Samples the quota of moves between directories is averaged over.",
            at_least(1),
        ),
        integer(
            "alter.log.dirs.replication.quota.window.size.seconds",
            1,
            "How long each of those samples is.",
            at_least(1),
        ),
        integer(
            "controller.quota.window.num",
            11,
            "Samples the quota of changes of metadata is averaged over.",
            at_least(1),
        ),
        integer(
            "controller.quota.window.size.seconds",
            1,
            "How long each of those samples is.",
            at_least(1),
        ),
    ),
    *without_effect(
        OWN_METRICS,
        *cluster_wide(
            names(
                "metric.reporters",
                ("org.apache.kafka.common.metrics.JmxReporter",),
                "Java classes that report metrics.",
            ),
        ),
        integer("metrics.num.samples", 2, "Samples a metric is computed over.", at_least(1)),
        string("metrics.recording.level", "INFO", "How detailed the metrics are."),
        long("metrics.sample.window.ms", 30_000, "How long each of those samples is.", at_least(1)),
        names(
            "kafka.metrics.reporters", (), "Java classes that report metrics of the earlier kind."
        ),
        integer("kafka.metrics.polling.interval.secs", 10, "How often those report.", at_least(1)),
        integer(
            "telemetry.max.bytes",
            1_048_576,
            "The most metrics a client may push at once.",
            at_least(1),
        ),
    ),
)
