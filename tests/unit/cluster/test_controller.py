"""The controller carries out requests while it is the active one, and refuses all others."""

from __future__ import annotations

import asyncio
import random

import pytest

from kits.metadata_samples import bring_up, controller, registration
from moldau.base.errors import InvariantViolated
from moldau.cluster.changes import FeatureLevelSet, ProducerIdsAllocated
from moldau.cluster.config_operations import ConfigOperation, OperationType
from moldau.cluster.controller import Controller
from moldau.cluster.feature_updates import FeatureUpdate, QuorumContext
from moldau.cluster.features import KraftLevels
from moldau.cluster.heartbeats import Heartbeat
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.topics import NewTopic, TopicDefaults
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.sim.store import SharedMetadata
from moldau.sim.world import World

TOPIC = ConfigResource(ResourceType.TOPIC, "t")


class AnyConfigs:
    """Rules by which every config is legal."""

    def replaced(self, image, resource, configs):
        return configs

    def altered(self, image, resource, operations):
        return {one.name: one.value for one in operations}


class Bench:
    """Two brokers and the controllers that they could be."""

    def __init__(self, world):
        self.shared = SharedMetadata(world)
        self.stores = [self.shared.store(1), self.shared.store(2)]
        self.first, self.second = (
            Controller(
                store,
                TopicDefaults(),
                AnyConfigs(),
                random.Random(1),
                lambda: True,
                world.clock,
                quorum=lambda: QuorumContext(1, {1}, KraftLevels(0, 0), 1),
            )
            for store in self.stores
        )

    async def start(self):
        for store in self.stores:
            await store.start()


@pytest.fixture
def on_bench():
    """Runs a coroutine function with a bench whose stores are open."""

    def run(work):
        with World(5) as world:

            async def opened():
                bench = Bench(world)
                await bench.start()
                await work(bench)

            world.run(opened())

    return run


SET_ONE = [ConfigOperation("retention.ms", OperationType.SET, "1")]
ANOTHER = controller(9)
LOWER = [FeatureUpdate("transaction.version", 1, 2)]


def every_change(controller):
    yield lambda: controller.create_topic(NewTopic("new"))
    yield lambda: controller.grow_topic("t", 4, None)
    yield lambda: controller.delete_topic("t")
    yield lambda: controller.replace_configs(TOPIC, {"retention.ms": "1"})
    yield lambda: controller.alter_configs(TOPIC, SET_ONE)
    yield lambda: controller.allocate_producer_ids(1, 0)
    yield lambda: controller.register_broker(registration(2))
    yield lambda: controller.heartbeat(Heartbeat(1, 0, 0, want_shut_down=True))
    yield lambda: controller.unregister_broker(1)
    yield lambda: controller.register_controller(ANOTHER)
    yield lambda: controller.update_features(LOWER)


def every_validation(controller):
    yield lambda: controller.create_topic(NewTopic("new"), validate_only=True)
    yield lambda: controller.grow_topic("t", 4, None, validate_only=True)
    yield lambda: controller.replace_configs(TOPIC, {"retention.ms": "1"}, validate_only=True)
    yield lambda: controller.alter_configs(TOPIC, SET_ONE, validate_only=True)
    yield lambda: controller.update_features(LOWER, validate_only=True)


def everything_without_effect(controller):
    yield lambda: controller.alter_partitions(1, 0, [])
    yield lambda: controller.elect_leaders(None, preferred=True)
    yield lambda: controller.alter_reassignments([WantedReplicas("t", 0, (1,))])
    yield lambda: controller.unregister_controller(9)
    yield controller.check_sessions
    yield controller.elect_preferred_leaders
    yield controller.elect_unclean_leaders


async def prepare(bench):
    controller = bench.first
    assert await controller.claim()
    await bring_up(controller, registration(1))
    levels = {"metadata.version": 30, "transaction.version": 2}
    bench.shared.write([FeatureLevelSet(name, level) for name, level in levels.items()])
    await controller.create_topic(NewTopic("t", 3, 1))


async def refusal(request):
    with pytest.raises(ApiError) as refused:
        await request()
    return refused.value.code


def test_only_the_active_controller_carries_out_requests(on_bench):
    async def work(bench):
        await prepare(bench)
        assert not await bench.second.claim()
        before = bench.shared.image
        families = every_change, every_validation, everything_without_effect
        requests = [request for family in families for request in family(bench.second)]
        codes = {await refusal(request) for request in requests}
        assert codes == {ErrorCode.NOT_CONTROLLER}
        assert bench.shared.image is before

    on_bench(work)


