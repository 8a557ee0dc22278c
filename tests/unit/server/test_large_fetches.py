"""Fetches of many partitions: done in slices, with nothing overlooked in between."""

from __future__ import annotations

import asyncio

import pytest

from kits.fetch_kit import FAR, Kit, unexpected
from kits.log_kit import sized_batch
from kits.request_kit import context
from kits.slicing import count_pauses, finished
from moldau.observe.requests import RequestMetrics
from moldau.observe.traffic import Traffic
from moldau.protocol.messages.data import FetchPartition, FetchRequest, FetchTopic
from moldau.server.fetch.sessions import FINAL_EPOCH
from moldau.server.handlers.fetch import FetchHandler

NAMES = [f"t{number}" for number in range(200)]
VERSION = 12


class Memory:
    """Has memory for whatever is asked for."""

    async def reserve(self, size):
        del size


class Broker:
    """The handler of Fetch over two hundred topics."""

    def __init__(self):
        self.kit = Kit(*NAMES)
        self.handler = FetchHandler(
            self.kit.partitions,
            self.kit.sessions,
            None,
            Traffic(),
            RequestMetrics().of("Fetch"),
            unexpected,
            unexpected,
            max_bytes=FAR,
        )

    def fetch(self, names=NAMES, *, session_id=0, epoch=-1, max_wait_ms=0, version=VERSION):
        topics = [
            FetchTopic(name, partitions=[FetchPartition(0, partition_max_bytes=FAR)])
            for name in names
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
        )
        return self.handler(request, context(version, memory=Memory()))

    @property
    def watched(self):
        """How many partitions somebody listens to."""
        return sum(bool(self.kit[name]._watchers) for name in NAMES)


@pytest.fixture
def broker():
    return Broker()


def told(response):
    """The topics an answer names, and those with records."""
    with_records = [
        topic.topic for topic in response.responses if any(one.records for one in topic.partitions)
    ]
    return len(response.responses), with_records


def test_a_small_fetch_does_not_pause(broker):
    assert count_pauses(broker.fetch(NAMES[:10])) == 0


def test_a_large_one_pauses_where_it_reads_and_where_it_answers(broker):
    assert count_pauses(broker.fetch()) >= 4 * (len(NAMES) // 32)
    assert told(finished(broker.fetch())) == (200, [])


def test_a_partition_named_often_is_read_once(broker):
    broker.kit.append("t0", sized_batch(200))
    assert told(finished(broker.fetch(["t0"] * 1000))) == (1, ["t0"])


@pytest.mark.parametrize("epoch", [-1, 0])
def test_what_comes_between_two_slices_wakes_a_fetch_that_is_parked_then(broker, epoch):
    async def scenario():
        work = broker.fetch(epoch=epoch, max_wait_ms=60_000)
        for _ in range(10):
            next(work)  # the first partitions have been read, and had nothing
        broker.kit.append("t0", sized_batch(200))
        response = await asyncio.wait_for(finished(work), 30)
        assert told(response) == (200, ["t0"])

    asyncio.run(scenario())


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_large_fetch_that_is_parked_is_answered_when_its_time_is_up(broker, epoch):
    async def scenario():
        response = await finished(broker.fetch(epoch=epoch, max_wait_ms=1))
        assert told(response) == (200, [])

    asyncio.run(scenario())


def test_a_fetch_whose_client_leaves_listens_no_more(broker):
    async def scenario():
        work = broker.fetch(max_wait_ms=60_000)
        for _ in range(10):
            next(work)
        assert broker.watched
        work.close()
        assert not broker.watched
        waiting = finished(broker.fetch(max_wait_ms=60_000))
        assert broker.watched == len(NAMES)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not broker.watched

    asyncio.run(scenario())


@pytest.mark.parametrize("max_wait_ms", [0, 1])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_fetch_of_an_old_client_listens_no_more_when_it_is_done(broker, max_wait_ms, leaves):
    async def scenario():
        work = finished(broker.fetch(max_wait_ms=max_wait_ms, version=3)).start()
        assert broker.watched
        if leaves:
            work.cancel()
        await asyncio.wait([work], timeout=30)
        assert work.cancelled() == leaves
        assert not broker.watched

    asyncio.run(scenario())


def test_a_session_that_ends_in_between_listens_no_more(broker):
    session_id = finished(broker.fetch(epoch=0)).session_id
    assert broker.watched == len(NAMES)
    work = broker.fetch(session_id=session_id, epoch=1)
    for _ in range(10):
        next(work)
    broker.kit.sessions.open(session_id, FINAL_EPOCH)
    finished(work)
    assert not broker.watched
