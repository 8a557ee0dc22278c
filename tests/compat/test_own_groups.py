"""What only our consumer does in a group: its two faces, its listeners, an assignor of one's own.

The stories that every client can tell are in `test_groups`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from itertools import islice

import pytest

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from kits.leaks import run_without_leaks
from kits.own_consumer_kit import WAIT_MS, topic_with
from moldau.client.admin import Admin
from moldau.client.assignors.interface import Assignment, PartitionAssignor
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.consuming.listeners import RebalanceListener
from moldau.client.errors import CommitFailed, NoBrokerReachable
from moldau.client.records import OffsetAndMetadata, TopicPartition

PARTITIONS = 4
QUICK = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker of this module's own, which does not wait for more members before the first join."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("own"), settings) as running:
        yield running


@pytest.fixture
def topic(broker):
    name = create_topic(broker.address, fresh_topic("own-group"), PARTITIONS)
    for partition in range(PARTITIONS):
        send(broker.address, name, [b"%d" % number for number in range(5)], partition)
    return name


def every(topic, count=PARTITIONS):
    return {TopicPartition(topic, number) for number in range(count)}


class Remembering(RebalanceListener):
    """Commits what it must give up, and keeps where and what it was told."""

    def __init__(self, consumer):
        self.consumer = consumer
        self.threads = set()
        self.story = []
        self.committed = {}

    def on_partitions_assigned(self, partitions):
        self.threads.add(threading.get_ident())
        self.story.append(("assigned", len(partitions)))

    def on_partitions_revoked(self, partitions):
        self.threads.add(threading.get_ident())
        self.story.append(("revoked", len(partitions)))
        self.consumer.commit()
        self.committed = self.consumer.committed(partitions)


def test_a_listener_of_the_blocking_face_runs_in_the_users_thread_and_may_commit(broker, topic):
    settings = {**QUICK, "group_id": topic, "enable_auto_commit": False}
    with (
        Consumer(broker.address, **settings) as one,
        Consumer(broker.address, **settings) as two,
    ):
        listener = Remembering(one)
        one.subscribe([topic], listener=listener)
        records = []
        while len(records) < 5 * PARTITIONS:
            records += one.poll(timeout_ms=200)
        two.subscribe([topic])
        while len(two.assignment()) != PARTITIONS // 2:
            assert one.poll(timeout_ms=50) == []
            assert two.poll(timeout_ms=50) == []
    assert listener.threads == {threading.get_ident()}
    assert listener.story[:3] == [("assigned", 4), ("revoked", 4), ("assigned", 2)]
    assert listener.story[-1][0] == "revoked"
    assert {kept.offset for kept in listener.committed.values()} == {5}


def test_a_callback_of_a_commit_runs_in_the_users_thread(broker, topic):
    heard = []

    def note(offsets, error):
        heard.append((threading.get_ident(), offsets, error))

    at = TopicPartition(topic, 0)
    with Consumer(broker.address, group_id=topic, topics=[topic], **QUICK) as consumer:
        while not consumer.poll(timeout_ms=200):
            pass
        consumer.commit_async({at: OffsetAndMetadata(3, "note")}, callback=note)
        while not heard:
            consumer.poll(timeout_ms=50)
        assert consumer.committed([at])[at].metadata == "note"
    assert heard == [(threading.get_ident(), {at: OffsetAndMetadata(3, "note")}, None)]


class FirstTakesAll(PartitionAssignor):
    """Gives everything to the member with the lowest id."""

    name = "first-takes-all"

    def assign(self, topics, subscriptions):
        everything = [TopicPartition(t, n) for t in topics for n in range(len(topics[t]))]
        first = min(subscriptions)
        return {one: Assignment(everything if one == first else ()) for one in subscriptions}


def test_an_assignor_of_ones_own_decides(broker, topic):
    async def story():
        settings = {**QUICK, "group_id": topic, "topics": [topic]}
        settings["partition_assignment_strategy"] = [FirstTakesAll]
        async with (
            AsyncConsumer(broker.address, **settings) as one,
            AsyncConsumer(broker.address, **settings) as two,
        ):
            generations = set()
            while len(generations) != 1 or -1 in generations:
                await asyncio.gather(one.poll(timeout_ms=50), two.poll(timeout_ms=50))
                generations = {each.group_metadata().generation_id for each in (one, two)}
            while {len(one.assignment()), len(two.assignment())} != {0, PARTITIONS}:
                await asyncio.gather(one.poll(timeout_ms=50), two.poll(timeout_ms=50))
            first = min((one, two), key=lambda each: each.group_metadata().member_id)
            assert first.assignment() == every(topic)

    run_without_leaks(story())


def test_an_assignor_that_fails_is_raised_to_the_leader_and_a_better_one_helps(broker, topic):
    class Failing(FirstTakesAll):
        def assign(self, topics, subscriptions):
            if failures:
                raise failures.pop()
            return super().assign(topics, subscriptions)

    failures = [LookupError("of the user's own")]

    async def story():
        settings = {**QUICK, "group_id": topic, "topics": [topic]}
        settings["partition_assignment_strategy"] = [Failing()]
        async with AsyncConsumer(broker.address, **settings) as consumer:
            with pytest.raises(LookupError):
                await consumer.poll(timeout_ms=10_000)
            while consumer.assignment() != every(topic):
                await consumer.poll(timeout_ms=100)

    run_without_leaks(story())


def test_an_iteration_goes_on_where_the_last_one_was_left(broker, topic):
    """Automatic commits: the record that was being worked on comes again, no other does."""

    async def story():
        settings = {**QUICK, "group_id": topic, "topics": [topic]}
        seen = []

        async def fail_at_the_eighth():
            async with AsyncConsumer(broker.address, **settings) as consumer:
                async for record in consumer:
                    if len(seen) == 7:
                        raise LookupError(record[:3])
                    seen.append(record[:3])

        with pytest.raises(LookupError) as failure:
            await fail_at_the_eighth()
        failed = failure.value.args[0]
        async with AsyncConsumer(broker.address, **settings) as consumer:
            async for record in consumer:
                seen.append(record[:3])
                if len(seen) == 5 * PARTITIONS:
                    break
        assert failed in seen
        assert len(set(seen)) == 5 * PARTITIONS

    run_without_leaks(story())


def test_two_consumers_by_hand_do_not_disturb_each_other_but_a_group_keeps_strangers_out(
    broker, topic
):
    async def story():
        at = TopicPartition(topic, 0)
        one = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
        settings = {**QUICK, "group_id": topic, "enable_auto_commit": False}
        async with (
            AsyncConsumer(broker.address, **settings) as first,
            AsyncConsumer(broker.address, **settings) as second,
            AsyncConsumer(broker.address, **settings) as member,
        ):
            for consumer in (first, second):
                consumer.assign([at])
                while not await consumer.poll(timeout_ms=200):
                    pass
                await consumer.commit(one)
            member.subscribe([topic])
            while not member.assignment():
                await member.poll(timeout_ms=100)
            with pytest.raises(CommitFailed, match="group of its own"):
                await first.commit(one)

    run_without_leaks(story())


class Watching:
    """An interceptor."""

    def __init__(self):
        self.committed = []

    def on_commit(self, offsets):
        self.committed.append(dict(offsets))


def test_interceptors_hear_of_every_commit(broker, topic):
    async def story():
        watching = Watching()
        at = TopicPartition(topic, 0)
        settings = {**QUICK, "group_id": topic, "auto_commit_interval_ms": 50}
        async with AsyncConsumer(
            broker.address, interceptor_classes=[watching], topics=[topic], **settings
        ) as consumer:
            while len(consumer.assignment()) < PARTITIONS or not watching.committed:
                await consumer.poll(timeout_ms=100)
            await consumer.commit({at: OffsetAndMetadata(2)})
            assert watching.committed[-1] == {at: OffsetAndMetadata(2)}

    run_without_leaks(story())


# Closing, whoever does it


def committed_of(broker, group_id, topic):
    """What a group has committed, as offsets by partition number."""
    with Consumer(broker.address, group_id=group_id) as asker:
        return {at.partition: kept.offset for at, kept in asker.committed(every(topic)).items()}


def members_of(broker, group_id):
    with Admin(broker.address) as admin:
        return admin.describe_group(group_id).members


def test_closing_from_another_thread_ends_a_wait_and_leaves_the_group(broker, topic):
    consumer = Consumer(broker.address, group_id=topic, topics=[topic], **QUICK)
    consumer.start()
    seen, all_seen = [], threading.Event()

    def work():
        for record in consumer:
            seen.append(record)
            if len(seen) == 5 * PARTITIONS:
                all_seen.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert all_seen.wait(60)
    eventually(lambda: consumer._core._holding.empty, "the loop waits for more")
    consumer.close()
    thread.join(60)
    assert not thread.is_alive()
    assert not members_of(broker, topic)
    assert committed_of(broker, topic, topic) == dict.fromkeys(range(PARTITIONS), 5)


def test_a_signal_handler_may_close_during_a_wait_and_the_listener_hears_it(broker, topic):
    heard = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions):
            consumer.commit()
            heard.append(len(partitions))

    consumer = Consumer(broker.address, group_id=topic, enable_auto_commit=False, **QUICK)
    consumer.start()
    consumer.subscribe([topic], listener=Listener())
    before = signal.signal(signal.SIGUSR1, lambda *_: consumer.close())
    try:
        for count, _ in enumerate(consumer, 1):
            if count == 5 * PARTITIONS:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [PARTITIONS]
    assert not members_of(broker, topic)
    assert committed_of(broker, topic, topic) == dict.fromkeys(range(PARTITIONS), 5)


def one_partition(broker):
    name = create_topic(broker.address, fresh_topic("own-close"))
    send(broker.address, name, [b"%d" % number for number in range(5)])
    return name


def closed_by_another_thread(consumer):
    closer = threading.Thread(target=consumer.close)
    closer.start()
    closer.join(60)


def closed_by_a_signal(consumer):
    before = signal.signal(signal.SIGUSR1, lambda *_: consumer.close())
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def closed_in_an_exception(consumer):
    try:
        raise RuntimeError("the work failed")
    except RuntimeError:
        consumer.close()


@pytest.mark.parametrize(
    "close", [closed_by_another_thread, closed_by_a_signal, closed_in_an_exception]
)
def test_a_record_that_is_worked_on_while_somebody_closes_comes_again(broker, close):
    topic = one_partition(broker)
    consumer = Consumer(broker.address, group_id=topic, topics=[topic], **QUICK)
    consumer.start()
    for record in consumer:
        if record.offset == 2:
            close(consumer)
    assert committed_of(broker, topic, topic) == {0: 2}


def test_polled_records_are_done_with_only_for_the_thread_that_has_them(broker):
    topic = one_partition(broker)
    for group_id, close, committed in (
        (f"{topic}-other", closed_by_another_thread, {0: 0}),
        (f"{topic}-failed", closed_in_an_exception, {0: 0}),
        (f"{topic}-signal", closed_by_a_signal, {0: 0}),
        (f"{topic}-same", Consumer.close, {0: 5}),
    ):
        consumer = Consumer(broker.address, group_id=group_id, topics=[topic], **QUICK)
        consumer.start()
        while not consumer.poll(timeout_ms=200):
            pass
        close(consumer)
        assert committed_of(broker, group_id, topic) == committed


@pytest.mark.parametrize(("by_another", "committed"), [(True, {0: 0}), (False, {0: 5})])
def test_polled_records_are_done_with_only_for_the_task_that_has_them(
    broker, by_another, committed
):
    topic = one_partition(broker)

    async def story():
        consumer = AsyncConsumer(broker.address, group_id=topic, topics=[topic], **QUICK)
        await consumer.start()
        # `wait_for` asks in a task of its own, which is as good as this one.
        while not await asyncio.wait_for(consumer.poll(timeout_ms=200), 60):
            pass
        if not by_another:
            return await consumer.close()
        consumer.seek((topic, 0), 0)
        while not await consumer.poll(timeout_ms=200):
            pass
        return await asyncio.create_task(consumer.close())

    run_without_leaks(story())
    assert committed_of(broker, topic, topic) == committed


# Interrupted


def test_an_interrupt_in_a_listener_reaches_the_user_and_the_consumer_goes_on(broker, topic):
    class Interrupted(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            raise KeyboardInterrupt

    with Consumer(broker.address, group_id=topic, **QUICK) as consumer:
        consumer.subscribe([topic], listener=Interrupted())
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(timeout_ms=15_000)
        records = []
        while len(records) < 5 * PARTITIONS:
            records += consumer.poll(timeout_ms=200)


def test_an_interrupt_in_the_callback_of_a_commit_does_not_hold_up_the_end(broker, topic, caplog):
    def interrupted(offsets, error):
        raise SystemExit

    with Consumer(broker.address, group_id=topic, topics=[topic], **QUICK) as consumer:
        while not consumer.poll(timeout_ms=200):
            pass
        consumer.commit_async(callback=interrupted)
        with pytest.raises(SystemExit):
            consumer.poll(timeout_ms=15_000)
        consumer.close(timeout=5)
    assert "closing took too long" not in caplog.text


def test_starting_may_be_tried_again():
    consumer = Consumer("127.0.0.1:1", bootstrap_timeout_ms=0, **QUICK)
    for _ in range(2):
        with pytest.raises(NoBrokerReachable):
            consumer.start()


# Committing


def test_offsets_are_committed_however_they_are_written_and_nonsense_is_refused_at_once(
    broker, topic
):
    with Consumer(broker.address, group_id=topic) as consumer:
        consumer.commit({(topic, 0): 1})
        consumer.commit({TopicPartition(topic, 1): OffsetAndMetadata(2)})
        consumer.commit_async({(topic, 2): 3})
        for wrong in ({topic: 5}, {(topic, 3): "5"}, {(topic, 3): None}):
            for commit in (consumer.commit, consumer.commit_async):
                with pytest.raises(TypeError):
                    commit(wrong)
        with pytest.raises(ValueError, match="-1 is not a valid offset"):
            consumer.commit_async({(topic, 3): -1})
    assert committed_of(broker, topic, topic) == {0: 1, 1: 2, 2: 3}


def test_what_is_assigned_by_hand_is_committed_when_it_is_given_up(broker, topic):
    with Consumer(broker.address, group_id=topic, **QUICK) as consumer:
        for number in range(2):
            consumer.assign([(topic, number)])
            assert len(consumer.poll(timeout_ms=15_000)) == 5
        assert consumer.committed([(topic, 0)])[TopicPartition(topic, 0)].offset == 5
        consumer.unsubscribe()
        assert consumer.committed([(topic, 1)])[TopicPartition(topic, 1)].offset == 5
        consumer.assign([(topic, 0)])
        assert consumer.position((topic, 0)) == 5


# What the user does with it


def test_a_listener_runs_in_the_users_thread_and_may_call_the_consumer(broker):
    topic = topic_with(broker, 30)
    partition = TopicPartition(topic, 0)
    heard = []

    class Listener:
        def on_partitions_assigned(self, partitions):
            heard.append(("assigned", threading.current_thread(), set(partitions)))
            if partitions:
                consumer.seek(partition, 25)

        def on_partitions_revoked(self, partitions):
            heard.append(("revoked", threading.current_thread(), set(partitions)))
            consumer.commit()

    consumer = Consumer(broker.address, group_id=topic, enable_auto_commit=False)
    with consumer:
        consumer.subscribe([topic], listener=Listener())
        records = consumer.poll(timeout_ms=WAIT_MS)
        assert [record.offset for record in records] == [25, 26, 27, 28, 29]
    with Consumer(broker.address, group_id=topic) as another:
        assert another.committed([partition])[partition].offset == 30
    me = threading.current_thread()
    assert heard == [("assigned", me, {partition}), ("revoked", me, {partition})]


def test_a_loop_commits_what_it_is_done_with_and_goes_on_there(broker):
    topic = topic_with(broker, 40)
    settings = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest"}

    def crash_at(offset):
        with Consumer(broker.address, **settings) as consumer:
            for record in consumer:
                if record.offset == offset:
                    raise RuntimeError("the work failed")

    with pytest.raises(RuntimeError):
        crash_at(17)
    with Consumer(broker.address, **settings) as consumer:
        assert next(iter(consumer)).offset == 17  # not done with, so it comes again
        assert [record.offset for record in islice(consumer, 22)] == list(range(18, 40))
    with Consumer(broker.address, **settings) as consumer:
        assert consumer.committed([(topic, 0)])[TopicPartition(topic, 0)].offset == 40