def test_a_controller_that_was_replaced_changes_nothing_and_says_so(on_bench):
    async def work(bench):
        await prepare(bench)
        bench.shared.end_session(1)
        assert await bench.second.claim()
        before = bench.shared.image
        # All are under way together: the first learns that it is fenced while the others wait.
        codes = await asyncio.gather(*map(refusal, every_change(bench.first)))
        assert set(codes) == {ErrorCode.NOT_CONTROLLER}
        assert bench.shared.image is before

    on_bench(work)


def test_a_controller_that_was_replaced_can_win_again(on_bench):
    async def work(bench):
        await prepare(bench)
        bench.shared.end_session(1)
        await asyncio.sleep(60)
        assert await refusal(lambda: bench.first.delete_topic("t")) == ErrorCode.NOT_CONTROLLER
        assert await bench.first.claim()
        await bench.first.delete_topic("t")
        assert not bench.shared.image.topics

    on_bench(work)


def test_claiming_what_is_held_is_a_bug(on_bench):
    async def work(bench):
        assert await bench.first.claim()
        with pytest.raises(InvariantViolated):
            await bench.first.claim()

    on_bench(work)


def test_a_request_returns_when_the_own_image_has_the_change(on_bench):
    async def work(bench):
        await prepare(bench)
        image = lambda: bench.stores[0].image  # noqa: E731
        created = await bench.first.create_topic(NewTopic("new", 2))
        assert image().topics["new"] == created
        await bench.first.grow_topic("new", 5, None)
        assert len(image().topics["new"].partitions) == 5
        await bench.first.replace_configs(TOPIC, {"retention.ms": "7"})
        assert image().topic_config("t") == {"retention.ms": "7"}
        operation = ConfigOperation("segment.ms", OperationType.SET, "8")
        await bench.first.alter_configs(TOPIC, [operation])
        assert image().topic_config("t") == {"retention.ms": "7", "segment.ms": "8"}
        await bench.first.update_features(LOWER)
        assert image().features["transaction.version"] == 1
        await bench.first.register_controller(ANOTHER)
        assert image().controllers == {9: ANOTHER}
        await bench.first.delete_topic_by_id(created.id)
        assert set(image().topics) == {"t"}
        stop = Heartbeat(1, image().brokers[1].epoch, 0, want_shut_down=True)
        assert not (await bench.first.heartbeat(stop)).should_shut_down
        assert image().brokers[1].in_controlled_shutdown
        assert (await bench.first.heartbeat(stop)).should_shut_down
        assert image().brokers[1].fenced

    on_bench(work)


def test_validating_tells_the_outcome_and_changes_nothing(on_bench):
    async def work(bench):
        await prepare(bench)
        before = bench.shared.image
        preview = await bench.first.create_topic(NewTopic("new", 2), validate_only=True)
        assert (preview.name, len(preview.partitions)) == ("new", 2)
        taken = await refusal(lambda: bench.first.create_topic(NewTopic("t"), validate_only=True))
        assert taken == ErrorCode.TOPIC_ALREADY_EXISTS
        await bench.first.grow_topic("t", 4, None, validate_only=True)
        smaller = await refusal(lambda: bench.first.grow_topic("t", 2, None, validate_only=True))
        assert smaller == ErrorCode.INVALID_PARTITIONS
        await bench.first.replace_configs(TOPIC, {"retention.ms": "7"}, validate_only=True)
        await bench.first.update_features(LOWER, validate_only=True)
        higher = [FeatureUpdate("transaction.version", 3, 1)]
        refused = await refusal(lambda: bench.first.update_features(higher, validate_only=True))
        assert refused == ErrorCode.INVALID_UPDATE_VERSION
        assert bench.shared.image is before

    on_bench(work)


def test_producer_ids_are_given_once_also_where_somebody_else_takes_some(on_bench):
    async def work(bench):
        await prepare(bench)
        blocks = [await bench.first.allocate_producer_ids(1, 0)]
        taken_elsewhere = ProducerIdsAllocated(1, 0, bench.shared.image.next_producer_id + 500)
        bench.shared.write([taken_elsewhere])
        blocks += await asyncio.gather(*(bench.first.allocate_producer_ids(1, 0) for _ in range(3)))
        assert sorted(blocks) == [(0, 1000), (1500, 2500), (2500, 3500), (3500, 4500)]

    on_bench(work)
