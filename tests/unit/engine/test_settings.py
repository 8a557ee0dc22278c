"""Settings of connections: Kafka's defaults, servers in any form, and nothing that cannot be."""

from __future__ import annotations

import pytest

from moldau.base.errors import ConfigError
from moldau.engine.settings import ConnectionSettings, Settings, parse_servers


class Lingering(Settings):
    linger_ms: float = 5.0
    enable_idempotence: bool = True


def test_the_defaults_are_those_of_kafka_4_3():
    settings = ConnectionSettings()
    assert {
        name.replace("_", "."): value
        for name, value in settings.values().items()
        if name.endswith(("_ms", "_bytes", "_strategy", "_lookup", "_protocol"))
        and name != "bootstrap_timeout_ms"  # of our own
    } == {
        "client.dns.lookup": "use_all_dns_ips",
        "connections.max.idle.ms": 540_000,
        "metadata.max.age.ms": 300_000,
        "metadata.recovery.rebootstrap.trigger.ms": 300_000,
        "metadata.recovery.strategy": "rebootstrap",
        "receive.buffer.bytes": 65_536,
        "reconnect.backoff.max.ms": 1_000,
        "reconnect.backoff.ms": 50,
        "request.timeout.ms": 30_000,
        "retry.backoff.max.ms": 1_000,
        "retry.backoff.ms": 100,
        "security.protocol": "PLAINTEXT",
        "send.buffer.bytes": 131_072,
        "socket.connection.setup.timeout.max.ms": 30_000,
        "socket.connection.setup.timeout.ms": 10_000,
    }


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("a:1", [("a", 1)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("::1", [("::1", 9092)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        (["a:1", ("b", 2)], [("a", 1), ("b", 2)]),
    ],
)
def test_servers_are_read_however_they_are_given(given, addresses):
    assert list(parse_servers(given)) == addresses


@pytest.mark.parametrize(
    "given", ["", ",", [], "a:b", "a:0", "a:70000", "a:-1", ":9092", "SSL://a:1"]
)
def test_servers_that_cannot_be_are_refused(given):
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        parse_servers(given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"request_timeout_ms": -1},
        {"retry_backoff_ms": "5"},
        {"reconnect_backoff_ms": True},
        {"metadata_recovery_strategy": "hope"},
        {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"},
        {"security_protocol": "SASL_SSL"},
        {"send_buffer_bytes": -2},
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        ConnectionSettings(**wrong)


def test_settings_cannot_be_changed_and_name_what_they_do_not_have():
    settings = Lingering()
    with pytest.raises(AttributeError, match="linger_ms of Lingering cannot be changed"):
        settings.linger_ms = 7
    with pytest.raises(TypeError, match="Lingering has no acks"):
        Lingering(acks=1)
    assert settings.linger_ms == 5.0


def test_settings_are_equal_by_their_values_and_show_them():
    assert Lingering(linger_ms=5.0) == Lingering()
    assert hash(Lingering(linger_ms=5.0)) == hash(Lingering())
    assert Lingering(linger_ms=6.0) != Lingering()
    assert Lingering() != ConnectionSettings()
    assert repr(Lingering()) == "Lingering(linger_ms=5.0, enable_idempotence=True)"
