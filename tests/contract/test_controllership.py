"""What the cluster may rely on when several brokers would like to be the controller.

One suite for every store of several brokers; a voter that is alone has no rivals, and is held to
the rest of the port in `test_metadata_store`. Each test runs under some seeds, because what a
broker knows of the others depends on how long news takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kits.metadata_samples import topic_id
from kits.stores_in_quorum import StoresInQuorum
from kits.stores_on_zookeeper import StoresOnZooKeeper
from moldau.base.ids import BrokerId
from moldau.cluster.changes import Change, PartitionCreated, TopicCreated
from moldau.cluster.decisions import Decisions
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Partition
from moldau.cluster.store import ControllerFenced, MetadataStore, StoreFailed, VersionConflict
from moldau.sim.store import SharedMetadata
from moldau.sim.world import World

SEEDS = range(5)


@dataclass
class Cluster:
    """Brokers whose stores share one cluster's metadata."""

    run: Callable[[Coroutine[Any, Any, Any]], Any]
    new_store: Callable[[int], MetadataStore]
    end_session: Callable[[int], None]
    """Let others take over from a broker, which is not told at once."""
    write: Callable[[Sequence[Change]], int] | None = None
    """Change something at once without being the controller; None where nobody can."""

    def with_stores(self, use: Callable[..., Coroutine[Any, Any, Any]], count: int = 2) -> Any:
        """Open the stores of brokers 1, 2, ..., use them, close them."""

        async def opened() -> Any:
            async with AsyncExitStack() as stack:
                stores = [self.new_store(broker_id) for broker_id in range(1, count + 1)]
                for store in stores:
                    await store.start()
                    stack.push_async_callback(store.close)
                return await use(*stores)

        return self.run(opened())


