"""What a strict type checker says of programs that use the client: nothing, until one errs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

from moldau import Consumer, Producer
from moldau.client.consumer import ConsumerKeywords
from moldau.client.producer import ProducerKeywords

PROGRAM = '''\
import asyncio
import concurrent.futures
from collections.abc import Mapping
from typing import Any, assert_type

from moldau import (
    AsyncConsumer,
    AsyncDelivery,
    AsyncProducer,
    Consumer,
    Delivery,
    OffsetAndMetadata,
    Producer,
    ProducerRecord,
    Record,
    RecordMetadata,
    TopicPartition,
)
from moldau.client.consumer import ConsumerKeywords
from moldau.client.producer import ProducerKeywords

plain = Consumer("h:1", group_id="g")
named = AsyncConsumer("h:1", value_deserializer="json")
sender = Producer("h:1")
read = Consumer("h:1", key_deserializer=bytes.decode, value_deserializer=int)
declared: Consumer[bytes | None, dict[str, int]] = Consumer("h:1", value_deserializer="json")
properties: dict[str, Any] = {"linger.ms": "5"}
from_file = Producer(**properties)


def look() -> None:
    assert_type(read.poll(), list[Record[str, int]])
    ends = read.end_offsets([("t", 0), TopicPartition("t", 1)])
    read.offsets_for_times(ends)
    read.offsets_for_times({("t", 0): 5})
    read.commit({TopicPartition("t", 0): OffsetAndMetadata(5)})
    read.commit({("t", 0): OffsetAndMetadata(5)})


def collect(deliveries: list[Delivery]) -> set[concurrent.futures.Future[RecordMetadata]]:
    for one in concurrent.futures.as_completed(deliveries):
        assert_type(one.result(), RecordMetadata)
    return {*concurrent.futures.wait(deliveries).done}


async def gather(deliveries: list[AsyncDelivery]) -> set[AsyncDelivery]:
    assert_type(await asyncio.gather(*deliveries), list[RecordMetadata])
    assert_type(await asyncio.wait_for(asyncio.shield(deliveries[0]), 5), RecordMetadata)
    done, _ = await asyncio.wait(deliveries)
    return done


Raw = bytes | None
Sendable = bytes | bytearray | memoryview | None


def upper(text: str) -> bytes:
    return text.upper().encode()


class Point:
    """A value of the user's own."""


class Points:
    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None: ...

    def serialize(self, topic: str, data: Point) -> bytes:
        return b""

    def deserialize(self, topic: str, data: bytes | None) -> Point:
        return Point()

    def close(self) -> None: ...


def read_by_name(some_name: str) -> None:
    assert_type(Consumer("h:1"), Consumer[Raw, Raw])
    assert_type(Consumer("h:1", value_deserializer="str"), Consumer[Raw, str])
    assert_type(Consumer("h:1", key_deserializer="string"), Consumer[str, Raw])
    assert_type(Consumer(key_deserializer="str", value_deserializer="str"), Consumer[str, str])
    assert_type(Consumer(key_deserializer="str", value_deserializer="json"), Consumer[str, Any])
    assert_type(Consumer(value_deserializer="json", group_id="g"), Consumer[Raw, Any])
    assert_type(Consumer(key_deserializer="str", value_deserializer=Points()), Consumer[str, Point])
    assert_type(Consumer(key_deserializer=int, value_deserializer="str"), Consumer[int, str])
    assert_type(Consumer(key_deserializer=int, value_deserializer="json"), Consumer[int, Any])
    assert_type(Consumer(value_deserializer=int), Consumer[Raw, int])
    assert_type(Consumer(value_deserializer=some_name), Consumer[Raw, Any])
    assert_type(Consumer(key_deserializer="long", value_deserializer=int), Consumer[Any, Any])
    assert_type(Consumer(**properties), Consumer[Any, Any])
    nullable: Consumer[str | None, str] = Consumer(
        key_deserializer="str", value_deserializer="str"
    )
    known: Consumer[int, str] = Consumer(key_deserializer="long", value_deserializer="str")
    Consumer[int, str]("h:1", key_deserializer="long", value_deserializer="str")
    with Consumer("h:1", topics=["t"], value_deserializer="str") as consumer:
        for record in consumer:
            assert_type(record.key, Raw)
            assert_type(record.value, str)
    settings: ConsumerKeywords = {"group_id": "g", "max_poll_records": 5}
    Consumer("h:1", value_deserializer="str", **settings)


