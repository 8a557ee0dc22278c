"""Configs of Kafka's earlier releases that files still have. Kafka 4 knows none of them.

They are named so that a file of the ZooKeeper age starts a broker with one line of notice instead
of a warning for each of them. Where something took the place of one, a line of its own says what:
without it the broker would not do what its file asks for. None is described unless it is set.

The source is Kafka's upgrade notes and the classes of settings in its releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.base.removed_settings import Removed
from moldau.server.configuration.definition import (
    ConfigDefinition,
    internal,
    password,
    string,
    without_effect,
)

GONE: Final = "Kafka 4 has it no more"

_PER_TOPIC = Removed("0.8.1", "a config of the topic")

REPLACED: Final[Mapping[str, Removed]] = {
    "advertised.host.name": Removed("3.0", "advertised.listeners"),
    "advertised.port": Removed("3.0", "advertised.listeners"),
    "brokerid": Removed("0.8", "node.id"),
    "delegation.token.master.key": Removed("4.0", "delegation.token.secret.key"),
    "eligible.leader.replicas.enable": Removed("4.0", "the feature eligible.leader.replicas"),
    "group.coordinator.new.enable": Removed("4.0", "group.coordinator.rebalance.protocols"),
    "host.name": Removed("3.0", "listeners"),
    "hostname": Removed("0.8", "listeners"),
    "log.cleanup.interval.mins": Removed("0.8.1", "log.retention.check.interval.ms"),
    "log.default.flush.interval.ms": Removed("0.8", "log.flush.interval.ms"),
    "log.default.flush.scheduler.interval.ms": Removed("0.8", "log.flush.scheduler.interval.ms"),
    "log.delete.delay.ms": Removed("0.9", "log.segment.delete.delay.ms"),
    "log.file.size": Removed("0.8", "log.segment.bytes"),
    "log.flush.interval": Removed("0.8", "log.flush.interval.messages"),
    "log.flush.interval.ms.per.topic": _PER_TOPIC,
    "log.message.timestamp.difference.max.ms": Removed(
        "4.0", "log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "log.retention.bytes.per.topic": _PER_TOPIC,
    "log.retention.hours.per.topic": _PER_TOPIC,
    "log.retention.size": Removed("0.8", "log.retention.bytes"),
    "log.roll.hours.per.topic": _PER_TOPIC,
    "log.segment.bytes.per.topic": _PER_TOPIC,
    "max.message.size": Removed("0.8", "message.max.bytes"),
    "max.socket.request.bytes": Removed("0.8", "socket.request.max.bytes"),
    "num.threads": Removed("0.8", "num.io.threads"),
    "port": Removed("3.0", "listeners"),
    "quota.consumer.default": Removed("3.0", "default quotas, set with kafka-configs"),
    "quota.producer.default": Removed("3.0", "default quotas, set with kafka-configs"),
    "replica.lag.max.messages": Removed("0.9", "replica.lag.time.max.ms"),
    "socket.receive.buffer": Removed("0.8", "socket.receive.buffer.bytes"),
    "socket.send.buffer": Removed("0.8", "socket.send.buffer.bytes"),
    "topic.partition.count.map": _PER_TOPIC,
}
"""Names that something else has taken the place of."""

_ZOOKEEPER = (
    "enable.zookeeper",
    "zookeeper.max.in.flight.requests",
    "zookeeper.metadata.migration.enable",
    "zookeeper.metadata.migration.min.batch.size",
    "zookeeper.sync.time.ms",
)
_FORMATS = (
    "log.message.downconversion.enable",
    "log.message.format.version",
)
_OTHERS = (
    "auto.include.jmx.reporter",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "controller.message.queue.size",
    "group.share.enable",
    "kafka.csv.metrics.dir",
    "kafka.csv.metrics.reporter.enabled",
    "offsets.commit.required.acks",
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
)
_SECRETS = (
    "delegation.token.master.key",
    "password.encoder.old.secret",
    "password.encoder.secret",
)

EARLIER: tuple[ConfigDefinition, ...] = (
    *internal(
        string(
            "inter.broker.protocol.version",
            None,
            "Below 2.1, groups and offsets are written so that tools of that time can read them.",
        ),
        *without_effect(
            GONE,
            *(
                string(name, None, f"Replaced by {removed.instead}.")
                for name, removed in REPLACED.items()
                if name not in _SECRETS
            ),
            *(string(name, None, "Of a cluster on ZooKeeper.") for name in _ZOOKEEPER),
            *(string(name, None, "For brokers and clients of old formats.") for name in _FORMATS),
            *(string(name, None, "Removed from Kafka.") for name in _OTHERS),
            *(password(name, "A secret removed from Kafka.") for name in _SECRETS),
        ),
    ),
)
