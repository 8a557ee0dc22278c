"""The controller and its brokers: sessions, answers, and what is due from time to time."""

from __future__ import annotations

import asyncio
import random

import pytest

from kits.metadata_samples import bring_up, registration
from moldau.cluster.broker_controller import ControllerSettings
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.controller import Controller
from moldau.cluster.heartbeats import Heartbeat
from moldau.cluster.isr_changes import IsrProposal
from moldau.cluster.model import NO_LEADER
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.topics import NewTopic, TopicDefaults
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.sim.store import SharedMetadata
from moldau.sim.world import World

TIMEOUT_S = 9.0


class Bench:
    """A controller at node 7, which is no broker, and brokers 1 to 3 with a topic."""

    def __init__(self, world):
        self.shared = SharedMetadata(world)
        self.store = self.shared.store(7)
        self.controller = self.make(world, ControllerSettings(TIMEOUT_S))
        self.world = world
        self.epochs = {}

    def make(self, world, settings):
        return Controller(
            self.store, TopicDefaults(), None, random.Random(1), lambda: True, world.clock, settings
        )

    async def start(self):
        await self.store.start()
        await self.controller.claim()
        for broker_id in (1, 2, 3):
            self.epochs[broker_id] = await bring_up(self.controller, registration(broker_id))
        await self.controller.create_topic(NewTopic("t", assignments={0: [1, 2, 3]}))

    @property
    def image(self):
        return self.store.image

    @property
    def partition(self):
        return self.image.topics["t"].partitions[0]

    async def beat(self, *broker_ids, **wants):
        for broker_id in broker_ids:
            heartbeat = Heartbeat(
                broker_id, self.epochs[broker_id], self.image.version - 1, **wants
            )
            answer = await self.controller.heartbeat(heartbeat)
        return answer


@pytest.fixture
def on_bench():
    def run(work):
        with World(3) as world:

            async def opened():
                bench = Bench(world)
                await bench.start()
                await work(bench)

            world.run(opened())

    return run


async def refusal(request):
    with pytest.raises(ApiError) as refused:
        await request
    return refused.value.code


def test_a_broker_that_is_not_heard_of_is_fenced_one_a_check(on_bench):
    async def work(bench):
        await asyncio.sleep(5)
        await bench.beat(3)
        assert await bench.controller.check_sessions() is None
        await asyncio.sleep(5)
        assert await bench.controller.check_sessions() == 1
        assert bench.image.brokers[1].fenced
        assert not bench.image.brokers[2].fenced
        assert (bench.partition.leader, bench.partition.isr) == (2, (2, 3))
        assert await bench.controller.check_sessions() == 2
        assert await bench.controller.check_sessions() is None
        assert (bench.partition.leader, bench.partition.isr) == (3, (3,))

    on_bench(work)


def test_a_fenced_broker_returns_with_its_next_heartbeat(on_bench):
    async def work(bench):
        await asyncio.sleep(10)
        assert await bench.controller.check_sessions() == 1
        assert not (await bench.beat(1)).is_fenced
        assert bench.image.brokers[1].active
        assert bench.partition.leader == 2

    on_bench(work)


def test_a_heartbeat_counts_when_it_comes_not_when_it_is_decided(on_bench):
    async def work(bench):
        await asyncio.sleep(10)
        # The queue is busy, so the check and then the heartbeat wait in it.
        creating = asyncio.ensure_future(bench.controller.create_topic(NewTopic("u", 1, 1)))
        await asyncio.sleep(0)
        checking = asyncio.ensure_future(bench.controller.check_sessions())
        await asyncio.sleep(0)
        assert not creating.done()
        beating = asyncio.ensure_future(bench.beat(1))
        await asyncio.gather(creating, checking, beating)
        assert checking.result() is None
        assert bench.image.brokers[1].active

    on_bench(work)


def test_another_incarnation_waits_for_the_end_of_the_session(on_bench):
    async def work(bench):
        other = registration(1, incarnation=99)
        duplicate = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert await refusal(bench.controller.register_broker(other)) is duplicate
        await asyncio.sleep(10)
        epoch = await bench.controller.register_broker(other)
        assert epoch > bench.epochs[1]
        assert bench.image.brokers[1].fenced
        assert await refusal(bench.beat(1)) is ErrorCode.STALE_BROKER_EPOCH

    on_bench(work)


def test_a_session_that_was_taken_over_fences_nobody(on_bench):
    async def work(bench):
        await asyncio.sleep(10)
        bench.epochs[1] = await bring_up(bench.controller, registration(1, incarnation=99))
        await bench.beat(2, 3)
        assert await bench.controller.check_sessions() is None
        assert bench.image.brokers[1].active

    on_bench(work)


def test_a_new_controller_begins_all_sessions_anew_but_that_of_its_own_broker(on_bench):
    async def work(bench):
        await asyncio.sleep(8)
        bench.shared.end_session(7)
        await asyncio.sleep(1.5)
        later = bench.make(bench.world, ControllerSettings(TIMEOUT_S, own_broker_id=1))
        assert await later.claim()
        assert await later.check_sessions() is None
        duplicate = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert await refusal(later.register_broker(registration(2, incarnation=9))) is duplicate
        assert await later.register_broker(registration(1, incarnation=9)) > bench.epochs[1]
        await asyncio.sleep(10)
        assert [await later.check_sessions() for _ in range(3)] == [2, 3, None]

    on_bench(work)


