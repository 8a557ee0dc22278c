"""Settings: Kafka's names and defaults, and a wrong one is refused with the right one named."""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys

import pytest

from moldau import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer
from moldau.base.errors import ConfigError
from moldau.base.network import Address
from moldau.client.consuming.face import ConsumerFace
from moldau.client.producing.face import ProducerFace
from moldau.client.removed_settings import REMOVED
from moldau.client.settings import accepts_kafka_names
from moldau.engine.settings import ConnectionSettings, Settings, pick


class Lingering(Settings):
    linger_ms: float = 5.0
    enable_idempotence: bool = True


@accepts_kafka_names
def client(
    bootstrap_servers="localhost:9092",
    *,
    linger_ms: float = 5.0,
    enable_idempotence: bool = True,
    request_timeout_ms: int = 30_000,
    client_id: str = "",
    key_serializer=None,
    optional: bool | None = None,
):
    values = locals()
    return pick(ConnectionSettings, values), pick(Lingering, values)


def test_keywords_and_dotted_names_set_the_same():
    assert client(linger_ms=7, client_id="a") == client(**{"linger.ms": 7, "client.id": "a"})


def test_text_from_a_properties_file_is_read_as_the_type_of_the_setting():
    connection, lingering = client(
        **{
            "bootstrap.servers": "a:1,b:2",
            "linger.ms": "2.5",
            "enable.idempotence": "False",
            "request.timeout.ms": " 100 ",
            "client.id": "17",
        }
    )
    assert connection.addresses == (Address("a", 1), Address("b", 2))
    assert connection.request_timeout_ms == 100
    assert connection.client_id == "17"
    assert lingering == Lingering(linger_ms=2.5, enable_idempotence=False)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("lingre.ms", 5, "is linger.ms meant?"),
        ("lingr_ms", 5, "is linger_ms meant?"),
        ("request.timeout", 5, "is request.timeout.ms meant?"),
        ("nonsense", 5, "there is no setting nonsense"),
        ("zookeeper.connect", "z:2181", "removed in Kafka 2.0; use bootstrap.servers"),
        ("request.required.acks", 1, "request.required.acks was removed in Kafka 2.0; use acks"),
        ("request_required_acks", 1, "request_required_acks was removed in Kafka 2.0; use acks"),
        ("block.on.buffer.full", 1, "was removed in Kafka 0.11; use max.block.ms"),
        ("num.consumer.fetchers", 1, "was removed in Kafka 2.0; nothing takes its place"),
        ("sasl.mechanism", "PLAIN", "not supported yet"),
        ("ssl.truststore.location", "x", "not supported yet"),
        ("self", 1, "there is no setting self"),
        ("request.timeout.ms", "soon", "is not a whole number"),
        ("enable.idempotence", "yes", "is not true or false"),
        ("enable_idempotence", "yes", "is not true or false"),
        ("enable_idempotence", 1, "is not true or false"),
        ("request_timeout_ms", True, "is not a whole number"),
        ("linger_ms", "soon", "is not a number"),
        ("client_id", 5, "client_id=5 is not text"),
        ("client_id", None, "client_id=None is not text"),
        ("optional", "maybe", "is not true or false"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_helpful_line(name, value, text):
    with pytest.raises(ConfigError, match=text.replace("?", r"\?")):
        client(**{name: value})


def test_a_setting_given_under_both_names_is_refused():
    with pytest.raises(ConfigError, match="twice"):
        client(linger_ms=1, **{"linger.ms": 2})


def test_a_setting_without_meaning_here_is_ignored_with_one_line(caplog):
    with caplog.at_level(logging.INFO, "moldau.client.settings"):
        assert client(**{"metrics.num.samples": 2}) == client()
    (line,) = caplog.messages
    assert "metrics.num.samples is ignored" in line


def test_what_takes_the_place_of_a_removed_setting_exists():
    known = {
        name.replace("_", ".")
        for face in (ProducerFace, ConsumerFace)
        for name in inspect.signature(face).parameters
    }
    first = {removed.instead.split(",")[0].split(" and ")[0] for removed in REMOVED.values()}
    assert {name for name in first if re.fullmatch(r"[a-z.]+", name)} <= known
    assert not known & REMOVED.keys()


@pytest.mark.parametrize("before", [(), ("127.0.0.1:9092",)], ids=["alone", "second"])
@pytest.mark.parametrize("kind", [Producer, AsyncProducer, Consumer, AsyncConsumer, Admin])
def test_a_dict_of_settings_is_refused_with_how_to_give_it(kind, before):
    with pytest.raises(ConfigError, match=re.escape(f"{kind.__name__}(**settings)")):
        kind(*before, {"linger.ms": 5})


@pytest.mark.parametrize("kind", [Producer, AsyncProducer, Consumer, AsyncConsumer])
def test_a_stats_callback_that_is_no_function_is_refused_before_it_is_called(kind):
    with pytest.raises(ConfigError, match="stats_callback=5 is not a function"):
        kind(stats_callback=5)


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("/srv/shop/orders.py", "orders"),
        ("-c", "c"),
        ("", "python"),
        ("/opt/my shop/run me", "run-me"),
    ],
)
def test_a_client_without_a_name_is_named_by_its_program_and_process(monkeypatch, program, named):
    monkeypatch.setattr(sys, "argv", [program])
    for client in (Producer(), Consumer(), Admin()):
        assert client._connection_settings.client_id == f"moldau-{named}-{os.getpid()}"
    assert Producer(client_id="till")._connection_settings.client_id == "till"
