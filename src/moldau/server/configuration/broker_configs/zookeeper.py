"""Configs of a broker whose cluster keeps its metadata in ZooKeeper, as up to Kafka 3.9."""

from __future__ import annotations

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    integer,
    internal,
    string,
)

ZOOKEEPER: tuple[ConfigDefinition, ...] = (
    *internal(
        string(
            "zookeeper.connect",
            None,
            "The ZooKeeper of the cluster, HOST:PORT,HOST:PORT/chroot; not with process.roles.",
        ),
        integer(
            "zookeeper.session.timeout.ms",
            18_000,
            "After this time of silence ZooKeeper takes a broker for dead.",
            at_least(1),
        ),
        integer(
            "zookeeper.connection.timeout.ms",
            None,
            "How long a start waits for ZooKeeper; as long as a session if not set.",
        ),
        integer(
            "leader.imbalance.per.broker.percentage",
            10,
            "Leaders go back to preferred replicas above this share; for ZooKeeper.",
            at_least(0),
        ),
    ),
)
