"""The fast path of Fetch: its answers and effects are those of the slow path.

Every test sends the same frames to two brokers, one that has the fast path and one that does not.
"""

from __future__ import annotations

import asyncio

import pytest

from kits.fast_path_kit import BothPaths, OneRouteBroker
from kits.fetch_kit import FAR
from kits.led_partitions import LedPartitions
from kits.log_kit import make_batch, marker, sized_batch
from kits.partition_kit import ME, OTHER
from kits.request_kit import session
from moldau.base.files import FileRegion
from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
)
from moldau.protocol.registry import encode_request, find_api
from moldau.records.batch import parse_header
from moldau.server.handlers.fetch_fast_path import FetchFastPath
from moldau.server.network.connection import Connection
from moldau.server.network.dispatch import Route

COUNT = 40
TOPIC_ID = TopicId(b"t" * 16)
BROKERS = session(listener="BROKERS")


class Broker(OneRouteBroker):
    """Partitions that another broker follows, behind a dispatcher."""

    def __init__(self, *, fast_path):
        super().__init__()
        topic_ids = {PartitionKey("t", index): TOPIC_ID for index in range(COUNT)}
        stats = self.metrics.of("Fetch")
        self.led = led = LedPartitions(topic_ids, stats)
        self.clock, self.partitions, self.parked = led.clock, led.partitions, led.parked
        self.pending = []
        self.serve(
            Route(1, "0-18", led.handler, self.metrics, ()),
            FetchFastPath(led.handler, stats, self.clock),
            self.clock,
            has_fast_path=fast_path,
        )

    def append(self, index=0, batch=None):
        self.led.append_to(self.partitions.get("t", index), batch)

    def followed(self, index):
        """The follower says that it has everything."""
        one = self.partitions.get("t", index)
        now = self.clock.monotonic()
        one.update_follower(OTHER, one.log_end_offset, 5, now, log_start_offset=0, broker_epoch=7)

    def watchers(self, index):
        return len(self.partitions.get("t", index)._watchers)

    def abort_a_transaction(self, index):
        partition = self.partitions.get("t", index)
        batch = make_batch(producer=(3, 0, 0), transactional=True)
        partition.append_as_leader(batch, parse_header(batch), 1)
        partition.append_marker(*marker(3, 0, aborted=True), transaction_version=1)
        self.followed(index)

    def send(self, frame, asker=None):
        asking = Connection(None, asker or BROKERS, None, frame_limit=FAR, on_close=None)
        answer = self.dispatch(asking, memoryview(frame))
        if isinstance(answer, list):
            return comparable(answer)
        self.pending.append(answer)
        return "parked"

    def answer(self):
        """What the request that was parked last is answered, if it is."""
        pending = self.pending[-1]
        return comparable(pending.framed()) if pending.future.done() else "parked"

    def content(self):
        return [
            (one.log_end_offset, one.high_watermark, one._leading.followers[OTHER].end_offset)
            for one in self.partitions
        ] + [self.parked.count, self.led.traffic.of("t").bytes_out]


def comparable(parts):
    """The bytes of an answer, with the places of file regions."""
    return b"".join(
        repr((part.file.path, part.position, part.size)).encode()
        if isinstance(part, FileRegion)
        else part
        for part in parts
    )


class Both(BothPaths):
    """The broker with the fast path and the one without, and a session with each."""

    broker, api = Broker, "Fetch"

    def __init__(self, indexes=range(3), **who):
        super().__init__()
        self.who = who
        first = self.send(frame(dict.fromkeys(indexes, 0), epoch=0, session_id=0, **who))
        self.session_id = int.from_bytes(first[15:19])
        self.epoch = 0

    def fetch(self, wanted, **options):
        """Go on with the session."""
        self.epoch += 1
        asked = {"session_id": self.session_id, "epoch": self.epoch} | self.who | options
        return self.send(frame(wanted, **asked), asked.pop("asker", None))

    def append(self, index=0, batch=None):
        self.each(lambda one: one.append(index, batch))


