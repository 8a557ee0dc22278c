"""What is of the wrong type is refused by the call it was given to, and breaks nothing else."""

from __future__ import annotations

import asyncio
import re

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from kits.scripted_log import TOPIC, ScriptedLog
from moldau.base.errors import ConfigError
from moldau.client.admin import Admin, AsyncAdmin
from moldau.client.administration.configs import ConfigResource
from moldau.client.consumer import AsyncConsumer, Consumer, RebalanceListener
from moldau.client.consuming.coordination import GroupMetadata
from moldau.client.errors import (
    ClientError,
    InvalidArgument,
    InvalidSetting,
    InvalidState,
    InvalidTopic,
)
from moldau.client.producer import AsyncProducer, Producer
from moldau.client.records import OffsetAndMetadata
from moldau.testing import TestBroker

PLACE = (TOPIC, 0)
LONG = "x" * 40_000

NO_RECORDS = [
    (lambda producer, topic: producer.send(None, b"v"), "a topic is named by a str"),
    (lambda producer, topic: producer.send(5, b"v"), "a topic is named by a str"),
    (lambda producer, topic: producer.send([topic], b"v"), "a topic is named by a str"),
    (lambda producer, topic: producer.send(b"t", b"v"), "a topic is named by a str"),
    (lambda producer, topic: producer.send("\udcff", b"v"), "not the name of a topic"),
    (lambda producer, topic: producer.send("x" * 40_000, b"v"), "not the name of a topic"),
    (lambda producer, topic: producer.send(topic, b"v", partition="0"), "partition='0' is not"),
    (lambda producer, topic: producer.send(topic, b"v", partition=0.0), r"partition=0\.0 is not"),
    (lambda producer, topic: producer.send("new", b"v", partition="0"), "partition='0' is not"),
    (lambda producer, topic: producer.send(topic, b"v", partition=False), "partition=False is not"),
]


@pytest.mark.parametrize("settings", [{}, {"value_serializer": bytes}], ids=["bytes", "serialized"])
@pytest.mark.parametrize(("send", "said"), NO_RECORDS)
def test_a_record_for_nowhere_is_refused_and_the_next_is_sent(send, said, settings):
    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address, linger_ms=0, **settings) as producer,
        ):
            broker.topics["u"] = broker.topics["t"]
            for topic in ("t", "u"):  # known after the first, and one that is new
                with pytest.raises((InvalidArgument, InvalidTopic), match=said):
                    send(producer, topic)
                await producer.send("t", b"v")

            def blocking():
                with Producer(broker.address, linger_ms=0, **settings) as producer:
                    for _ in range(2):
                        with pytest.raises((InvalidArgument, InvalidTopic), match=said):
                            send(producer, "t")
                        producer.send("t", b"v").result(10)

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())


def test_one_value_is_not_taken_for_many():
    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address, value_serializer="str") as producer,
        ):
            for given in ("abc", b"abc", 5, None):
                with pytest.raises(InvalidArgument, match="records are several"):
                    await producer.send_many("t", given)
            assert await producer.send_many("t", iter(["a", "b"])) == 2

    run_without_leaks(scenario())


def first_of(batches):
    return anext(batches) if hasattr(batches, "__anext__") else next(batches)


