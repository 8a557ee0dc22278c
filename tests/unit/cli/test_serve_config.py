"""How the options of `moldau serve` become settings."""

from pathlib import Path

import pytest

from moldau.base.errors import UserError
from moldau.cli.broker_options import DEFAULTS, _overrides
from moldau.server.configuration.settings import BrokerSettings

FILE = """
listeners=INTERNAL://:9093,PLAINTEXT://:9092
advertised.listeners=INTERNAL://elsewhere:9093,PLAINTEXT://elsewhere:9092
listener.security.protocol.map=INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=INTERNAL
log.dirs=/file
"""


def load(text, *pairs, data=None, listen=None, environ=None, defaults=None):
    return BrokerSettings.load(
        text, _overrides(pairs, data, listen), environ or {}, defaults=defaults or {}
    )


def test_without_a_file_the_broker_stays_beside_its_user():
    settings = load(None, defaults=DEFAULTS)
    assert settings.log_dirs == ("moldau-data",)
    (endpoint,) = settings.endpoints
    assert endpoint.host == "127.0.0.1"
    assert (endpoint.advertised_host, endpoint.advertised_port) == ("127.0.0.1", 9092)


def test_the_environment_wins_over_those_defaults():
    environ = {"KAFKA_LOG_DIRS": "/env", "KAFKA_LISTENERS": "PLAINTEXT://:9095"}
    settings = load(None, environ=environ, defaults=DEFAULTS)
    assert settings.log_dirs == ("/env",)
    assert settings.endpoints[0].port == 9095


def test_data_and_listen_win_over_a_file_and_its_advertised_listeners():
    settings = load(FILE, data=Path("/option"), listen="127.0.0.1:9099")
    assert settings.log_dirs == ("/option",)
    (endpoint,) = settings.endpoints
    assert (endpoint.advertised_host, endpoint.advertised_port) == ("127.0.0.1", 9099)
    assert settings.listeners.inter_broker == endpoint.name


def test_an_ipv6_address_is_listened_on():
    (endpoint,) = load(None, listen="[::1]:0").endpoints
    assert (endpoint.host, endpoint.port) == ("::1", 0)


def test_single_keys_are_overridden_and_may_hold_any_text():
    settings = load(FILE, "num.partitions=4", "broker.rack=a=b")
    assert settings.num_partitions == 4
    assert settings.rack == "a=b"


@pytest.mark.parametrize("pair", ["num.partitions", "=4", ""])
def test_an_override_without_a_key_or_a_value_is_refused(pair):
    with pytest.raises(UserError, match="expected KEY=VALUE"):
        _overrides((pair,), None, None)


def test_an_address_without_a_port_is_refused():
    with pytest.raises(UserError, match="expected HOST:PORT"):
        _overrides((), None, "localhost")
