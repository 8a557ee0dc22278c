"""What a producer is given by the user: taken, or refused before anything is sent."""

from __future__ import annotations

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from moldau.base.errors import ConfigError
from moldau.client.producer import AsyncProducer, Producer, ProducerRecord
from moldau.client.producing.partitioners import RoundRobinPartitioner
from moldau.engine.murmur2 import partition_for_key


class Last:
    """Chooses the last partition."""

    def configure(self, configs):
        self.configured = configs

    def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
        return cluster.partition_count(topic) - 1

    def close(self):
        """Have nothing to close."""


def scenario_of(work, **settings):
    async def scenario():
        async with (
            FaultyLog(3, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address, **settings) as producer,
        ):
            await work(producer)

    run_without_leaks(scenario())


@pytest.mark.parametrize("given", [Last, Last()], ids=["class", "object"])
def test_a_partitioner_is_taken_as_a_class_or_an_object(given):
    async def work(producer):
        assert (await producer.send("t", b"v")).partition == 2

    scenario_of(work, partitioner_class=given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (RoundRobinPartitioner, "cannot be made"),
        ("robin", "nor one of default, round_robin"),
        (5, "is no partitioner"),
    ],
)
def test_what_is_no_partitioner_is_refused_by_name(given, reason):
    with pytest.raises(ConfigError, match=reason):
        Producer(partitioner_class=given)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_key_of_another_kind_of_bytes_goes_where_its_bytes_go(kind):
    async def work(producer):
        metadata = await producer.send("t", b"v", kind(b"key"))
        metadata = await producer.send("t", b"v", kind(b"key"))
        assert metadata.partition == partition_for_key(b"key", 3)

    scenario_of(work)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_values_and_headers_of_another_kind_are_written_as_bytes(kind):
    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address) as producer,
        ):
            for value in (b"parked", b"put"):
                await producer.send("t", kind(value), headers=[["a", kind(b"1")], ("b", None)])
        (log,) = broker.logs
        assert log.values == [b"parked", b"put"]
        assert log.headers == [[("a", b"1"), ("b", None)]] * 2

    run_without_leaks(scenario())


def test_send_many_refuses_a_record_of_another_topic():
    async def work(producer):
        with pytest.raises(ValueError, match="a record for other is not one for t"):
            await producer.send_many("t", [ProducerRecord("other", b"v")])

    scenario_of(work)


def test_false_in_a_properties_file_is_false():
    producer = Producer(**{"enable.idempotence": "false", "acks": "1"})
    assert producer._settings.idempotent is False
    with pytest.raises(ConfigError, match="interceptor_classes"):
        Producer(**{"interceptor.classes": "com.example.Interceptor"})