CALLS = {
    "seek": lambda consumer: consumer.seek(PLACE, "5"),
    "seek to half": lambda consumer: consumer.seek(PLACE, 0.5),
    "seek to true": lambda consumer: consumer.seek(PLACE, True),
    "seek too far": lambda consumer: consumer.seek(PLACE, 1 << 63),
    "seek to metadata": lambda consumer: consumer.seek(PLACE, OffsetAndMetadata("5")),
    "seek in no partition": lambda consumer: consumer.seek((TOPIC, "0"), 5),
    "poll": lambda consumer: consumer.poll(timeout_ms="5"),
    "poll for no time": lambda consumer: consumer.poll(timeout_ms=float("nan")),
    "poll for none": lambda consumer: consumer.poll(timeout_ms=None),
    "commit a long text": lambda consumer: consumer.commit({PLACE: OffsetAndMetadata(1, LONG)}),
    "poll for many": lambda consumer: consumer.poll(max_records="5"),
    "position": lambda consumer: consumer.position(PLACE, timeout_ms="5"),
    "partitions": lambda consumer: consumer.partitions_for(None),
    "offsets": lambda consumer: consumer.end_offsets([PLACE], timeout_ms=[]),
    "times": lambda consumer: consumer.offsets_for_times({PLACE: "now"}),
    "times of a list": lambda consumer: consumer.offsets_for_times([PLACE]),
    "commit": lambda consumer: consumer.commit({PLACE: "5"}),
    "commit a list": lambda consumer: consumer.commit([PLACE]),
    "commit a number as text": lambda consumer: consumer.commit({PLACE: OffsetAndMetadata(1, 5)}),
    "commit soon": lambda consumer: consumer.commit_async({PLACE: None}),
    "commit soon and call nothing": lambda consumer: consumer.commit_async({PLACE: 5}, 5),
    "subscribe": lambda consumer: consumer.subscribe([None]),
    "subscribe with no listener": lambda consumer: consumer.subscribe([TOPIC], listener=5),
    "subscribe with a class": lambda consumer: consumer.subscribe(
        [TOPIC], listener=RebalanceListener
    ),
    "subscribe to bytes": lambda consumer: consumer.subscribe(pattern=re.compile(b"t")),
    "columns": lambda consumer: first_of(consumer.arrow_batches(5)),
    "close": lambda consumer: consumer.close("soon"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_consumer_refuses_what_it_cannot_use_and_goes_on(call):
    async def scenario():
        async with ScriptedLog() as broker:
            async with AsyncConsumer(broker.address) as consumer:
                consumer.assign([PLACE])
                with pytest.raises((InvalidArgument, InvalidSetting)):
                    await call(consumer)
                await consumer.poll(timeout_ms=1)

            def blocking():
                with Consumer(broker.address) as consumer:
                    consumer.assign([PLACE])
                    with pytest.raises((InvalidArgument, InvalidSetting)):
                        call(consumer)
                    consumer.poll(timeout_ms=1)

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())


@pytest.mark.parametrize("topics", [[None], [5], [b"t"], 5, "t"])
@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_topics_that_are_no_names_are_refused_by_the_constructor(kind, topics):
    with pytest.raises((ClientError, ConfigError), match="name"):
        kind(topics=topics)


def test_a_consumer_that_has_nothing_to_read_says_so():
    async def iterated(records):
        async for _ in records:
            return

    async def scenario():
        async with ScriptedLog() as broker, AsyncConsumer(broker.address) as consumer:
            for ask in (
                lambda: anext(consumer),
                lambda: consumer.poll(timeout_ms=10),
                lambda: iterated(consumer),
                lambda: iterated(consumer.batches()),
            ):
                with pytest.raises(InvalidState, match="no subscription and no assignment"):
                    await ask()
            consumer.assign([PLACE])
            assert await consumer.poll(timeout_ms=1) == []
            await consumer.unsubscribe()
            with pytest.raises(InvalidState, match="no subscription and no assignment"):
                await anext(consumer)

            def blocking():
                with Consumer(broker.address) as consumer:
                    for ask in (
                        lambda: next(consumer),
                        lambda: consumer.poll(timeout_ms=10),
                        lambda: next(iter(consumer)),
                        lambda: next(consumer.batches()),
                    ):
                        with pytest.raises(InvalidState, match="no subscription and no assignment"):
                            ask()

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_the_time_to_poll_is_named(kind):
    with pytest.raises(TypeError, match="positional"):
        kind().poll(1.0)


@pytest.mark.parametrize("text", [LONG, "\ud800"], ids=["long", "no UTF-8"])
def test_a_text_that_no_request_can_carry_is_refused_before_it_is_sent(text):
    resource = ConfigResource.topic(TOPIC)

    async def scenario():
        async with ScriptedLog() as broker, AsyncAdmin(broker.address) as admin:
            for call in (
                lambda: admin.create_topic(TOPIC, configs={"retention.ms": text}),
                lambda: admin.list_group_offsets(text),
                lambda: admin.alter_config(resource, {"retention.ms": text}),
                lambda: admin.alter_configs({resource: {"retention.ms": text}}),
                lambda: admin.describe_config(ConfigResource.topic(text)),
            ):
                with pytest.raises(InvalidArgument, match=r"the protocol takes|UTF-8"):
                    await call()

    run_without_leaks(scenario())
    for make in (
        lambda: Producer(client_id=text),
        lambda: Producer(transactional_id=text),
        lambda: Consumer(group_id=text),
        lambda: Admin(client_id=text),
    ):
        with pytest.raises(InvalidSetting, match=r"the protocol takes|UTF-8"):
            make()


def test_the_fields_of_an_argument_are_checked_too():
    async def scenario():
        async with ScriptedLog() as broker, AsyncAdmin(broker.address) as admin:
            with pytest.raises(InvalidArgument, match="resource="):
                await admin.describe_config(ConfigResource.topic(5))

    run_without_leaks(scenario())


NAN = float("nan")
NO_SETTINGS = [
    *[(Producer, name, NAN) for name in ("linger_ms", "request_timeout_ms", "batch_size")],
    *[(Producer, "acks", given) for given in (True, 1.0, [], None)],
    *[(Producer, "transaction_timeout_ms", given) for given in (True, 1 << 31, "1e3")],
    *[(Producer, "version_ceilings", given) for given in (5, [1], {"0": 1}, {0: True})],
    (Producer, "linger_ms", float("inf")),
    (Producer, "transactional_id", ""),
    (Producer, "max_block_ms", 1 << 63),
    (Producer, "send_buffer_bytes", 1 << 31),
    (Producer, "connections_max_idle_ms", -2),
    (Consumer, "partition_assignment_strategy", None),
    (Consumer, "partition_assignment_strategy", []),
    (Consumer, "fetch_max_bytes", 1 << 31),
    *[
        (kind, "statistics_interval_ms", given)
        for kind in (Producer, Consumer)
        for given in (NAN, -1, True)
    ],
    *[
        (kind, "bootstrap_servers", given)
        for kind in (Producer, Consumer, Admin)
        for given in ([5], [None], b"h:1", [("h",)], [("h", "1")], [("h", True)], [("h", 1 << 16)])
    ],
]


@pytest.mark.parametrize(("kind", "name", "given"), NO_SETTINGS)
def test_a_setting_that_cannot_be_is_refused_by_name(kind, name, given):
    with pytest.raises(InvalidSetting, match=name):
        kind(**{"group_id": "g"} if kind is Consumer else {}, **{name: given})


def test_an_assignor_that_cannot_be_made_is_refused():
    class Demanding:
        def __init__(self, city):
            """Never called."""

    with pytest.raises(InvalidSetting, match="cannot create Demanding"):
        Consumer(group_id="g", partition_assignment_strategy=[Demanding])


def test_a_time_may_be_as_long_as_kafkas():
    longest = (1 << 63) - 1
    with (
        TestBroker(topics={TOPIC: 1}) as broker,
        Producer(
            broker.bootstrap_servers,
            **dict.fromkeys(("max_block_ms", "metadata_max_age_ms", "retry_backoff_ms"), longest),
            connections_max_idle_ms=-1,
            buffer_memory=1_000,
            batch_size=100,
        ) as producer,
    ):
        for _ in range(5):  # and wait for room
            producer.send(TOPIC, b"x" * 700)


NO_TIMES = (-1, NAN, True, "5", [])


@pytest.mark.parametrize("timeout", NO_TIMES)
def test_what_is_no_time_to_wait_is_refused(timeout):
    async def scenario():
        async with ScriptedLog() as broker:
            async with AsyncProducer(broker.address) as producer:
                with pytest.raises(InvalidArgument, match="timeout="):
                    await producer.close(timeout)
            async with AsyncConsumer(broker.address) as consumer:
                consumer.assign([PLACE])
                with pytest.raises(InvalidArgument, match="timeout="):
                    await consumer.close(timeout)
                with pytest.raises(InvalidArgument, match="timeout_ms="):
                    await consumer.poll(timeout_ms=timeout)
            async with AsyncAdmin(broker.address) as admin:
                with pytest.raises(InvalidArgument, match="timeout_ms="):
                    await admin.list_topics(timeout_ms=timeout)

            def blocking():
                with Producer(broker.address) as producer:
                    for call in (producer.close, producer.flush):
                        with pytest.raises(InvalidArgument, match="timeout="):
                            call(timeout)
                with (
                    Consumer(broker.address) as consumer,
                    pytest.raises(InvalidArgument, match="timeout="),
                ):
                    consumer.close(timeout)

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())


