"""Where replicas lie, on the way to the controller: batches, one request at a time, back-off."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.nodes import directory_reports
from moldau.server.nodes.directory_reports import DirectoryReports

TOPIC, FIRST, SECOND = b"t" * 16, b"d" * 16, b"e" * 16
FAILED = ApiError(ErrorCode.NOT_CONTROLLER)


class Controller:
    """Takes what it is told, or answers as a test has written; holds answers while it is shut."""

    def __init__(self, clock):
        self.clock = clock
        self.asked = []
        self.results = []
        self.at_once = self.most_at_once = 0
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def __call__(self, broker_id, broker_epoch, replicas):
        assert (broker_id, broker_epoch) == (1, 77)
        self.asked.append((self.clock.monotonic(), replicas))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.is_open.wait()
        self.at_once -= 1
        result = self.results.pop(0) if self.results else ErrorCode.NONE
        if isinstance(result, Exception):
            raise result
        return [DirectoryAnswer(one, result) for one in replicas]

    @property
    def told(self):
        return [[(one.index, one.directory) for one in replicas] for _, replicas in self.asked]


def in_world(test):
    """Run a coroutine function of a controller and the reports to it."""

    def run(world):
        async def scenario():
            controller = Controller(world.clock)
            reports = DirectoryReports(controller, 1, lambda: 77, world.random("reports"))
            await test(controller, reports)
            await reports.close()

        world.run(scenario())

    return run


@in_world
async def test_what_is_reported_in_one_turn_leaves_in_one_request(controller, reports):
    for index in range(3):
        reports.report(TOPIC, index, FIRST)
    await asyncio.sleep(60)
    assert [replicas for _, replicas in controller.asked] == [
        [ReplicaDirectory(TOPIC, index, FIRST) for index in range(3)]
    ]


@in_world
async def test_what_comes_during_a_request_leaves_with_the_next(controller, reports):
    controller.is_open.clear()
    reports.report(TOPIC, 0, FIRST)
    await asyncio.sleep(1)
    # The replica of the request under way lies elsewhere by now.
    reports.report(TOPIC, 0, SECOND)
    reports.report(TOPIC, 1, FIRST)
    await asyncio.sleep(1)
    controller.is_open.set()
    await asyncio.sleep(60)
    assert controller.told == [[(0, FIRST)], [(0, SECOND), (1, FIRST)]]
    assert controller.most_at_once == 1


def test_a_request_is_bounded(world, monkeypatch):
    monkeypatch.setattr(directory_reports, "REPLICAS_PER_REQUEST", 2)

    @in_world
    async def test(controller, reports):
        for index in range(5):
            reports.report(TOPIC, index, FIRST)
        await asyncio.sleep(60)
        assert [len(one) for one in controller.told] == [2, 2, 1]

    test(world)


@in_world
async def test_a_failed_request_is_repeated_ever_more_slowly(controller, reports):
    controller.results = [FAILED, StoreFailed("full"), *[FAILED] * 10]
    reports.report(TOPIC, 0, FIRST)
    await asyncio.sleep(600)
    assert controller.told == [[(0, FIRST)]] * 13
    times = [at_s for at_s, _ in controller.asked]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert 0.08 <= waits[0] <= 0.12
    assert 0.16 <= waits[1] <= 0.24
    assert all(8 <= wait <= 12 for wait in waits[8:])


def test_a_bug_is_logged_and_the_request_is_repeated(world, caplog):
    @in_world
    async def test(controller, reports):
        controller.results = [ZeroDivisionError()]
        reports.report(TOPIC, 0, FIRST)
        await asyncio.sleep(60)
        assert controller.told == [[(0, FIRST)]] * 2

    test(world)
    assert caplog.text.count("a bug while directories were reported") == 1


@in_world
async def test_a_replica_that_is_not_here_any_more_is_given_up(controller, reports):
    controller.results = [ErrorCode.UNKNOWN_TOPIC_ID]
    reports.report(TOPIC, 0, FIRST)
    await asyncio.sleep(60)
    assert controller.told == [[(0, FIRST)]]


@in_world
async def test_a_replica_that_is_refused_is_reported_again(controller, reports):
    controller.results = [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    reports.report(TOPIC, 0, FIRST)
    await asyncio.sleep(60)
    assert controller.told == [[(0, FIRST)]] * 3


@in_world
async def test_nothing_is_reported_after_the_end(controller, reports):
    controller.results = [FAILED] * 1000
    reports.report(TOPIC, 0, FIRST)
    await asyncio.sleep(1)
    await reports.close()
    count = len(controller.asked)
    reports.report(TOPIC, 1, FIRST)
    await asyncio.sleep(60)
    assert len(controller.asked) == count
