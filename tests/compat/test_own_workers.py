"""What is built around a consumer, against a real broker: workers in threads and in tasks, retries.

On virtual time, with faults, the same workers are in `tests/sim/test_keyed_workers`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import defaultdict
from contextlib import contextmanager

import pytest

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from kits.leaks import run_without_leaks
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.errors import InvalidState
from moldau.client.processing import KeyedThreads, KeyedWorkers, RetryTopics
from moldau.client.processing import retry_topics as names
from moldau.client.producer import AsyncProducer, Producer
from moldau.client.records import TopicPartition

WAIT_S = 60
PARTITIONS = 3
KEYS = [b"k%d" % number for number in range(7)]
QUICK = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 100,
    "enable_auto_commit": False,
    "partition_assignment_strategy": "cooperative-sticky",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker of this module's own, which does not wait for more members before the first join."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("own"), settings) as running:
        yield running


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("own-work"), PARTITIONS)


def feed(broker, topic, count, start=0):
    with Producer(broker.address) as producer:
        for number in range(start, start + count):
            producer.send(topic, b"%d" % number, KEYS[number % len(KEYS)])


def committed(broker, topic):
    """How many records of a topic the group of its name has committed."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Consumer(broker.address, group_id=topic) as consumer:
        return sum(one.offset for one in consumer.committed(partitions).values())


class Job:
    """What handlers did, in whichever thread; it may be made to wait or to fail."""

    def __init__(self):
        self._lock = threading.Lock()
        self._busy = set()
        self.seen = defaultdict(list)
        self.threads = set()
        self.may_end = threading.Event()
        self.may_end.set()
        self.failing = None

    @property
    def values(self):
        return {value for values in self.seen.values() for value in values}

    def __call__(self, record):
        with self._lock:
            assert record.key not in self._busy, "two of one key at once"
            self._busy.add(record.key)
            self.threads.add(threading.current_thread())
        assert self.may_end.wait(WAIT_S)
        with self._lock:
            self._busy.discard(record.key)
            if record.value == self.failing:
                raise KeyError(record.value)
            self.seen[record.key].append(int(record.value))


@contextmanager
def working(broker, topic, job, **settings):
    """Have a member work in a thread; it is stopped at the end, and what `run` raises is raised."""
    outcome = []

    def work():
        with Consumer(broker.address, group_id=topic, topics=[topic], **QUICK) as consumer:
            workers = KeyedThreads(consumer, job, **settings)
            made.append(workers)
            try:
                workers.run()
            except BaseException as error:  # noqa: BLE001 - raised below
                outcome.append(error)

    made = []
    thread = threading.Thread(target=work)
    thread.start()
    eventually(lambda: made, "it runs")
    try:
        yield made[0]
    finally:
        job.may_end.set()
        made[0].stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()
    if outcome:
        raise outcome[0]


# Threads


def test_threads_keep_the_order_of_keys_and_commit_everything_at_the_end(broker, topic):
    feed(broker, topic, 300)
    job = Job()
    with working(broker, topic, job, concurrency=5):
        eventually(lambda: len(job.values) == 300, "everything is done")
    assert 1 < len(job.threads) <= 5
    assert all(values == sorted(values) for values in job.seen.values())
    assert sum(map(len, job.seen.values())) == 300
    assert committed(broker, topic) == 300


def test_what_is_not_finished_is_not_committed_and_comes_again(broker, topic):
    feed(broker, topic, 50)
    job = Job()
    job.may_end.clear()
    settings = {"concurrency": 2, "commit_interval_ms": 10, "drain_timeout_ms": 100}
    with Consumer(broker.address, group_id=topic, topics=[topic], **QUICK) as consumer:
        workers = KeyedThreads(consumer, job, **settings)
        stopping = threading.Thread(
            target=lambda: (eventually(lambda: len(job.threads) == 2, "busy"), workers.stop())
        )
        stopping.start()
        workers.run()
        stopping.join(WAIT_S)
        assert workers.pending_count == 0
        assert committed(broker, topic) == 0
    job.may_end.set()
    eventually(lambda: len(job.values) == 2, "those that were left alone have ended")
    job.seen.clear()
    with working(broker, topic, job):
        eventually(lambda: len(job.values) == 50, "everything is done")
    assert committed(broker, topic) == 50