def test_a_transaction_needs_a_consumer_of_its_own_kind():
    for producer, given in (
        (Producer(), 5),
        (Producer(), AsyncConsumer()),
        (AsyncProducer(), Consumer),
        (AsyncProducer(), Consumer()),
    ):
        with pytest.raises(InvalidArgument, match=r"is not an? (Async)?Consumer"):
            producer.transaction(given)


class Anonymous:
    group_id, generation_id, group_instance_id = "g", 1, None


@pytest.mark.parametrize(
    ("offsets", "group"),
    [
        ({PLACE: 1}, "g"),
        ({PLACE: 1}, None),
        ({PLACE: 1}, Anonymous()),
        ({PLACE: 1}, GroupMetadata(5)),
        ({PLACE: 1}, GroupMetadata("g", "1")),
        ({PLACE: -1}, GroupMetadata("g")),
        ([PLACE], GroupMetadata("g")),
    ],
)
def test_offsets_of_nobody_are_refused_and_the_transaction_goes_on(offsets, group):
    with TestBroker(topics={TOPIC: 1}) as broker:
        with (
            Producer(broker.bootstrap_servers, transactional_id="a") as producer,
            producer.transaction(),
        ):
            with pytest.raises(InvalidArgument):
                producer.send_offsets_to_transaction(offsets, group)
            producer.send(TOPIC, b"v")
        assert len(broker.records(TOPIC)) == 1


