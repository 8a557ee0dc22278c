"""Configs of authorisation, delegation tokens and TLS."""

from __future__ import annotations

from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    boolean,
    integer,
    java_class,
    long,
    names,
    one_of,
    password,
    per_broker,
    refused,
    string,
    without_effect,
)

NO_AUTHORIZER: Final = (
    "Authorisation is not part of this version, and a broker that ignored it would be open to all"
)
PLAINTEXT: Final = "only PLAINTEXT listeners are served in this version"

SECURITY: tuple[ConfigDefinition, ...] = (
    *refused(
        NO_AUTHORIZER,
        string(
            "authorizer.class.name",
            "",
            "The Java class that decides who may do what; empty lets everybody do everything.",
        ),
    ),
    *without_effect(
        PLAINTEXT,
        *per_broker(
            java_class(
                "principal.builder.class",
                "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
                "The Java class that makes a principal of a connection.",
            ),
            names(
                "ssl.cipher.suites",
                (),
                "The cipher suites to offer; empty leaves the choice to TLS.",
            ),
            string(
                "ssl.client.auth",
                "none",
                "Whether a client must show a certificate.",
                one_of("required", "requested", "none"),
            ),
            names("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "The versions of TLS to offer."),
            string(
                "ssl.endpoint.identification.algorithm",
                "https",
                "How a peer's host name is checked; empty does not check it.",
            ),
            java_class("ssl.engine.factory.class", None, "The Java class that makes TLS engines."),
            password("ssl.key.password", "The password of the private key."),
            string("ssl.keymanager.algorithm", "SunX509", "Java's algorithm for keys."),
            password("ssl.keystore.certificate.chain", "The certificate chain, as PEM."),
            password("ssl.keystore.key", "The private key, as PEM."),
            string(
                "ssl.keystore.location", None, "The file of the private key and its certificates."
            ),
            password("ssl.keystore.password", "The password of that file."),
            string("ssl.keystore.type", "JKS", "The format of that file."),
            string("ssl.protocol", "TLSv1.3", "The version of TLS to prefer."),
            string("ssl.provider", None, "Java's security provider for TLS."),
            string(
                "ssl.secure.random.implementation", None, "Java's random number generator for TLS."
            ),
            string("ssl.trustmanager.algorithm", "PKIX", "Java's algorithm for trust."),
            password("ssl.truststore.certificates", "The certificates that are trusted, as PEM."),
            string(
                "ssl.truststore.location", None, "The file of the certificates that are trusted."
            ),
            password("ssl.truststore.password", "The password of that file."),
            string("ssl.truststore.type", "JKS", "The format of that file."),
        ),
        long(
            "connections.max.reauth.ms",
            0,
            "How long a SASL session lasts before the client must authenticate again.",
        ),
        integer(
            "connection.failed.authentication.delay.ms",
            100,
            "How long a failed authentication is kept waiting before it is closed.",
            at_least(0),
        ),
        string("security.providers", None, "Java classes that make security providers."),
        password("delegation.token.secret.key", "The key delegation tokens are signed with."),
        long(
            "delegation.token.expiry.time.ms",
            86_400_000,
            "How long a delegation token is valid unless renewed.",
            at_least(1),
        ),
        long(
            "delegation.token.max.lifetime.ms",
            604_800_000,
            "How long a delegation token can be renewed.",
            at_least(1),
        ),
        long(
            "delegation.token.expiry.check.interval.ms",
            3_600_000,
            "How often expired delegation tokens are removed.",
            at_least(1),
        ),
        boolean(
            "ssl.allow.dn.changes",
            False,
            "Accept a new certificate with another distinguished name.",
        ),
        boolean(
            "ssl.allow.san.changes", False, "Accept a new certificate with other alternative names."
        ),
        string(
            "ssl.principal.mapping.rules",
            "DEFAULT",
            "Rules that turn a distinguished name into a short one.",
        ),
    ),
)
