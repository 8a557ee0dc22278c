"""The consumer's settings: Kafka's names and defaults, and a word about what is wrong."""

from __future__ import annotations

import inspect

import pytest

from moldau.base.errors import ConfigError
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.consumer_settings import ConsumerSettings, ResetKind, ResetPolicy
from moldau.engine.settings import IsolationLevel


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("PT1H30M", 5_400_000),
        ("P2DT3M", 2 * 86_400_000 + 180_000),
        ("PT0.5S", 500),
        ("P1D", 86_400_000),
        ("PT0S", 0),
    ],
)
def test_a_reset_by_duration_is_read_as_java_does(text, milliseconds):
    policy = ResetPolicy.parse(f"by_duration:{text}")
    assert policy == ResetPolicy(ResetKind.BY_DURATION, milliseconds)


@pytest.mark.parametrize(
    "text", ["", "soon", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:-PT1H"]
)
def test_a_reset_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="auto_offset_reset"):
        AsyncConsumer(auto_offset_reset=text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_poll_records": 0}, "max_poll_records=0 is below 1"),
        ({"fetch_min_bytes": -1}, "fetch_min_bytes"),
        ({"group_id": ""}, "group_id is empty"),
        ({"group_id": "g", "group_instance_id": ""}, "group_instance_id is empty"),
        ({"group_id": "g", "heartbeat_interval_ms": 45_000}, "must be below session_timeout_ms"),
        ({"isolation_level": "serializable"}, "isolation_level"),
        ({"topics": "t"}, r"topics is a list of names: \['t'\]"),
        ({"max.poll.recrods": 5}, "is max.poll.records meant"),
        ({"key_deserializer": 5}, "is not a function"),
        ({"enable_auto_commit": "no"}, "enable_auto_commit='no' is not true or false"),
        ({"enable_auto_commit": 0}, "enable_auto_commit=0 is not true or false"),
        ({"group_id": 5}, "group_id=5 is not text"),
        ({"group.id": 5}, "group.id=5 is not text"),
        ({"auto_offset_reset": None}, "auto_offset_reset=None is not text"),
        ({"session_timeout_ms": 6000.5}, "session_timeout_ms=6000.5 is not a whole number"),
        ({"group.protocol": "consumer"}, "group_protocol='consumer' is not supported yet"),
        (
            {"group_id": "g", "partition_assignment_strategy": "fair"},
            "there is no assignor 'fair'",
        ),
        ({"bootstrap_servers": 9092}, "bootstrap_servers=9092 is not host:port"),
    ],
)
def test_wrong_settings_are_named(given, said):
    for face in (AsyncConsumer, Consumer):
        with pytest.raises(ConfigError, match=said):
            face(**given)


def test_kafkas_dotted_names_and_texts_are_taken():
    consumer = AsyncConsumer(
        **{
            "bootstrap.servers": "h:1",
            "group.id": "g",
            "isolation.level": "read_committed",
            "max.poll.records": "7",
            "enable.auto.commit": "false",
        }
    )
    settings = consumer._settings
    assert settings.isolation_level is IsolationLevel.READ_COMMITTED
    assert (settings.group_id, settings.max_poll_records) == ("g", 7)
    assert settings.enable_auto_commit is False


def test_text_is_read_alike_under_both_spellings():
    for name in ("enable_auto_commit", "enable.auto.commit"):
        assert AsyncConsumer(**{name: "false"})._settings.enable_auto_commit is False
        assert AsyncConsumer(**{name: "True"})._settings.enable_auto_commit is True


def test_an_isolation_level_is_taken_in_any_case():
    consumer = AsyncConsumer(isolation_level="READ_COMMITTED")
    assert consumer._settings.isolation_level is IsolationLevel.READ_COMMITTED


def test_the_classic_group_protocol_may_be_named():
    assert AsyncConsumer(**{"group.protocol": "CLASSIC"})._settings == ConsumerSettings(
        group_protocol="CLASSIC"
    )


def test_assignors_in_one_text_are_several():
    consumer = AsyncConsumer(group_id="g", partition_assignment_strategy="range, sticky")
    assert [one.name for one in consumer._assignors] == ["range", "sticky"]


def test_defaults_are_kafkas():
    assert AsyncConsumer()._settings == ConsumerSettings()
    own = ConsumerSettings()
    assert (own.fetch_max_bytes, own.max_partition_fetch_bytes) == (50 << 20, 1 << 20)
    assert (own.fetch_max_wait_ms, own.fetch_min_bytes, own.max_poll_records) == (500, 1, 500)
    assert own.auto_offset_reset.kind is ResetKind.LATEST


@pytest.mark.parametrize("face", [AsyncConsumer, Consumer])
def test_the_kernel_sizes_the_receive_buffer_unless_somebody_else_does(face):
    assert face()._connection_settings.receive_buffer_bytes == -1
    assert face(receive_buffer_bytes=65_536)._connection_settings.receive_buffer_bytes == 65_536


def test_both_faces_have_the_same_methods_with_the_same_parameters():
    def public(face):
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(face, callable)
            if not name.startswith("_")
        }

    assert public(AsyncConsumer) == public(Consumer)


@pytest.mark.parametrize(("former", "now"), [("smallest", "earliest"), ("largest", "latest")])
def test_where_earlier_consumers_went_on_is_said_in_todays_words(former, now):
    with pytest.raises(ConfigError, match=f"'{former}' was removed in Kafka 2.0; use {now}$"):
        AsyncConsumer(auto_offset_reset=former)
