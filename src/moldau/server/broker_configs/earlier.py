"""Configs of Kafka's earlier releases that files still have. Kafka 4 knows none of them.

They are named so that a file of the ZooKeeper age starts a broker with one line of notice instead
of a warning for each of them. None is described unless it is set.
"""

from __future__ import annotations

from typing import Final

from moldau.server.config_definition import (
    ConfigDefinition,
    internal,
    password,
    string,
    without_effect,
)

GONE: Final = "Kafka 4 has it no more"

_ADDRESSES = ("advertised.host.name", "advertised.port", "host.name", "port")
_ZOOKEEPER = (
    "broker.id.generation.enable",
    "enable.zookeeper",
    "reserved.broker.max.id",
    "zookeeper.clientCnxnSocket",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests",
    "zookeeper.metadata.migration.enable",
    "zookeeper.metadata.migration.min.batch.size",
    "zookeeper.session.timeout.ms",
    "zookeeper.set.acl",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.client.enable",
    "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.ocsp.enable",
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.type",
    "zookeeper.sync.time.ms",
)
_FORMATS = (
    "log.message.downconversion.enable",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
)
_OTHERS = (
    "auto.include.jmx.reporter",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "controller.message.queue.size",
    "eligible.leader.replicas.enable",
    "group.coordinator.new.enable",
    "group.share.enable",
    "kafka.csv.metrics.dir",
    "kafka.csv.metrics.reporter.enabled",
    "leader.imbalance.per.broker.percentage",
    "log.cleanup.interval.mins",
    "log.delete.delay.ms",
    "log.retention.size",
    "offsets.commit.required.acks",
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
    "quota.consumer.default",
    "quota.producer.default",
    "replica.lag.max.messages",
)
_SECRETS = (
    "delegation.token.master.key",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.truststore.password",
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
            *(string(name, None, "Replaced by listeners.") for name in _ADDRESSES),
            *(string(name, None, "For a cluster on ZooKeeper.") for name in _ZOOKEEPER),
            *(string(name, None, "For brokers and clients of old formats.") for name in _FORMATS),
            *(string(name, None, "Removed from Kafka.") for name in _OTHERS),
            *(password(name, "A secret removed from Kafka.") for name in _SECRETS),
        ),
    ),
)
