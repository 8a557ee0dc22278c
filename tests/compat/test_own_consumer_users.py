"""Who uses a consumer, and how: cancelled, at once, closing, with code of their own."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kits.leaks import run_without_leaks
from kits.own_consumer_kit import WAIT_MS, reading, topic_with, values
from moldau.client.consumer import Consumer
from moldau.client.errors import (
    ClientClosed,
    ConcurrentUse,
    InvalidState,
    RequestTimedOut,
    SerializationFailed,
    UnknownTopicOrPartition,
)


def test_cancelling_a_wait_anywhere_loses_nothing_and_repeats_nothing(broker):
    topic = topic_with(broker, 3000)

    async def scenario():
        seen = []

        async def work(consumer):
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) % 7 == 0:
                    await asyncio.sleep(0)

        async def work_by_polls(consumer):
            while True:
                seen.extend(record.offset for record in await consumer.poll(timeout_ms=WAIT_MS))

        async with reading(broker, topics=[topic], max_poll_records=100) as consumer:
            turns = 0
            while len(seen) < 3000:
                turns += 1
                job = work if turns % 2 else work_by_polls
                task = asyncio.create_task(job(consumer))
                for _ in range(turns % 23):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await asyncio.get_running_loop().shutdown_asyncgens()
                if not seen or seen[-1] < 2999:
                    await asyncio.sleep(0.001)
            assert await consumer.position((topic, 0)) == 3000
        assert seen == list(range(3000))

    run_without_leaks(scenario())


@pytest.mark.parametrize("steps", range(8))
def test_a_close_that_is_cancelled_ends_everything_all_the_same(broker, steps):
    """A heart that goes on beating would keep the partitions from everybody else."""
    topic = topic_with(broker, 1)

    async def scenario():
        before = asyncio.all_tasks()
        async with reading(broker, topics=[topic], group_id=topic) as consumer:
            assert await consumer.poll(timeout_ms=WAIT_MS)
            closing = asyncio.create_task(consumer.close())
            for _ in range(steps):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])
        await consumer.close()
        left = asyncio.all_tasks() - before - {closing}
        assert {task.get_name() for task in left if not task.done()} == set()

    run_without_leaks(scenario())


def test_a_copy_in_a_forked_process_closes_without_a_word(broker):
    topic = topic_with(broker, 1)
    with Consumer(broker.address, topics=[topic], auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout_ms=WAIT_MS)
        child = os.fork()
        if not child:
            try:
                consumer.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        send(broker.address, topic, [b"more"])
        assert consumer.poll(timeout_ms=WAIT_MS)


def test_two_tasks_at_once_are_told(broker):
    topic = topic_with(broker, 0)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            waiting = asyncio.create_task(consumer.poll(timeout_ms=WAIT_MS))
            await asyncio.sleep(0.01)
            with pytest.raises(ConcurrentUse):
                await consumer.poll(timeout_ms=10)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert await consumer.poll(timeout_ms=10) == []

    run_without_leaks(scenario())


def test_two_threads_at_once_are_told(broker):
    topic = topic_with(broker, 0)
    with Consumer(broker.address, topics=[topic]) as consumer:
        waiting = threading.Thread(target=consumer.poll, kwargs={"timeout_ms": 500})
        waiting.start()
        complaints = []
        while waiting.is_alive() and not complaints:
            try:
                consumer.poll(timeout_ms=0)
            except ConcurrentUse as error:
                complaints.append(error)
        waiting.join()
        assert complaints


def test_closing_ends_the_loop_of_another_task(broker):
    topic = topic_with(broker, 3)

    async def scenario():
        consumer = reading(broker, topics=[topic])
        await consumer.start()
        all_seen = asyncio.Event()

        async def work():
            async for record in consumer:
                if record.offset == 2:
                    all_seen.set()

        task = asyncio.create_task(work())
        await all_seen.wait()
        await consumer.close()
        await task
        await consumer.close()
        with pytest.raises(ClientClosed):
            await consumer.poll(timeout_ms=0)

    run_without_leaks(scenario())


def test_closing_ends_the_loop_of_another_thread(broker):
    topic = topic_with(broker, 3)
    consumer = Consumer(broker.address, topics=[topic], auto_offset_reset="earliest")
    consumer.start()
    seen = []
    all_seen = threading.Event()

    def work():
        for record in consumer:
            seen.append(record)
            if len(seen) == 3:
                all_seen.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert all_seen.wait(60)
    consumer.close()
    thread.join(60)
    assert not thread.is_alive()
    with pytest.raises(ClientClosed):
        consumer.poll(timeout_ms=0)


def test_a_record_that_cannot_be_read_is_named_and_can_be_passed(broker):
    topic = create_topic(broker.address, fresh_topic("own-deserialize"))
    send(broker.address, topic, [b"1", b"2", b"three", b"4"])

    async def scenario():
        async with reading(broker, topics=[topic], value_deserializer=int) as consumer:
            assert values(await consumer.poll(timeout_ms=WAIT_MS)) == [1, 2]
            with pytest.raises(SerializationFailed, match=f"{topic}-0 offset 2") as caught:
                await consumer.poll(timeout_ms=WAIT_MS)
            assert isinstance(caught.value.__cause__, ValueError)
            assert await consumer.position((topic, 0)) == 2
            consumer.seek((topic, 0), 3)
            assert values(await consumer.poll(timeout_ms=WAIT_MS)) == [4]

    run_without_leaks(scenario())


def test_interceptors_see_and_change_records_and_a_failing_one_is_passed_over(broker):
    topic = topic_with(broker, 5)

    class Failing:
        def on_consume(self, records):
            raise RuntimeError("no")

    class Dropping:
        def on_consume(self, records):
            return [record for record in records if record.offset % 2]

    async def scenario():
        both = [Failing(), Dropping()]
        async with reading(broker, topics=[topic], interceptor_classes=both) as consumer:
            assert [record.offset for record in await consumer.poll(timeout_ms=WAIT_MS)] == [1, 3]
            assert await consumer.position((topic, 0)) == 5

    run_without_leaks(scenario())


def test_a_topic_that_is_not_there_is_named(broker):
    async def scenario():
        settings = {"default_api_timeout_ms": 500, "allow_auto_create_topics": False}
        async with reading(broker, **settings) as consumer:
            missing = (fresh_topic("own-missing"), 0)
            consumer.assign([missing])
            with pytest.raises(UnknownTopicOrPartition, match="own-missing"):
                await consumer.poll(timeout_ms=WAIT_MS)
            with pytest.raises((UnknownTopicOrPartition, RequestTimedOut)):
                await consumer.end_offsets([missing])

    run_without_leaks(scenario())


def test_a_consumer_without_a_group_says_so(broker):
    topic = topic_with(broker, 1)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            with pytest.raises(InvalidState, match="no group"):
                await consumer.commit()
            with pytest.raises(InvalidState, match="no group"):
                consumer.subscribe([topic])
        with pytest.raises(InvalidState, match="not been started"):
            await reading(broker).poll(timeout_ms=0)

    run_without_leaks(scenario())
