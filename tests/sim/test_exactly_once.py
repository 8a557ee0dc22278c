"""Blocks of `transaction(consumer)` on virtual time: whatever happens in one, nothing counts twice
and nothing is lost. Partitions are lost and moved within blocks, and blocks fail.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import CommitFailed, InvalidState
from moldau.client.producer import AsyncProducer
from moldau.client.records import TopicPartition
from moldau.testing.virtual import run_virtually

TOPICS = {"t": 2, "copies": 1}
ALL = [TopicPartition("t", number) for number in range(2)]
STRATEGIES = ("range", "cooperative-sticky")
SLOW_S = 15.0
"""Longer than `max_poll_interval_ms` below."""


def reading(world, host, **settings):
    wishes = {
        "group_id": "g",
        "topics": ["t"],
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "max_poll_interval_ms": 10_000,
        "heartbeat_interval_ms": 200,
        **settings,
    }
    return AsyncConsumer(**world.client(host), **wishes)


def writing(world, host):
    return AsyncProducer(**world.client(host), transactional_id=host)


async def feed(world, count):
    async with AsyncProducer(**world.client("feeder")) as producer:
        for number in range(count):
            producer.send("t", b"%d" % number, partition=number % 2)


async def read_some(consumer, producer, count):
    """Read at least so many records and copy them."""
    records = []
    while len(records) < count:
        batch = await consumer.poll(timeout_ms=1000, max_records=count)
        records += batch
        for record in batch:
            producer.send("copies", record.value)
    return records


async def what_counts(world):
    """Return how often each record was copied, and the committed offsets."""
    async with reading(world, "asker", group_id="askers", topics=[]) as asker:
        asker.assign([("copies", 0)])
        (end,) = (await asker.end_offsets([("copies", 0)])).values()
        copies = Counter()
        while await asker.position(("copies", 0)) < end:
            copies.update(int(record.value) for record in await asker.poll(timeout_ms=1000))
    async with reading(world, "asker", topics=[]) as asker:
        found = await asker.committed(ALL)
    return copies, {each.partition: kept.offset for each, kept in found.items()}


async def finish(world, count, **settings):
    """Copy what is left in plain blocks, and check that every record counts once."""
    async with reading(world, "last", **settings) as consumer, writing(world, "last") as producer:
        async with asyncio.timeout(120):
            while sum((await what_counts(world))[1].values()) < count:
                async with producer.transaction(consumer):
                    for record in await consumer.poll(timeout_ms=1000):
                        producer.send("copies", record.value)
    copies, committed = await what_counts(world)
    assert copies == dict.fromkeys(range(count), 1)
    assert sum(committed.values()) == count


def test_a_block_that_loses_its_partitions_is_aborted_and_they_come_again():
    async def story(world):
        await feed(world, 10)
        async with reading(world, "one") as consumer, writing(world, "one") as producer:

            async def slow_block():
                async with producer.transaction(consumer):
                    await read_some(consumer, producer, 10)
                    await asyncio.sleep(SLOW_S)

            with pytest.raises(CommitFailed, match="t-0"):
                await slow_block()
            assert await what_counts(world) == ({}, {})
            async with producer.transaction(consumer):
                assert len(await read_some(consumer, producer, 10)) == 10
        assert await what_counts(world) == (dict.fromkeys(range(10), 1), {0: 5, 1: 5})

    run_virtually(story, topics=TOPICS)


def test_a_loop_over_the_consumer_that_loses_its_partitions_is_aborted():
    async def story(world):
        await feed(world, 10)
        async with reading(world, "one") as consumer, writing(world, "one") as producer:
            walk = aiter(consumer)
            async with producer.transaction(consumer):
                producer.send("copies", (await anext(walk)).value)

            async def slow_block():
                async with producer.transaction(consumer):
                    producer.send("copies", (await anext(walk)).value)
                    await asyncio.sleep(SLOW_S)

            with pytest.raises(CommitFailed):
                await slow_block()
            async with producer.transaction(consumer):
                await asyncio.sleep(SLOW_S)  # nothing was handed out in it
            await walk.aclose()
        await finish(world, 10)

    run_virtually(story, topics=TOPICS)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rebalance_within_a_block_that_takes_what_was_handed_out_aborts_it(strategy):
    async def story(world):
        await feed(world, 10)
        wishes = {"partition_assignment_strategy": strategy}
        one, two = reading(world, "one", **wishes), reading(world, "two", **wishes)
        async with one, writing(world, "one") as producer:
            handed_to_two = []

            async def block():
                async with producer.transaction(one):
                    await read_some(one, producer, 10)
                    await two.start()
                    asking = asyncio.ensure_future(two.poll(timeout_ms=60_000))
                    async with asyncio.timeout(60):
                        while len(one.assignment()) != 1 or not asking.done():
                            await one.poll(timeout_ms=200)
                    handed_to_two.extend(await asking)

            with pytest.raises(CommitFailed):
                await block()
            assert await what_counts(world) == ({}, {})
            assert [record.offset for record in handed_to_two] == [*range(5)]
            await two.close()
        await finish(world, 10, **wishes)

    run_virtually(story, topics=TOPICS)


def test_a_rebalance_within_a_block_that_takes_nothing_does_not_disturb_it():
    async def story(world):
        await feed(world, 10)
        wishes = {"partition_assignment_strategy": "cooperative-sticky"}
        async with (
            reading(world, "one", **wishes) as consumer,
            writing(world, "one") as producer,
            producer.transaction(consumer),
        ):
            await read_some(consumer, producer, 10)
            before = consumer.group_metadata().generation_id
            consumer.enforce_rebalance()
            assert await consumer.poll(timeout_ms=5000) == []
            assert consumer.group_metadata().generation_id > before
        assert await what_counts(world) == (dict.fromkeys(range(10), 1), {0: 5, 1: 5})

    run_virtually(story, topics=TOPICS)


def test_a_first_block_that_fails_raises_its_own_error_and_its_records_come_again():
    """Nothing is committed yet, and nothing was assigned when the block began."""

    async def story(world):
        await feed(world, 10)
        async with reading(world, "one") as consumer, writing(world, "one") as producer:

            async def failing_block():
                async with producer.transaction(consumer):
                    assert len(await read_some(consumer, producer, 4)) == 4
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await failing_block()
            async with producer.transaction(consumer):
                assert len(await read_some(consumer, producer, 10)) == 10
        assert await what_counts(world) == (dict.fromkeys(range(10), 1), {0: 5, 1: 5})

    run_virtually(story, topics=TOPICS)


def test_a_consumer_closed_within_a_block_does_not_hide_what_was_raised():
    async def story(world):
        await feed(world, 10)
        async with reading(world, "one") as consumer, writing(world, "one") as producer:

            async def failing_block():
                async with producer.transaction(consumer):
                    await read_some(consumer, producer, 1)
                    await consumer.close()
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await failing_block()
        await finish(world, 10)

    run_virtually(story, topics=TOPICS)


def test_a_consumer_that_cannot_be_part_of_a_transaction_is_refused_before_it_begins():
    async def story(world):
        async with writing(world, "one") as producer:
            for wishes, advice in (
                ({"enable_auto_commit": True}, "enable_auto_commit=False"),
                ({"group_id": None}, "group_id"),
            ):
                async with reading(world, "reader", **wishes) as consumer:
                    with pytest.raises(InvalidState, match=advice):
                        await producer.transaction(consumer).__aenter__()
                    assert not producer.in_transaction

    run_virtually(story, topics=TOPICS)


class Copier:
    """A program that copies in blocks, and in them is slow, polls again or fails, by chance."""

    def __init__(self, world, seed, name, **wishes):
        self.name = name
        self.seen = Counter()
        self._chance = random.Random(f"{seed}/{name}")
        self._consumer = reading(world, name, **wishes)
        self._producer = writing(world, name)

    async def run(self, until_s):
        loop = asyncio.get_running_loop()
        end = loop.time() + until_s
        async with self._consumer, self._producer:
            while loop.time() < end:
                try:
                    await self._block()
                    self.seen["committed"] += 1
                except (CommitFailed, ZeroDivisionError) as error:
                    self.seen[type(error).__name__] += 1

    async def _block(self):
        async with self._producer.transaction(self._consumer):
            for _ in range(self._chance.choice((1, 1, 2, 3))):
                batch = await self._consumer.poll(
                    timeout_ms=1000, max_records=self._chance.randint(1, 7)
                )
                for record in batch:
                    self._producer.send("copies", record.value)
                await asyncio.sleep(self._chance.choice((0, 0.1, 1, SLOW_S)))
            if self._chance.random() < 0.2:
                raise ZeroDivisionError


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_every_record_counts_once_however_slow_and_unstable_the_members_are(seed, strategy):
    async def story(world):
        await feed(world, 200)
        wishes = {"partition_assignment_strategy": strategy}
        copiers = [Copier(world, seed, f"copier-{number}", **wishes) for number in range(3)]
        async with asyncio.TaskGroup() as group:
            for number, copier in enumerate(copiers):
                group.create_task(copier.run(until_s=150 + 20 * number))
                await asyncio.sleep(20)
        seen = sum((copier.seen for copier in copiers), Counter())
        assert min(seen[what] for what in ("committed", "CommitFailed", "ZeroDivisionError")) > 2
        await finish(world, 200, **wishes)

    run_virtually(story, seed=seed, topics=TOPICS)