def frame(
    wanted, *, session_id, epoch, wait_ms=0, replica=OTHER, broker_epoch=7, leader_epoch=5,
    last_epoch=-1, version=17, max_bytes=FAR, isolation=0, asker=None,
):  # fmt: skip
    del asker
    partitions = [
        FetchPartition(index, leader_epoch, offset, last_epoch, 0, FAR)
        for index, offset in wanted.items()
    ]
    request = FetchRequest(
        replica_id=replica,
        replica_state=FetchReplicaState(replica, broker_epoch),
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic("t", TOPIC_ID, partitions)] if partitions else [],
    )
    return b"".join(encode_request(find_api(1), version, epoch + 7, "follower", request))[4:]


CONSUMER = {"replica": -1, "broker_epoch": -1, "asker": session(listener="CLIENTS")}
NO_SESSION = {"session_id": 0, "epoch": -1}


def play(work):
    asyncio.run(work())


@pytest.mark.parametrize("version", range(13, 19))
def test_a_follower_that_keeps_up_is_answered_as_on_the_slow_path(version):
    async def work():
        both = Both()
        for number in range(3):
            waits = both.fetch({1: number}, wait_ms=500, version=version)
            assert waits == "parked"
            both.append(1, sized_batch(300))
            assert both.each(lambda one: one.answer()) == "parked"
            await asyncio.sleep(0)
            assert b"300)" in both.each(lambda one: one.answer())
            both.each(Broker.content)
        assert both.fetch({1: 2}, version=version) != "parked"
        assert both.fast_count == (4 if version >= 15 else 0)

    play(work)


def test_what_other_partitions_have_is_in_the_answer_too():
    async def work():
        both = Both()
        both.append(2)
        assert b"t-2" in both.fetch({1: 0})
        assert both.fetch({1: 0, 2: 1}, wait_ms=500) == "parked"
        assert both.fetch({2: 1}, wait_ms=500) == "parked"
        both.append(1)
        both.append(0)
        await asyncio.sleep(0)
        answer = both.each(lambda one: one.answer())
        assert b"t-0" in answer
        assert b"t-1" in answer
        assert both.fast_count == 2

    play(work)


@pytest.mark.parametrize(
    "changes",
    [
        {"leader_epoch": 4},
        {"leader_epoch": 6},
        {"last_epoch": 9},
        {"broker_epoch": 6},
        {"max_bytes": 0},
        {"wait_ms": -1},
        {"offset": 3},
        {"offset": -1},
    ],
)
@pytest.mark.parametrize("who", [{}, CONSUMER | NO_SESSION], ids=["follower", "consumer"])
def test_errors_and_limits_are_those_of_the_slow_path(changes, who):
    async def work():
        both = Both()
        both.append(1, sized_batch(300))
        both.each(lambda one: one.followed(1))
        offset = changes.get("offset", 0)
        options = {name: value for name, value in changes.items() if name != "offset"}
        assert both.fetch({1: offset}, **who | options) != "parked"
        assert both.fast_count == 1

    play(work)


def test_a_partition_that_is_not_there_is_told_to_a_consumer_without_a_session():
    async def work():
        both = Both()
        assert both.fetch({99: 0}, **CONSUMER, **NO_SESSION) != "parked"
        assert both.fast_count == 1

    play(work)


@pytest.mark.parametrize(
    ("wanted", "changes"),
    [
        ({1: 0}, {"epoch": 9}),
        ({1: 0}, {"epoch": 0}),
        ({1: 0}, {"epoch": -1}),
        ({1: 0}, {"session_id": 12345}),
        ({1: 0}, {"replica": 9}),
        ({1: 0}, {"replica": ME}),
        ({1: 0}, {"asker": session(listener="CLIENTS")}),
        ({9: 0}, {}),
        ({1: 0, 2: 0}, {}),
        ({}, {}),
        ({1: 0, 2: 0}, CONSUMER | NO_SESSION),
        ({}, CONSUMER | NO_SESSION),
    ],
)
def test_any_other_request_takes_the_slow_path(wanted, changes):
    async def work():
        both = Both()
        both.append(1)
        assert both.fetch(wanted, **changes) != "parked"
        assert both.fast_count == 0

    play(work)


