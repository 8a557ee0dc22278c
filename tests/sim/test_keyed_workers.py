"""KeyedWorkers and RetryTopics on virtual time, with a real broker, groups and faults."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict

import pytest

from moldau.base.errors import ConfigError
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import InvalidState
from moldau.client.processing import KeyedWorkers, RetryTopics
from moldau.client.processing import retry_topics as names
from moldau.client.producer import AsyncProducer
from moldau.client.records import TopicPartition
from moldau.testing.virtual import run_virtually

KEYS = [b"k%d" % number for number in range(7)]


class Job:
    """What handlers of all members did with the records of a topic."""

    def __init__(self, seed, mean_s=0.05):
        self._chance = random.Random(f"{seed}/job")
        self._mean_s = mean_s
        self.begun = defaultdict(list)
        """Values by key, in the order in which work on them began."""
        self.busy = Counter()
        self.busiest = 0
        self.finished = Counter()
        self.last_finished = {}

    async def handle(self, record):
        self.busy[record.key] += 1
        assert self.busy[record.key] == 1 or record.key is None, "two of one key at once"
        self.busiest = max(self.busiest, self.busy.total())
        self.begun[record.key].append(int(record.value))
        try:
            await asyncio.sleep(self._chance.expovariate(1 / self._mean_s))
            self.finished[int(record.value)] += 1
        finally:
            self.busy[record.key] -= 1


def consumer_of(world, host="member", **settings):
    wishes = {
        "group_id": "g",
        "topics": ["t"],
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": "cooperative-sticky",
        **settings,
    }
    return AsyncConsumer(**world.client(host), **wishes)


async def feed(world, count, *, start=0, topic="t", keys=KEYS):
    async with AsyncProducer(**world.client("feeder")) as producer:
        for number in range(start, start + count):
            producer.send(topic, b"%d" % number, keys[number % len(keys)])


async def committed(world, *partitions):
    async with consumer_of(world, "asker", topics=[]) as asker:
        found = await asker.committed(partitions)
    return {partition: offset.offset for partition, offset in found.items()}


async def until(condition, patience_s=600):
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.05)


ALL = [TopicPartition("t", number) for number in range(3)]


@pytest.mark.parametrize("seed", range(5))
def test_keys_keep_their_order_and_everything_is_committed_at_the_end(seed):
    async def story(world):
        await feed(world, 300)
        job = Job(seed)
        async with consumer_of(world) as consumer:
            workers = KeyedWorkers(consumer, job.handle, concurrency=5)
            running = asyncio.ensure_future(workers.run())
            await until(lambda: len(job.finished) == 300)
            workers.stop()
            await running
        assert job.busiest == 5
        assert all(seen == sorted(seen) for seen in job.begun.values())
        assert set(job.finished.values()) == {1}
        assert sum((await committed(world, *ALL)).values()) == 300

    run_virtually(story, seed=seed, topics={"t": 3})


@pytest.mark.parametrize("finish", ["begun", "all"])
@pytest.mark.parametrize("seed", range(3))
def test_a_stop_commits_no_record_that_is_not_finished(seed, finish):
    async def story(world):
        await feed(world, 100)
        job = Job(seed)
        async with consumer_of(world) as consumer:
            workers = KeyedWorkers(consumer, job.handle, concurrency=4, finish=finish)
            running = asyncio.ensure_future(workers.run())
            await until(lambda: len(job.finished) >= 10)
            pending = workers.pending_count
            assert pending > 50
            workers.stop()
            await running
            assert workers.pending_count == 0
            assert len(job.finished) == 100 if finish == "all" else len(job.finished) < 30
            done = await committed(world, *ALL)
            await workers_again(consumer, job)
        assert set(job.finished) == set(range(100))
        assert sum(done.values()) <= job_total(job)
        assert sum((await committed(world, *ALL)).values()) == 100

    async def workers_again(consumer, job):
        workers = KeyedWorkers(consumer, job.handle, concurrency=4)
        running = asyncio.ensure_future(workers.run())
        await until(lambda: len(job.finished) == 100)
        workers.stop()
        await running

    def job_total(job):
        return job.finished.total()

    run_virtually(story, seed=seed, topics={"t": 3})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("finish", ["begun", "all"])
@pytest.mark.parametrize("seed", range(3))
def test_members_that_come_and_go_lose_nothing_and_keep_the_order_of_keys(seed, strategy, finish):
    """Who finishes all that was read leaves no gaps, so that nothing is even done twice."""

    async def story(world):
        await feed(world, 400)
        job = Job(seed)
        members = []

        async def member(name):
            wishes = {"partition_assignment_strategy": strategy}
            async with consumer_of(world, name, **wishes) as consumer:
                workers = KeyedWorkers(
                    consumer, job.handle, concurrency=3, commit_interval_ms=500, finish=finish
                )
                members.append(workers)
                await workers.run()

        tasks = [asyncio.ensure_future(member("one"))]
        await until(lambda: len(job.finished) >= 40)
        tasks.append(asyncio.ensure_future(member("two")))
        await until(lambda: len(job.finished) >= 150)
        members[0].stop()
        await until(lambda: len(job.finished) >= 200)
        tasks.append(asyncio.ensure_future(member("three")))
        await until(lambda: len(job.finished) == 400)
        for workers in members:
            workers.stop()
        await asyncio.gather(*tasks)
        if finish == "all":
            assert job.finished.total() == 400
        for seen in job.begun.values():
            assert list(dict.fromkeys(seen)) == sorted(set(seen))
        assert sum((await committed(world, *ALL)).values()) == 400

    run_virtually(story, seed=seed, topics={"t": 3})


@pytest.mark.parametrize("seed", range(3))
def test_a_member_that_is_cut_off_drops_its_work_and_the_other_does_it(seed):
    async def story(world):
        await feed(world, 200)
        jobs = {"one": Job(seed, 1.0), "two": Job(f"{seed}b", 0.1)}
        members = {}

        async def member(name):
            async with consumer_of(world, name) as consumer:
                members[name] = KeyedWorkers(consumer, jobs[name].handle, concurrency=2)
                await members[name].run()

        def done():
            return set(jobs["one"].finished) | set(jobs["two"].finished)

        first = asyncio.ensure_future(member("one"))
        await until(lambda: jobs["one"].finished)
        world.network.partition(["one"], ["broker"])
        second = asyncio.ensure_future(member("two"))
        await until(lambda: done() == set(range(200)))
        world.network.heal()
        await asyncio.sleep(120)
        for workers in members.values():
            workers.stop()
        await asyncio.gather(first, second)
        assert sum((await committed(world, *ALL)).values()) == 200

    run_virtually(story, seed=seed, topics={"t": 3})


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_is_killed_again_and_again_costs_repetitions_at_most(seed):
    async def story(world):
        await feed(world, 300)
        job = Job(seed)
        async with consumer_of(world) as consumer:
            workers = KeyedWorkers(consumer, job.handle, concurrency=4, commit_interval_ms=300)
            running = asyncio.ensure_future(workers.run())
            for _ in range(3):
                await asyncio.sleep(2)
                world.broker.kill()
                await asyncio.sleep(1)
                await world.broker.start()
            await until(lambda: len(job.finished) == 300)
            workers.stop()
            await running
        assert sum((await committed(world, *ALL)).values()) == 300

    run_virtually(story, seed=seed, topics={"t": 3})


def test_pending_records_are_bounded_and_a_slow_handler_keeps_its_place():
    async def story(world):
        await feed(world, 200)
        job = Job(1, mean_s=30.0)
        most = 0
        lost = []

        class Listener:
            def on_partitions_lost(self, partitions):
                lost.append(partitions)

        settings = {"topics": [], "max_poll_records": 10, "max_poll_interval_ms": 90_000}
        async with consumer_of(world, **settings) as consumer:
            consumer.subscribe(["t"], listener=Listener())
            workers = KeyedWorkers(consumer, job.handle, concurrency=2, max_pending=20)
            running = asyncio.ensure_future(workers.run())
            while len(job.finished) < 200:
                most = max(most, workers.pending_count)
                await asyncio.sleep(1)
            workers.stop()
            await running
        assert 20 <= most < 30
        assert not lost
        assert job.finished.total() == 200

    run_virtually(story, topics={"t": 3}, limit_s=36_000)


def test_room_is_used_as_soon_as_it_is_there():
    async def story(world):
        await feed(world, 200)
        job = Job(1, mean_s=0.01)
        async with consumer_of(world, max_poll_records=4) as consumer:
            workers = KeyedWorkers(
                consumer, job.handle, concurrency=2, max_pending=4, commit_interval_ms=60_000
            )
            running = asyncio.ensure_future(workers.run())
            await until(lambda: job.finished)
            began = world.now
            await until(lambda: len(job.finished) == 200)
            assert world.now - began < 10
            workers.stop()
            await running

    run_virtually(story, topics={"t": 3})


def test_what_a_handler_raises_ends_the_run_and_the_record_comes_again():
    async def story(world):
        await feed(world, 50)
        seen = []
        fails = True

        async def handle(record):
            seen.append(int(record.value))
            if record.value == b"20" and fails:
                raise KeyError("twenty")

        async with consumer_of(world) as consumer:
            workers = KeyedWorkers(consumer, handle, concurrency=4)
            with pytest.raises(KeyError, match="twenty") as failure:
                await workers.run()
            assert any("at offset" in note for note in failure.value.__notes__)
            done = sum((await committed(world, *ALL)).values())
            assert done <= len(seen) - 1
            fails = False
            running = asyncio.ensure_future(workers.run())
            await until(lambda: len(set(seen)) == 50)
            workers.stop()
            await running
        assert seen.count(20) == 2
        assert sum((await committed(world, *ALL)).values()) == 50

    run_virtually(story, topics={"t": 3})


def test_cancelled_it_cancels_its_handlers_and_commits_nothing_of_them():
    async def story(world):
        await feed(world, 10)
        job = Job(1, mean_s=1_000.0)
        async with consumer_of(world) as consumer:
            running = asyncio.ensure_future(KeyedWorkers(consumer, job.handle).run())
            await until(lambda: job.busy.total() == 7)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert not job.busy.total()
        assert not await committed(world, *ALL)

    run_virtually(story, topics={"t": 3})


@pytest.mark.parametrize("finish", ["begun", "all"])
def test_a_handler_that_does_not_end_in_time_is_cancelled_by_a_stop(finish):
    async def story(world):
        await feed(world, 10)
        ends = []

        async def handle(record):
            try:
                await asyncio.sleep(0.1 if record.value == b"0" else 10_000)
            finally:
                ends.append(int(record.value))

        async with consumer_of(world) as consumer:
            workers = KeyedWorkers(
                consumer, handle, concurrency=2, finish=finish, drain_timeout_ms=5_000
            )
            running = asyncio.ensure_future(workers.run())
            await until(lambda: ends)
            began = world.now
            workers.stop()
            await running
            assert 5 <= world.now - began < 6
        assert len(ends) == 3, "more was begun than there are places"
        assert await committed(world, *ALL[:1]) == {ALL[0]: 1}

    run_virtually(story, topics=["t"])


def test_a_consumer_that_is_closed_ends_the_run():
    async def story(world):
        async with consumer_of(world) as consumer:
            running = asyncio.ensure_future(KeyedWorkers(consumer, Job(1).handle).run())
            await asyncio.sleep(1)
            await consumer.close()
            await running

    run_virtually(story, topics={"t": 3})


def test_a_consumer_that_would_lose_records_is_refused():
    async def story(world):
        for settings in (
            {"enable_auto_commit": True},
            {"group_id": None, "topics": []},
            {"topics": []},
        ):
            async with consumer_of(world, **settings) as consumer:
                with pytest.raises(InvalidState):
                    await KeyedWorkers(consumer, Job(1).handle).run()
        for wrong in ({"concurrency": 0}, {"max_pending": 0}, {"finish": "some"}):
            with pytest.raises(ConfigError):
                KeyedWorkers(consumer, Job(1).handle, **wrong)

    run_virtually(story, topics={"t": 3})


def test_records_without_a_key_do_not_wait_for_each_other():
    async def story(world):
        await feed(world, 20, keys=[None])
        job = Job(1, mean_s=1.0)
        async with consumer_of(world) as consumer:
            workers = KeyedWorkers(consumer, job.handle, concurrency=20)
            running = asyncio.ensure_future(workers.run())
            await until(lambda: len(job.finished) == 20)
            workers.stop()
            await running
        assert job.busiest > 10

    run_virtually(story, topics={"t": 1})


def test_a_key_that_cannot_be_told_from_others_is_refused_and_its_record_comes_again():
    async def story(world):
        await feed(world, 10)
        async with consumer_of(world, key_deserializer=list) as consumer:
            with pytest.raises(InvalidState, match="is a list"):
                await KeyedWorkers(consumer, Job(1).handle).run()
            seen = []

            async def handle(record):
                seen.append(int(record.value))

            workers = KeyedWorkers(consumer, handle, key=lambda record: bytes(record.key))
            running = asyncio.ensure_future(workers.run())
            await until(lambda: len(seen) == 10)
            workers.stop()
            await running
        assert sorted(seen) == list(range(10))

    run_virtually(story, topics={"t": 3})


def test_partitions_assigned_by_hand_are_worked_on_and_committed():
    async def story(world):
        await feed(world, 30)
        job = Job(1)
        async with consumer_of(world, topics=[]) as consumer:
            consumer.assign(ALL)
            workers = KeyedWorkers(consumer, job.handle, commit_interval_ms=100)
            running = asyncio.ensure_future(workers.run())
            await until(lambda: len(job.finished) == 30)
            workers.stop()
            await running
        assert sum((await committed(world, *ALL)).values()) == 30

    run_virtually(story, topics={"t": 3})


def test_a_listener_of_the_user_s_is_told_after_the_work_is_handed_over():
    async def story(world):
        await feed(world, 60)
        job = Job(1)
        told = []

        class Listener:
            def on_partitions_assigned(self, partitions):
                told.append(("assigned", len(partitions)))

            async def on_partitions_revoked(self, partitions):
                ours = await committed(world, *partitions)
                told.append(("revoked", len(partitions), len(ours), job.busy.total()))

        settings = {"topics": [], "partition_assignment_strategy": "range"}
        async with consumer_of(world, **settings) as consumer:
            consumer.subscribe(["t"], listener=Listener())
            workers = KeyedWorkers(consumer, job.handle, commit_interval_ms=100_000)
            running = asyncio.ensure_future(workers.run())
            await until(lambda: len(job.finished) == 60)
            consumer.enforce_rebalance()
            await until(lambda: len(told) >= 3)
            workers.stop()
            await running
        assert [one for one in told if one[1]][:3] == [
            ("assigned", 3),
            ("revoked", 3, 3, 0),
            ("assigned", 3),
        ]

    run_virtually(story, topics={"t": 3})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(3))
def test_partitions_that_come_back_at_once_go_on_where_their_work_stopped(seed, strategy):
    async def story(world):
        await feed(world, 200)
        job = Job(seed)
        settings = {"partition_assignment_strategy": strategy}
        async with consumer_of(world, **settings) as consumer:
            workers = KeyedWorkers(consumer, job.handle, concurrency=4)
            running = asyncio.ensure_future(workers.run())
            for count in (20, 60, 100):
                await until(lambda count=count: len(job.finished) >= count)
                assert workers.pending_count > 20
                consumer.enforce_rebalance()
                await asyncio.sleep(0.5)
            await until(lambda: len(job.finished) == 200)
            workers.stop()
            await running
            assert sum([await consumer.position(one) for one in ALL]) == 200
        assert sum((await committed(world, *ALL)).values()) == 200

    run_virtually(story, seed=seed, topics={"t": 3})


# Retry topics


async def run_with_retries(world, handle, retries, *, count, letters):
    """Work until so many dead letters are there or so much was handled; return the letters."""
    topics = ["t", *retries.topics("t")]
    async with consumer_of(world, topics=topics) as consumer:
        clock = world.ports().clock
        workers = KeyedWorkers(
            consumer, retries.guard(handle), due_ms=retries.due_ms, clock=clock, concurrency=4
        )
        running = asyncio.ensure_future(workers.run())
        found = []
        async with AsyncConsumer(
            **world.client("undertaker"),
            topics=[retries.dead_letter_topic("t")],
            auto_offset_reset="earliest",
        ) as undertaker:
            while len(found) < letters or count():
                found += await undertaker.poll(timeout_ms=1_000)
        workers.stop()
        await running
    return found


def test_failures_are_tried_again_after_their_delays_and_end_as_dead_letters():
    async def story(world):
        clock = world.ports().clock
        tries = defaultdict(list)
        async with AsyncProducer(**world.client("sender")) as producer:
            retries = RetryTopics(producer, group="g", delays_ms=(5_000, 60_000), clock=clock)
            assert retries.topics("t") == ["t.g.retry-1", "t.g.retry-2"]

            async def handle(record):
                tries[record.value].append(clock.wall_ms())
                if record.value == b"3" or (record.value == b"5" and len(tries[b"5"]) < 3):
                    raise ValueError("x" * 5_000 + "é")

            await producer.send("t", b"3", b"key", headers=[("mine", b"1"), ("mine", None)])
            await feed(world, 10, start=4)
            (letter,) = await run_with_retries(
                world, handle, retries, letters=1, count=lambda: len(tries) < 11
            )
        assert {value: len(times) for value, times in tries.items() if len(times) > 1} == {
            b"3": 3,
            b"5": 3,
        }
        for times in (tries[b"3"], tries[b"5"]):
            assert 5_000 <= times[1] - times[0] < 10_000
            assert 60_000 <= times[2] - times[1] < 65_000
        assert max(tries[b"13"]) - min(tries[b"3"]) < 5_000, "others waited for a retry"
        headers = dict(letter.headers)
        assert (letter.key, letter.value) == (b"key", b"3")
        assert [one for one in letter.headers if one[0] == "mine"] == [
            ("mine", b"1"),
            ("mine", None),
        ]
        assert headers[names.ORIGIN_TOPIC] == b"t"
        assert headers[names.ORIGIN_OFFSET] == b"0"
        assert headers[names.FAILURES] == b"3"
        assert headers[names.ERROR_TYPE] == b"ValueError"
        assert len(headers[names.ERROR_TEXT]) <= names.ERROR_TEXT_SIZE_MAX
        assert names.DUE not in headers

    run_virtually(story, topics=["t", "t.g.retry-1", "t.g.retry-2", "t.g.dead"])


def test_what_is_hopeless_is_not_tried_again_and_headers_of_strangers_do_no_harm():
    async def story(world):
        tries = []
        async with AsyncProducer(**world.client("sender")) as producer:
            retries = RetryTopics(producer, group="g", hopeless=(ValueError,))

            async def handle(record):
                tries.append(record.value)
                raise ValueError

            strange = {names.FAILURES: b"many", names.DUE: None}
            await producer.send("t", b"v", headers=strange)
            (letter,) = await run_with_retries(
                world, handle, retries, letters=1, count=lambda: False
            )
        assert tries == [b"v"]
        assert dict(letter.headers)[names.FAILURES] == b"1"

    run_virtually(story, topics=["t", *[f"t.g.retry-{n}" for n in (1, 2, 3)], "t.g.dead"])
