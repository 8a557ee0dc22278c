"""A producer's settings, and those that exclude each other."""

from __future__ import annotations

import pytest

from moldau.base.errors import ConfigError
from moldau.client.producer import AsyncProducer, Producer
from moldau.client.producer_settings import ProducerSettings
from moldau.records.compression import Codec


def test_the_defaults_are_kafka_s():
    settings = ProducerSettings()
    assert (settings.required_acks, settings.idempotent) == (-1, True)
    assert (settings.batch_size, settings.linger_ms) == (16_384, 5)
    assert (settings.codec, settings.level) == (Codec.NONE, None)


@pytest.mark.parametrize(
    "excluding",
    [{"acks": 1}, {"acks": "0"}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}],
)
def test_idempotence_gives_way_unless_it_was_asked_for(excluding):
    assert not ProducerSettings(**excluding).idempotent
    with pytest.raises(ConfigError, match="enable_idempotence"):
        ProducerSettings(enable_idempotence=True, **excluding)
    with pytest.raises(ConfigError, match="transactional_id"):
        ProducerSettings(transactional_id="t", **excluding)


@pytest.mark.parametrize(
    "wrong",
    [
        {"acks": "some"},
        {"batch_size": -1},
        {"linger_ms": "soon"},
        {"compression_type": "rar"},
        {"compression_type": "gzip", "compression_gzip_level": 10},
        {"compression_type": "zstd", "compression_zstd_level": 23},
        {"delivery_timeout_ms": 1000},
        {"buffer_memory": 0},
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError):
        ProducerSettings(**wrong)


@pytest.mark.parametrize("face", [AsyncProducer, Producer])
def test_dotted_names_are_taken_and_a_misspelt_one_names_the_nearest(face):
    made = face(**{"bootstrap.servers": "h:1", "linger.ms": "7", "compression.type": "lz4"})
    assert made._settings.linger_ms == 7
    with pytest.raises(ConfigError, match=r"linger\.ms"):
        face(**{"lingr.ms": 5})


def test_a_partitioner_is_named_as_java_names_it():
    name = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    made = AsyncProducer(**{"partitioner.class": name})
    assert type(made._partitioner).__name__ == "RoundRobinPartitioner"
    with pytest.raises(ConfigError, match="round_robin"):
        AsyncProducer(partitioner_class="random")


def test_text_is_read_alike_under_both_spellings():
    for name in ("enable_idempotence", "enable.idempotence"):
        assert not AsyncProducer(**{name: "false"})._settings.idempotent
        assert AsyncProducer(**{name: "true"})._settings.idempotent