def test_a_broker_stops_when_the_others_know_who_leads(on_bench):
    async def work(bench):
        assert not (await bench.beat(1, want_shut_down=True)).should_shut_down
        assert bench.partition.leader == 2
        assert not (await bench.beat(1, want_shut_down=True)).should_shut_down
        await bench.beat(2)
        assert not (await bench.beat(1, want_shut_down=True)).should_shut_down
        await bench.beat(3)
        assert (await bench.beat(1, want_shut_down=True)).should_shut_down
        assert bench.image.brokers[1].fenced

    on_bench(work)


def test_the_successor_of_a_broker_that_has_stopped_need_not_wait(on_bench):
    async def work(bench):
        epoch = bench.epochs[1]
        await bench.beat(1, want_shut_down=True)
        await bench.beat(2, 3)
        assert (await bench.beat(1, want_shut_down=True)).should_shut_down
        assert await bench.controller.register_broker(registration(1, incarnation=9)) > epoch

    on_bench(work)


def test_a_new_controller_lets_a_broker_stop_that_began_before(on_bench):
    async def work(bench):
        await bench.beat(1, want_shut_down=True)
        bench.shared.end_session(7)
        await asyncio.sleep(1)
        bench.controller = bench.make(bench.world, ControllerSettings(TIMEOUT_S))
        assert await bench.controller.claim()
        assert not (await bench.beat(1, want_shut_down=True)).should_shut_down
        await bench.beat(2, 3)
        assert (await bench.beat(1, want_shut_down=True)).should_shut_down

    on_bench(work)


def test_leaders_change_their_isr(on_bench):
    async def work(bench):
        topic = bench.image.topics["t"]
        members = ((1, bench.epochs[1]), (2, bench.epochs[2]))
        proposal = IsrProposal(topic.id, 0, 0, 0, members)
        (answer,) = await bench.controller.alter_partitions(1, bench.epochs[1], [proposal])
        assert (answer.error, answer.isr) == (ErrorCode.NONE, (1, 2))
        assert bench.partition.isr == (1, 2)
        stale = bench.controller.alter_partitions(1, 12345, [proposal])
        assert await refusal(stale) is ErrorCode.STALE_BROKER_EPOCH

    on_bench(work)


def test_a_decision_is_taken_again_where_somebody_else_wrote(on_bench):
    async def work(bench):
        topic = bench.image.topics["t"]
        proposal = IsrProposal(topic.id, 0, 0, 0, ((1, -1), (2, -1)))
        asked = asyncio.ensure_future(
            bench.controller.alter_partitions(1, bench.epochs[1], [proposal])
        )
        await asyncio.sleep(0)
        bench.shared.write([PartitionChanged(topic.id, 0, isr=(1, 3))])
        (answer,) = await asked
        assert answer.error is ErrorCode.INVALID_UPDATE_VERSION
        assert bench.partition.isr == (1, 3)

    on_bench(work)


def test_replicas_are_moved_and_leaders_elected(on_bench):
    async def work(bench):
        answers = await bench.controller.alter_reassignments([WantedReplicas("t", 0, (3, 2))])
        assert [one.error for one in answers] == [ErrorCode.NONE]
        assert (bench.partition.replicas, bench.partition.leader) == ((3, 2), 3)
        bench.shared.write([PartitionChanged(bench.image.topics["t"].id, 0, leader=2)])
        await asyncio.sleep(1)
        assert await bench.controller.elect_preferred_leaders() is False
        assert bench.partition.leader == 3
        await bench.controller.unregister_broker(3)
        assert (bench.partition.leader, set(bench.image.brokers)) == (2, {1, 2})

    on_bench(work)


@pytest.mark.parametrize(("percentage", "leader"), [(0, 1), (99, 1), (100, 2)])
def test_leaders_are_moved_back_as_the_settings_say(on_bench, percentage, leader):
    async def work(bench):
        bench.shared.end_session(7)
        bench.shared.write([PartitionChanged(bench.image.topics["t"].id, 0, leader=2)])
        await asyncio.sleep(1)
        settings = ControllerSettings(TIMEOUT_S, leader_imbalance_percentage=percentage)
        later = bench.make(bench.world, settings)
        assert await later.claim()
        assert await later.elect_preferred_leaders() is False
        assert bench.partition.leader == leader

    on_bench(work)


def test_a_leader_that_may_lack_records_is_elected_where_that_is_allowed(on_bench):
    async def work(bench):
        lost = PartitionChanged(
            bench.image.topics["t"].id, 0, isr=(), leader=NO_LEADER, eligible_leaders=()
        )
        bench.shared.write([lost])
        await asyncio.sleep(1)
        assert await bench.controller.elect_unclean_leaders() is False
        assert bench.partition.leader == NO_LEADER
        answers = await bench.controller.elect_leaders({"t": [0]}, preferred=False)
        assert [one.error for one in answers] == [ErrorCode.NONE]
        assert (bench.partition.leader, bench.partition.recovering) == (1, True)

    on_bench(work)