def test_what_a_handler_raises_ends_the_run_and_the_record_comes_again(broker, topic):
    feed(broker, topic, 50)
    job = Job()
    job.failing = b"20"
    with (
        pytest.raises(KeyError) as failure,
        working(broker, topic, job, concurrency=4) as workers,
    ):
        eventually(lambda: workers._failure, "it fails")
    assert any("at offset" in note for note in failure.value.__notes__)
    assert committed(broker, topic) <= len(job.values)
    job.failing = None
    with working(broker, topic, job):
        eventually(lambda: len(job.values) == 50, "everything is done")
    assert committed(broker, topic) == 50


@pytest.mark.parametrize("finish", ["begun", "all"])
def test_members_that_come_and_go_lose_nothing(broker, topic, finish):
    job = Job()
    feed(broker, topic, 100)
    with working(broker, topic, job, finish=finish, commit_interval_ms=100):
        eventually(lambda: len(job.values) >= 40, "the first works")
        with working(broker, topic, job, finish=finish):
            feed(broker, topic, 100, start=100)
            eventually(lambda: len(job.values) >= 150, "both work")
        feed(broker, topic, 100, start=200)
        eventually(lambda: len(job.values) == 300, "everything is done")
    if finish == "all":
        assert sum(map(len, job.seen.values())) == 300
    assert committed(broker, topic) == 300


def test_pending_records_are_bounded_and_the_member_stays(broker, topic):
    feed(broker, topic, 200)
    job = Job()
    job.may_end.clear()
    settings = {"concurrency": 2, "max_pending": 20}
    with working(broker, topic, job, **settings) as workers:
        eventually(lambda: workers._full, "there is no more room")
        assert workers.pending_count < 20 + 500
        job.may_end.set()
        eventually(lambda: len(job.values) == 200, "everything is done")
    assert committed(broker, topic) == 200


def test_a_signal_handler_stops_it_after_the_work_in_hand(broker, topic):
    feed(broker, topic, 20)
    job = Job()
    with Consumer(broker.address, group_id=topic, topics=[topic], **QUICK) as consumer:
        workers = KeyedThreads(consumer, job, finish="all")
        before = signal.signal(signal.SIGUSR1, lambda *_: workers.stop())
        main = threading.main_thread().ident
        ending = threading.Thread(
            target=lambda: (
                eventually(lambda: len(job.values) == 20, "everything is done"),
                signal.pthread_kill(main, signal.SIGUSR1),
            )
        )
        ending.start()
        try:
            workers.run()
        finally:
            signal.signal(signal.SIGUSR1, before)
        ending.join(WAIT_S)
    assert committed(broker, topic) == 20


def test_a_consumer_that_would_lose_records_is_refused(broker, topic):
    for settings in (
        {"group_id": topic, "topics": [topic], "enable_auto_commit": True},
        {"topics": [topic]},
        {"group_id": topic, "enable_auto_commit": False},
    ):
        with Consumer(broker.address, **settings) as consumer, pytest.raises(InvalidState):
            KeyedThreads(consumer, Job()).run()


# Tasks


def test_tasks_retry_what_fails_and_keep_aside_what_is_hopeless(broker):
    topic = create_topic(broker.address, fresh_topic("own-retry"), 1)
    named = RetryTopics(None, group=topic, delays_ms=(10, 20))
    for name in (*named.topics(topic), named.dead_letter_topic(topic)):
        create_topic(broker.address, name, 1)
    tried = defaultdict(int)

    async def handle(record):
        tried[record.value] += 1
        if record.value == b"often" and tried[record.value] < 3:
            raise ValueError("not yet")
        if record.value == b"never":
            raise ValueError("never")

    async def scenario():
        async with AsyncProducer(broker.address) as producer:
            retries = RetryTopics(producer, group=topic, delays_ms=(10, 20))
            for value in (b"well", b"often", b"never"):
                await producer.send(topic, value, b"k")
            async with AsyncConsumer(
                broker.address, group_id=topic, topics=[topic, *retries.topics(topic)], **QUICK
            ) as consumer:
                workers = KeyedWorkers(consumer, retries.guard(handle), due_ms=retries.due_ms)
                running = asyncio.ensure_future(workers.run())
                async with AsyncConsumer(
                    broker.address,
                    topics=[retries.dead_letter_topic(topic)],
                    auto_offset_reset="earliest",
                ) as dead:
                    letter = await anext(dead)
                while tried[b"often"] < 3:  # noqa: ASYNC110 - a real broker has its own time
                    await asyncio.sleep(0.01)
                workers.stop()
                await running
        assert letter.value == b"never"
        assert dict(letter.headers)[names.FAILURES] == b"3"
        assert tried == {b"well": 1, b"often": 3, b"never": 3}

    run_without_leaks(scenario())