@pytest.fixture(
    params=[(kind, seed) for kind in ("shared", "zookeeper", "quorum") for seed in SEEDS]
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    kind, seed = request.param
    with World(seed) as world:
        if kind == "shared":
            shared = SharedMetadata(world)
            yield Cluster(world.run, shared.store, shared.end_session, shared.write)
        elif kind == "zookeeper":
            kept = StoresOnZooKeeper(world)
            yield Cluster(world.run, kept.store, kept.end_session)
        else:
            quorum = StoresInQuorum(world)

            async def run(work: Coroutine[Any, Any, Any]) -> Any:
                await quorum.start_arbiters()
                try:
                    return await work
                finally:
                    await quorum.close_arbiters()

            yield Cluster(lambda work: world.run(run(work)), quorum.store, quorum.end_session)


def created(number: int) -> list[Change]:
    leader = BrokerId(1)
    partition = Partition(0, (leader,), (leader,), leader)
    topic = TopicCreated(f"topic-{number}", topic_id(number + 1))  # 0 is no id of a topic
    return [topic, PartitionCreated(topic.topic_id, partition)]


def told(image: MetadataImage) -> dict[str, object]:
    """What an image says of its topics, without directories: not every store keeps those."""
    return {
        name: (topic.id, [replace(one, directories=()) for one in topic.partitions])
        for name, topic in image.topics.items()
    }


async def reached(store, version):
    """Wait until a broker has heard of a version."""
    if store.image.version < version:
        there = asyncio.Event()
        stop = store.subscribe(lambda _, image: image.version >= version and there.set())
        await there.wait()
        stop()


async def take_over(cluster, store, loser):
    """Make a broker the controller in place of another; it returns what it was granted."""
    cluster.end_session(loser)
    controllership = await store.claim()
    assert controllership is not None
    return controllership


def test_one_of_those_who_claim_at_the_same_time_is_granted(cluster):
    async def use(*stores):
        granted = await asyncio.gather(*(store.claim() for store in stores))
        assert sum(one is not None for one in granted) == 1

    cluster.with_stores(use, 4)


def test_while_one_broker_is_controller_no_other_becomes_it(cluster):
    async def use(first, second):
        held = await first.claim()
        assert await second.claim() is None
        assert await first.claim() is held
        version = await held.commit(first.image.version, created(1))
        assert await second.claim() is None
        await reached(second, version)

    cluster.with_stores(use)


def test_the_controllership_of_a_store_that_is_closed_is_free_for_another(cluster):
    async def use(first, second):
        lost = []
        held = await first.claim()
        held.on_lost(lambda: lost.append(True))
        await first.close()
        following = await second.claim()
        assert following.epoch > held.epoch
        assert lost == []

    cluster.with_stores(use)


def test_a_commit_under_an_older_epoch_changes_nothing_for_anybody(cluster):
    async def use(first, second, third):
        old = await first.claim()
        await old.commit(first.image.version, created(1))
        new = await take_over(cluster, second, loser=1)
        assert new.epoch > old.epoch
        heard = []
        for store in (first, second, third):
            store.subscribe(lambda changes, _: heard.extend(changes))
        before = second.image
        with pytest.raises(ControllerFenced) as fenced:
            await old.commit(before.version, created(2))
        assert fenced.value.epoch == old.epoch
        assert second.image is before
        assert (await second.claim()) is new
        version = await new.commit(before.version, created(3))
        for store in (first, second, third):
            await reached(store, version)
            assert set(store.image.topics) == {"topic-1", "topic-3"}
        assert created(2)[0] not in heard

    cluster.with_stores(use, 3)


def test_who_is_fenced_is_not_told_to_decide_again(cluster):
    async def use(first, second):
        old = await first.claim()
        version = first.image.version
        new = await take_over(cluster, second, loser=1)
        await new.commit(second.image.version, created(1))
        for stale in (version, version + 7):
            with pytest.raises(ControllerFenced):
                await old.commit(stale, created(2))
        with pytest.raises(ControllerFenced):
            await old.commit(version, [])

    cluster.with_stores(use)


def test_a_loss_is_heard_once_without_committing_anything(cluster):
    async def use(first, second):
        lost, heard = [], asyncio.Event()
        old = await first.claim()
        old.on_lost(lambda: (lost.append("first"), heard.set()))
        cluster.end_session(1)
        await heard.wait()
        with pytest.raises(ControllerFenced):
            await old.commit(first.image.version, created(1))
        old.on_lost(lambda: lost.append("late"))
        await second.claim()
        await asyncio.sleep(60)
        assert lost == ["first", "late"]

    cluster.with_stores(use)


def test_a_loss_is_heard_at_the_latest_when_a_commit_is_fenced(cluster):
    async def use(first, second):
        lost = []
        old = await first.claim()
        old.on_lost(lambda: lost.append(True))
        await take_over(cluster, second, loser=1)
        with pytest.raises(ControllerFenced):
            await old.commit(first.image.version, created(1))
        assert lost == [True]

    cluster.with_stores(use)


def test_who_has_lost_it_can_win_it_again(cluster):
    async def use(first, second):
        lost, heard = [], asyncio.Event()
        old = await first.claim()
        old.on_lost(lambda: (lost.append(True), heard.set()))
        cluster.end_session(1)
        await heard.wait()
        while (new := await first.claim()) is None:  # noqa: ASYNC110 - it may have no session yet
            await asyncio.sleep(0.1)
        assert new.epoch > old.epoch
        assert lost == [True]
        with pytest.raises(ControllerFenced):
            await old.commit(first.image.version, created(1))
        await new.commit(first.image.version, created(2))
        assert set(first.image.topics) == {"topic-2"}

    cluster.with_stores(use)


def test_a_new_controller_knows_all_that_those_before_it_committed(cluster):
    async def use(first, second):
        held, holder, other = await first.claim(), first, second
        for number in range(8):
            version = await held.commit(holder.image.version, created(number))
            holder, other = other, holder
            held = await take_over(cluster, holder, loser=2 if holder is first else 1)
            assert holder.image.version >= version
            assert set(holder.image.topics) == {f"topic-{one}" for one in range(number + 1)}

    cluster.with_stores(use)


def test_a_commit_during_a_take_over_is_there_for_the_new_controller_or_never(cluster):
    async def use(first, second):
        old = await first.claim()
        late = asyncio.ensure_future(old.commit(first.image.version, created(1)))
        await asyncio.sleep(0.002)
        new = await take_over(cluster, second, loser=1)
        known = set(second.image.topics)
        (outcome,) = await asyncio.gather(late, return_exceptions=True)
        assert isinstance(outcome, int | ControllerFenced | StoreFailed)
        if not isinstance(outcome, StoreFailed):  # that says that the outcome is not known
            assert known == ({"topic-1"} if isinstance(outcome, int) else set())
        await new.commit(second.image.version, created(2))
        assert set(second.image.topics) == known | {"topic-2"}

    cluster.with_stores(use)


def test_all_brokers_hear_the_same_changes_in_the_same_order(cluster):
    async def use(*stores):
        heard = [[] for _ in stores]
        for store, own in zip(stores, heard, strict=True):
            store.subscribe(lambda changes, image, own=own: own.append((image.version, [*changes])))
        version = 0
        for number, store in enumerate(stores * 3):
            held = await take_over(cluster, store, loser=(number - 1) % len(stores) + 1)
            for step in range(3):
                version = await held.commit(store.image.version, created(10 * number + step))
        for store in stores:
            await reached(store, version)
            assert told(store.image) == told(stores[0].image)
        for own in heard:
            changes = [change for _, step in own for change in step]
            assert sum(isinstance(one, TopicCreated) for one in changes) == 27
            assert sum(isinstance(one, PartitionCreated) for one in changes) == 27
            assert [version for version, _ in own] == sorted({at for at, _ in own})
        if cluster.write is not None:  # elsewhere a new controller hears of several steps at once
            assert all(own == heard[0] for own in heard)

    cluster.with_stores(use, 3)


def test_a_decision_that_came_too_late_is_taken_again_on_the_newest_image(cluster):
    if cluster.write is None:
        pytest.skip("what others write is noticed later there")

    async def use(first, _second):
        held = await first.claim()
        version = first.image.version
        newest = cluster.write(created(1))
        with pytest.raises(VersionConflict) as conflict:
            await held.commit(version, created(2))
        assert (conflict.value.expected, conflict.value.actual) == (version, newest)
        assert first.image.version == newest
        assert set(first.image.topics) == {"topic-1"}
        seen = []

        def decide(image):
            if not seen:
                cluster.write(created(3))
            seen.append(set(image.topics))
            return created(4)

        image = await Decisions(first, held).commit(decide)
        assert seen == [{"topic-1"}, {"topic-1", "topic-3"}]
        assert set(image.topics) == {"topic-1", "topic-3", "topic-4"}

    cluster.with_stores(use)