def test_a_session_with_much_to_look_at_takes_the_slow_path():
    async def work():
        both = Both(range(COUNT))
        for index in range(COUNT):
            both.append(index)
        both.fetch({1: 0})
        assert both.fast_count == 0

    play(work)


def test_time_that_is_up_ends_the_wait_and_a_client_that_leaves_does_too():
    async def work():
        both = Both()
        assert both.fetch({1: 0}, wait_ms=1) == "parked"
        await asyncio.wait([one.pending[-1].future for one in (both.fast, both.slow)])
        assert both.each(lambda one: one.answer()) != "parked"
        assert both.fetch({1: 0}, wait_ms=60_000) == "parked"
        both.each(lambda one: one.pending[-1].abandon())
        assert both.each(lambda one: one.parked.count) == 0

    play(work)


def test_a_request_is_woken_also_if_an_earlier_one_of_its_session_is_given_up():
    """A follower whose connection broke asks again before the leader has noticed."""

    async def work():
        both = Both()
        assert both.fetch({1: 0}, wait_ms=60_000) == "parked"
        assert both.fetch({1: 0}, wait_ms=60_000) == "parked"
        both.each(lambda one: one.pending[0].abandon())
        both.append(1)
        await asyncio.sleep(0)
        assert both.each(lambda one: one.answer()) != "parked"
        assert both.each(lambda one: one.parked.count) == 0

    play(work)


@pytest.mark.parametrize("version", range(13, 19))
@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("options", [{}, NO_SESSION])
def test_a_consumer_that_keeps_up_is_answered_as_on_the_slow_path(version, isolation, options):
    asked = options | {"version": version, "isolation": isolation, "wait_ms": 500}

    async def work():
        both = Both(**CONSUMER)
        for number in range(3):
            assert both.fetch({1: number}, **asked) == "parked"
            both.append(1, sized_batch(300))
            await asyncio.sleep(0)
            assert both.each(lambda one: one.answer()) == "parked"
            both.each(lambda one: one.followed(1))
            await asyncio.sleep(0)
            assert b"300)" in both.each(lambda one: one.answer())
            both.each(Broker.content)
        assert both.fetch({1: 2}, **asked) != "parked"
        assert both.fast_count == (4 if version >= 15 else 0)
        assert both.each(lambda one: one.watchers(1)) == 1  # the session

    play(work)


@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("options", [{}, NO_SESSION])
def test_a_consumer_whose_time_is_up_is_told_what_the_slow_path_tells(isolation, options):
    async def work():
        both = Both(**CONSUMER)
        assert both.fetch({1: 0}, wait_ms=1, isolation=isolation, **options) == "parked"
        await asyncio.wait([one.pending[-1].future for one in (both.fast, both.slow)])
        assert both.each(lambda one: one.answer()) != "parked"
        assert both.fetch({1: 0}, wait_ms=0, isolation=isolation, **options) != "parked"
        assert both.fast_count == 2

    play(work)


@pytest.mark.parametrize("options", [{}, NO_SESSION])
def test_aborted_transactions_are_told_to_a_consumer(options):
    async def work():
        both = Both(**CONSUMER)
        both.each(lambda one: one.abort_a_transaction(1))
        told = both.fetch({1: 0}, isolation=1, **options)
        untold = both.fetch({1: 0}, isolation=0, **options)
        assert len(told) == len(untold) + 17  # the id of the producer, its offset and no tags
        assert both.fast_count == 2

    play(work)


def test_a_consumer_does_not_go_on_with_the_session_of_a_follower():
    async def work():
        both = Both()
        both.fetch({1: 0}, **CONSUMER)
        assert both.fast_count == 0

    play(work)
