"""Configs of SASL."""

from __future__ import annotations

from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    between,
    boolean,
    double,
    integer,
    java_class,
    long,
    names,
    one_of_any_case,
    password,
    per_broker,
    short,
    string,
    without_effect,
)

PLAINTEXT: Final = "only PLAINTEXT listeners are served in this version"

SASL: tuple[ConfigDefinition, ...] = (
    *without_effect(
        PLAINTEXT,
        *per_broker(
            names("sasl.enabled.mechanisms", ("GSSAPI",), "The SASL mechanisms to offer."),
            string(
                "sasl.mechanism.inter.broker.protocol",
                "GSSAPI",
                "The SASL mechanism brokers use among themselves.",
            ),
            password(
                "sasl.jaas.config",
                "The JAAS line of a listener and mechanism: who this broker is, and whom it knows.",
            ),
            short(
                "sasl.login.refresh.buffer.seconds",
                300,
                "How long before its end a credential is renewed at the latest.",
            ),
            short(
                "sasl.login.refresh.min.period.seconds",
                60,
                "The shortest time between two renewals.",
            ),
            double(
                "sasl.login.refresh.window.factor",
                0.8,
                "After which part of its life a credential is renewed.",
            ),
            double(
                "sasl.login.refresh.window.jitter", 0.05, "How much chance is added to that moment."
            ),
            string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "The path of kinit."),
            long(
                "sasl.kerberos.min.time.before.relogin",
                60_000,
                "How long a Kerberos login rests between two tries.",
            ),
            names(
                "sasl.kerberos.principal.to.local.rules",
                ("DEFAULT",),
                "Rules that turn a Kerberos principal into a short name.",
            ),
            string("sasl.kerberos.service.name", None, "The name brokers run under in Kerberos."),
            double(
                "sasl.kerberos.ticket.renew.jitter",
                0.05,
                "How much chance is added to a ticket's renewal.",
            ),
            double(
                "sasl.kerberos.ticket.renew.window.factor",
                0.8,
                "After which part of its life a ticket is renewed.",
            ),
        ),
        string(
            "sasl.mechanism.controller.protocol",
            "GSSAPI",
            "The SASL mechanism brokers use towards controllers.",
        ),
        java_class(
            "sasl.client.callback.handler.class",
            None,
            "The Java class that answers a client mechanism's questions.",
        ),
        java_class(
            "sasl.server.callback.handler.class",
            None,
            "The Java class that answers a server mechanism's questions.",
        ),
        java_class("sasl.login.class", None, "The Java class that logs in."),
        java_class(
            "sasl.login.callback.handler.class",
            None,
            "The Java class that answers a login's questions.",
        ),
        integer(
            "sasl.login.connect.timeout.ms",
            None,
            "How long connecting to the identity provider may take.",
        ),
        integer(
            "sasl.login.read.timeout.ms", None, "How long the identity provider may take to answer."
        ),
        long("sasl.login.retry.backoff.ms", 100, "The first rest between two tries to log in."),
        long(
            "sasl.login.retry.backoff.max.ms",
            10_000,
            "The longest rest between two tries to log in.",
        ),
        integer(
            "sasl.server.max.receive.size", 524_288, "The largest request before authentication."
        ),
        string(
            "sasl.oauthbearer.assertion.algorithm",
            "RS256",
            "How an assertion is signed.",
            one_of_any_case("ES256", "RS256"),
        ),
        string("sasl.oauthbearer.assertion.claim.aud", None, "The audience an assertion names."),
        integer(
            "sasl.oauthbearer.assertion.claim.exp.seconds",
            300,
            "How long an assertion is valid.",
            between(0, 86_400),
        ),
        string("sasl.oauthbearer.assertion.claim.iss", None, "The issuer an assertion names."),
        boolean(
            "sasl.oauthbearer.assertion.claim.jti.include",
            False,
            "Give each assertion an id of its own.",
        ),
        integer(
            "sasl.oauthbearer.assertion.claim.nbf.seconds",
            60,
            "How long before now an assertion becomes valid.",
            between(0, 3_600),
        ),
        string("sasl.oauthbearer.assertion.claim.sub", None, "The subject an assertion names."),
        string("sasl.oauthbearer.assertion.file", None, "The file of a ready-made assertion."),
        string(
            "sasl.oauthbearer.assertion.private.key.file",
            None,
            "The file of the key assertions are signed with.",
        ),
        password(
            "sasl.oauthbearer.assertion.private.key.passphrase", "The passphrase of that key."
        ),
        string(
            "sasl.oauthbearer.assertion.template.file",
            None,
            "The file of claims that every assertion has.",
        ),
        string(
            "sasl.oauthbearer.client.credentials.client.id",
            None,
            "The client id for the identity provider.",
        ),
        password(
            "sasl.oauthbearer.client.credentials.client.secret",
            "The client secret for the identity provider.",
        ),
        integer(
            "sasl.oauthbearer.clock.skew.seconds",
            30,
            "How far clocks of issuer and broker may be apart.",
        ),
        names("sasl.oauthbearer.expected.audience", (), "Audiences a token may be meant for."),
        string("sasl.oauthbearer.expected.issuer", None, "The issuer a token must come from."),
        long(
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            3_600_000,
            "How often the issuer's keys are read again.",
        ),
        long(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            100,
            "The first rest between two tries to read the issuer's keys.",
        ),
        long(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
            10_000,
            "The longest rest between two tries to read the issuer's keys.",
        ),
        string("sasl.oauthbearer.jwks.endpoint.url", None, "Where the issuer publishes its keys."),
        java_class(
            "sasl.oauthbearer.jwt.retriever.class",
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            "The Java class that gets tokens.",
        ),
        java_class(
            "sasl.oauthbearer.jwt.validator.class",
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
            "The Java class that checks tokens.",
        ),
        string("sasl.oauthbearer.scope", None, "The scope to ask the identity provider for."),
        string(
            "sasl.oauthbearer.scope.claim.name", "scope", "The claim that holds a token's scope."
        ),
        string("sasl.oauthbearer.sub.claim.name", "sub", "The claim that holds a token's subject."),
        string(
            "sasl.oauthbearer.token.endpoint.url",
            None,
            "Where the identity provider issues tokens.",
        ),
    ),
)
