"""`moldau.testing`: brokers that tests start, stop, kill and ask."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress

import confluent_kafka
import pytest

from kits.leaks import open_sockets, run_without_leaks
from moldau.base.errors import ConfigError, UserError
from moldau.client.errors import (
    InvalidState,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from moldau.client.producer import AsyncProducer, Producer
from moldau.testing import AsyncTestBroker, TestBroker


def values(broker, topic="t"):
    return [record.value for record in broker.records(topic)]


def send(broker, *sent, topic="t", **settings):
    with Producer(broker.bootstrap_servers, **settings) as producer:
        for delivery in [producer.send(topic, value) for value in sent]:
            delivery.result(10)


@pytest.fixture
def broker():
    with TestBroker(topics=["t"]) as running:
        yield running


def test_records_that_were_sent_are_read_back_by_partition():
    with TestBroker(topics={"t": 3, "other": 1}) as broker:
        with Producer(broker.bootstrap_servers) as producer:
            for partition in (2, 0, 1, 0):
                producer.send("t", b"v%d" % partition, b"k", partition=partition)
        found = [(one.partition, one.offset, one.key, one.value) for one in broker.records("t")]
        assert found == [
            (0, 0, b"k", b"v0"),
            (0, 1, b"k", b"v0"),
            (1, 0, b"k", b"v1"),
            (2, 0, b"k", b"v2"),
        ]
        assert broker.records("other") == []


def test_only_committed_transactions_are_read(broker):
    settings = {"transactional_id": "x"}
    with Producer(broker.bootstrap_servers, **settings) as producer:
        for value, fails in ((b"one", False), (b"two", True), (b"three", False)):
            with suppress(KeyError), producer.transaction():
                producer.send("t", value)
                producer.flush()
                if fails:
                    raise KeyError
    assert values(broker) == [b"one", b"three"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_acknowledged_records_are_there_in_the_next_life_at_the_same_address(broker, end):
    address = broker.bootstrap_servers
    send(broker, b"before")
    getattr(broker, end)()
    assert not broker.is_running
    broker.start()
    assert broker.bootstrap_servers == address
    send(broker, b"after")
    assert values(broker) == [b"before", b"after"]


def test_a_stop_leaves_the_mark_of_a_clean_one_and_a_kill_does_not(broker):
    mark = broker.folder / ".kafka_cleanshutdown"
    broker.kill()
    assert not mark.exists()
    broker.start()
    broker.stop()
    assert mark.exists()


def test_a_producer_goes_on_through_a_restart_and_a_kill(broker):
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("t", b"one").result(10)
        broker.restart()
        producer.send("t", b"two").result(20)
        broker.kill()
        third = producer.send("t", b"three")
        broker.start()
        third.result(20)
    assert values(broker) == [b"one", b"two", b"three"]


def test_a_kill_in_the_middle_of_sending_loses_nothing_that_was_acknowledged(broker):
    with Producer(broker.bootstrap_servers, linger_ms=0, batch_size=0) as producer:
        sent = [producer.send("t", b"%d" % number) for number in range(500)]
        sent[50].result(10)
        broker.kill()
        files = {path: path.read_bytes() for path in broker.folder.rglob("*") if path.is_file()}
        gc.collect()
        assert files == {path: path.read_bytes() for path in files}, "a dead broker wrote"
        broker.start()
        acknowledged = [delivery.result(20).offset for delivery in sent]
    assert acknowledged == list(range(500))
    assert values(broker) == [b"%d" % number for number in range(500)]


def test_librdkafka_uses_it_with_a_group_as_any_broker(broker):
    servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = confluent_kafka.Producer(servers)
    producer.produce("t", b"value", b"key")
    assert producer.flush(20) == 0
    group = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**servers, **group})
    consumer.subscribe(["t"])
    message = consumer.poll(20)
    consumer.close()
    assert (message.key(), message.value()) == (b"key", b"value")


def test_a_folder_that_was_given_keeps_its_files(tmp_path):
    folder = tmp_path / "logs"
    with TestBroker(folder=folder, topics=["t"]) as broker:
        send(broker, b"kept")
    with TestBroker(folder=folder) as broker:
        assert values(broker) == [b"kept"]


def test_a_temporary_folder_is_removed(broker):
    folder = broker.folder.parent
    assert folder.exists()
    broker.close()
    broker.close()
    assert not folder.exists()


def test_settings_are_the_broker_s_own():
    with TestBroker(settings={"num.partitions": 4, "auto.create.topics.enable": True}) as broker:
        send(broker, b"v", topic="made")
        assert sorted(path.name for path in broker.folder.glob("made-*")) == [
            "made-0",
            "made-1",
            "made-2",
            "made-3",
        ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"settings": {"num.partitons": 3}}, "num.partitions"),
        ({"settings": {"num.partitions": "three"}}, "three"),
        ({"topics": "orders"}, "orders"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line_and_leaves_nothing(options, text):
    before = set(threading.enumerate())
    with pytest.raises(ConfigError) as refusal:
        TestBroker(**options).start()
    assert text in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert set(threading.enumerate()) <= before


def test_a_port_that_is_taken_is_named(broker):
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with pytest.raises(UserError, match=f"cannot listen on .*{port}"), TestBroker(port=port):
        pass


def test_topics_are_created_once_and_unknown_ones_are_not_made_by_reading(broker):
    broker.create_topic("compacted", 2, configs={"cleanup.policy": "compact"})
    with pytest.raises(TopicAlreadyExists):
        broker.create_topic("t")
    with pytest.raises(UnknownTopicOrPartition):
        broker.records("unknown")
    assert not list(broker.folder.glob("unknown-*"))


def test_a_broker_that_does_not_run_says_so():
    broker = TestBroker()
    for call in (broker.stop, broker.kill, lambda: broker.bootstrap_servers):
        with pytest.raises(InvalidState):
            call()
    with broker:
        with pytest.raises(InvalidState):
            broker.start()
        broker.stop()
        with pytest.raises(InvalidState):
            broker.records("t")


def test_two_brokers_at_once_know_nothing_of_each_other():
    with TestBroker(topics=["t"]) as one, TestBroker(topics=["t"]) as other:
        send(one, b"one")
        assert values(one) == [b"one"]
        assert values(other) == []


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_is_left_behind(end):
    threads, sockets = set(threading.enumerate()), open_sockets()
    with TestBroker(topics=["t"]) as broker:
        send(broker, b"v")
        getattr(broker, end)()
    gc.collect()
    assert set(threading.enumerate()) <= threads
    assert open_sockets() <= sockets


def test_the_asynchronous_face_does_the_same():
    async def main():
        async with AsyncTestBroker(topics=["t"]) as broker:
            for end in (broker.restart, broker.kill):
                async with AsyncProducer(broker.bootstrap_servers) as producer:
                    await producer.send("t", b"v")
                await end()
            assert not broker.is_running
            await broker.start()
            await broker.create_topic("u", 2)
            assert [record.value for record in await broker.records("t")] == [b"v", b"v"]
            assert (broker.folder / "u-1").is_dir()

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves_no_broker_behind():
    async def main():
        for turns in range(4):
            starting = asyncio.ensure_future(AsyncTestBroker().__aenter__())
            for _ in range(turns):
                await asyncio.sleep(0)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        await asyncio.get_running_loop().shutdown_default_executor()

    run_without_leaks(main())
