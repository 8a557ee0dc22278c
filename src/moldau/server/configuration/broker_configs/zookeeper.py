"""Configs of a broker whose cluster keeps its metadata in ZooKeeper, as up to Kafka 3.9."""

from __future__ import annotations

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    boolean,
    integer,
    internal,
    names,
    password,
    string,
    without_effect,
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
        boolean(
            "broker.id.generation.enable",
            True,
            "Draw an id in ZooKeeper for a broker whose settings and folders have none.",
        ),
        integer(
            "reserved.broker.max.id", 1000, "Ids that are drawn are above this one.", at_least(0)
        ),
        boolean("zookeeper.set.acl", False, "Not supported: it must be false."),
    ),
    *internal(
        boolean("zookeeper.ssl.client.enable", False, "Encrypt the connection to ZooKeeper (TLS)."),
        string("zookeeper.clientCnxnSocket", None, "With TLS, Kafka asks for Netty's class here."),
        string(
            "zookeeper.ssl.truststore.location",
            None,
            "A PEM file of the certificates that are trusted; those of the system if not set.",
        ),
        string("zookeeper.ssl.truststore.type", None, "PEM, as for a file that ends in .pem."),
        string(
            "zookeeper.ssl.keystore.location",
            None,
            "A PEM file with the broker's private key and its certificates, if servers want one.",
        ),
        string("zookeeper.ssl.keystore.type", None, "PEM, as for a file that ends in .pem."),
        password("zookeeper.ssl.keystore.password", "Of the private key."),
        string(
            "zookeeper.ssl.endpoint.identification.algorithm",
            "HTTPS",
            "HTTPS checks that a certificate names its server; empty does not.",
        ),
        string("zookeeper.ssl.protocol", None, "TLSv1.2 or TLSv1.3; both if not set."),
        names("zookeeper.ssl.enabled.protocols", (), "Versions of TLS that may be agreed on."),
        string("zookeeper.ssl.cipher.suites", None, "Not supported: it must not be set."),
        boolean("zookeeper.ssl.crl.enable", False, "Not supported: it must be false."),
        boolean("zookeeper.ssl.ocsp.enable", False, "Not supported: it must be false."),
        *without_effect(
            "a PEM file of certificates has no password",
            password("zookeeper.ssl.truststore.password", "Not needed."),
        ),
    ),
)