async def read_by_name_in_asyncio() -> None:
    async with AsyncConsumer("h:1", topics=["t"], value_deserializer="str") as consumer:
        async for record in consumer:
            assert_type(record, Record[Raw, str])
        assert_type(await consumer.poll(), list[Record[Raw, str]])


def send_by_name(some_name: str) -> None:
    assert_type(Producer("h:1"), Producer[Sendable, Sendable])
    assert_type(Producer("h:1", value_serializer="str"), Producer[Sendable, str])
    assert_type(Producer(key_serializer="str", value_serializer="json"), Producer[str, Any])
    assert_type(Producer(key_serializer=upper, value_serializer="json"), Producer[str, Any])
    assert_type(Producer(key_serializer="str", value_serializer=Points()), Producer[str, Point])
    assert_type(Producer(value_serializer=some_name), Producer[Sendable, Any])
    Producer("h:1", value_serializer="json").send("t", {"any": 1}, b"key")
    Producer("h:1", value_serializer="str").send_many("t", ["a", ProducerRecord("t", "b")])
    Producer("h:1").send("t", bytearray(b"a"))
    Producer("h:1").send_many("t", [ProducerRecord("t", b"b")])
    settings: ProducerKeywords = {"linger_ms": 5}
    AsyncProducer("h:1", value_serializer="str", **settings).send("t", None, b"key")


misspelt = Producer("h:1", linger_msec=5)
by_name = Consumer("h:1", value_deserializer="str", group="g")
number_for_text = AsyncProducer("h:1", key_serializer="str").send("t", b"value", 5)
no_serializer = Producer("h:1").send("t", "text")
other_type: Consumer[int, int] = Consumer(key_deserializer="str", value_deserializer="str")
'''

ERRORS = {
    "misspelt": 'Unexpected keyword argument "linger_msec"',
    "by_name": 'Unexpected keyword argument "group" for overloaded function "Consumer"',
    "number_for_text": 'Argument 3 to "send" of "AsyncProducer" has incompatible type "int"',
    "no_serializer": 'Argument 2 to "send" of "Producer" has incompatible type "str"',
    "other_type": "Incompatible types in assignment",
}
"""What is wrong in the program, by the variable, and what mypy says of it."""


@pytest.mark.process
def test_strict_checking_finds_what_is_wrong_and_nothing_else(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", cache, program],
        capture_output=True,
        text=True,
        timeout=200,  # most of it is mypy reading all of the client without a cache
        check=False,
    )
    found = {}
    for number, text in re.findall(r":(\d+): error: (.*)", done.stdout):
        variable = re.split(r"\W", PROGRAM.splitlines()[int(number) - 1])[0]
        found.setdefault(variable, text)
    assert found.keys() == ERRORS.keys(), done.stdout + done.stderr
    for variable, text in ERRORS.items():
        assert found[variable].startswith(text)


@pytest.mark.parametrize(
    ("keywords", "client"), [(ConsumerKeywords, Consumer), (ProducerKeywords, Producer)]
)
def test_the_keywords_for_type_checkers_are_those_of_the_signature(keywords, client):
    others = ("self", "bootstrap_servers", "_ports")
    of_signature = {
        name: parameter.annotation
        for name, parameter in inspect.signature(client.__init__).parameters.items()
        if name not in others and not name.endswith("serializer")
    }
    of_types = {name: form.__forward_arg__ for name, form in keywords.__annotations__.items()}
    assert of_types == of_signature
