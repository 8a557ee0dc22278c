"""What a producer is given by the user: taken, or refused before anything is sent."""

from __future__ import annotations

import array
from enum import StrEnum

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from moldau.base.errors import ConfigError
from moldau.client.errors import SerializationFailed
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
        (RoundRobinPartitioner, "cannot create"),
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


WIDE = array.array("i", [1, 2])
GAPS = memoryview(b"a-b-c-")[::2]


@pytest.mark.parametrize(
    ("given", "written"), [(memoryview(WIDE), WIDE.tobytes()), (GAPS, b"abc"), (None, None)]
)
def test_a_view_is_written_whole_however_wide_its_items_are(given, written):
    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address) as producer,
        ):
            for _ in ("parked", "put"):
                await producer.send("t", given, partition=0, headers=[("a", given)])
                await producer.send("t", b"v", given, partition=0)
        (log,) = broker.logs
        assert log.values == [written, b"v"] * 2
        assert log.headers[::2] == [[("a", written)]] * 2

    run_without_leaks(scenario())


class Name(StrEnum):
    A = "a"


ONCE = {
    "a generator": lambda: (pair for pair in [("a", b"1")]),
    "a mapping": lambda: {"a": b"1"},
    "an enum": lambda: [(Name.A, b"1")],
}


@pytest.mark.parametrize("make", ONCE.values(), ids=ONCE.keys())
@pytest.mark.parametrize("value", [b"v", bytearray(b"v")], ids=["bytes", "other bytes"])
def test_headers_that_can_be_walked_once_are_written(value, make):
    class Remaking:
        def on_send(self, record):
            return record._replace(headers=make())

    async def scenario():
        async with FaultyLog(1, lambda: Fault.NONE) as broker:
            async with AsyncProducer(broker.address) as producer:
                for _ in ("parked", "put"):
                    await producer.send("t", value, headers=make())
                await producer.send_many("t", [ProducerRecord("t", value, headers=make())])
            async with AsyncProducer(broker.address, interceptor_classes=[Remaking()]) as producer:
                await producer.send("t", value)
        (log,) = broker.logs
        assert log.headers == [[("a", b"1")]] * 4

    run_without_leaks(scenario())


def test_nothing_for_headers_is_none():
    async def work(producer):
        for _ in ("parked", "put"):
            await producer.send("t", b"v", headers=None)

    scenario_of(work)


NO_BYTES = (WIDE, "text", 5, [b"x"])
NO_HEADERS = (
    5, "ab", ["ab"], [("a",)], [iter(("a", b"1"))], [(b"a", b"1")], [("\ud800", b"1")], {"a": "1"},
    *([("a", given)] for given in NO_BYTES),
)  # fmt: skip


def test_what_is_neither_bytes_nor_a_header_is_refused_whether_the_topic_is_known_or_not():
    async def work(producer):
        for _ in ("parked", "put"):
            for given in NO_BYTES:
                with pytest.raises(SerializationFailed, match="the value is of type"):
                    producer.send("t", given)
                with pytest.raises(SerializationFailed, match="the key is of type"):
                    producer.send("t", b"v", given, partition=0)
            for given in NO_HEADERS:
                with pytest.raises(SerializationFailed, match="is not a header"):
                    producer.send("t", b"v", headers=given)
            await producer.send("t", b"v")

    scenario_of(work)


def test_send_many_refuses_a_record_of_another_topic():
    async def work(producer):
        with pytest.raises(ValueError, match="a record for other cannot be sent to t"):
            await producer.send_many("t", [ProducerRecord("other", b"v")])

    scenario_of(work)


def test_false_in_a_properties_file_is_false():
    producer = Producer(**{"enable.idempotence": "false", "acks": "1"})
    assert producer._settings.idempotent is False
    with pytest.raises(ConfigError, match="interceptor_classes"):
        Producer(**{"interceptor.classes": "com.example.Interceptor"})