def test_one_thing_of_many_is_checked_however_many_are_given():
    """In a dict, whose keys they are, and in what can be walked once."""

    async def scenario():
        async with ScriptedLog() as broker, AsyncAdmin(broker.address) as admin:
            for call in (
                lambda: admin.create_topics({"a": None}),
                lambda: admin.create_topics(one for one in [None]),
                lambda: admin.describe_configs({TOPIC: None}),
                lambda: admin.describe_configs(iter([None])),
                lambda: admin.delete_topics(iter([5])),
                lambda: admin.list_config_resources({"a": None}),
                lambda: admin.delete_records({"a": 5}),
                lambda: admin.delete_records({None: 5}),
                lambda: admin.list_offsets({"a": 5}),
                lambda: admin.list_offsets({None: 5}),
            ):
                with pytest.raises(InvalidArgument):
                    await call()

    run_without_leaks(scenario())


def test_what_is_no_function_is_no_callback_of_a_delivery():
    async def scenario():
        async with FaultyLog(1, lambda: Fault.NONE) as broker:
            async with AsyncProducer(broker.address) as producer:
                with pytest.raises(InvalidArgument, match="callback=5 is not a function"):
                    producer.send("t", b"v").add_done_callback(5)

            def blocking():
                with (
                    Producer(broker.address) as producer,
                    pytest.raises(InvalidArgument, match="callback=5 is not a function"),
                ):
                    producer.send("t", b"v").add_done_callback(5)

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())


@pytest.mark.parametrize("timeout", [float("inf"), 1e12, 1 << 70])
def test_there_is_no_time_too_long_to_wait(timeout):
    """Some centuries are all that the system waits."""

    async def scenario():
        async with FaultyLog(1, lambda: Fault.NONE) as broker:

            def blocking():
                with Producer(broker.address) as producer:
                    producer.send("t", b"v").result(timeout)
                    assert producer.send("t", b"v").exception(timeout) is None
                    producer.send("t", b"v")
                    producer.flush(timeout)
                    producer.close(timeout)

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())
