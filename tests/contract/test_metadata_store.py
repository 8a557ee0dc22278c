"""What the cluster may rely on, whatever keeps its metadata.

One suite for every implementation of the `MetadataStore` port: a `Bench` opens the store, again
and again on what the last one left, and runs coroutines on the loop the store lives on. What every
broker follows is asked of observing stores as well (`followed`): there another node commits.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kits.metadata_samples import every_change, registration, topic_id
from kits.observed_cluster import ObservedCluster
from kits.sole_voter import commit, sole_voter
from kits.zookeeper_kit import SESSION_TIMEOUT_S
from kits.zookeeper_scenarios import new_chroot
from moldau.base.clock import Clock, SystemClock
from moldau.base.files import Files
from moldau.base.ids import BrokerId
from moldau.cluster.brokers import register_broker, unfence_broker
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ControllerRegistered,
    ControllerUnregistered,
    OpaqueRecorded,
    PartitionCreated,
    TopicCreated,
)
from moldau.cluster.decisions import Decisions
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Partition
from moldau.cluster.store import (
    ControllerFenced,
    Listener,
    MetadataStore,
    StoreFailed,
    VersionConflict,
)
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic
from moldau.cluster.zookeeper.client.connect_string import parse_connect_string
from moldau.cluster.zookeeper.client.kazoo_session import KazooZooKeeper, ZooKeeperSettings
from moldau.cluster.zookeeper.client.port import ZooKeeper
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.protocol.errors import ApiError
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.store import SharedMetadata
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper
from moldau.storage.disk import Disk

NODE = 1
DICE = random.Random(5)


@dataclass
class Bench:
    """A place where stores can be opened one after the other."""

    run: Callable[[Coroutine[Any, Any, Any]], Any]
    new_store: Callable[[], Any]
    commit: Callable[..., Coroutine[Any, Any, int]] = commit
    """Commits changes where they are committed, and waits until the store has them."""
    changes: Callable[[], Sequence[Change]] = every_change
    """One of every kind that a controller commits to such a store."""

    def with_store(self, use: Callable[[MetadataStore], Coroutine[Any, Any, Any]]) -> Any:
        """Open the store, use it, close it."""

        async def opened() -> Any:
            store = self.new_store()
            await store.start()
            try:
                return await use(store)
            finally:
                await store.close()

        return self.run(opened())


class ObservingStore:
    """The store of an observer, with the voter that it observes: both are opened together."""

    def __init__(self, cluster: ObservedCluster, disk: Files) -> None:
        self._cluster = cluster
        self._disk = disk

    async def start(self) -> None:
        await self._cluster.start_voter()
        self._observer = self._cluster.new_observer(self._disk)
        await self._observer.start()
        await self._observer.caught_up()

    @property
    def image(self) -> MetadataImage:
        return self._observer.image

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._observer.subscribe(listener)

    async def close(self) -> None:
        await self._observer.close()
        await self._cluster.stop_voter()

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        version = await commit(self._cluster.voter, expected_version, changes)
        await self._cluster.caught_up(self._observer)
        return version


class Leading:
    """A store whose broker is the controller once it is opened.

    On ZooKeeper only the controller's image is a state of the history. A controller of a new
    cluster begins with a commit of its own.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def start(self) -> None:
        await self._store.start()
        assert await self._store.claim() is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def changes_of_the_tree() -> list[Change]:
    """One of every kind of change, except those for which a controller writes no node.

    Brokers write their own nodes. Controllers of KRaft and records that we keep unread have none.
    The first epoch of a partition is the version of a new node.
    """
    of_brokers = (BrokerRegistered, BrokerChanged, BrokerUnregistered)
    others = (*of_brokers, ControllerRegistered, ControllerUnregistered, OpaqueRecorded)
    return [
        replace(change, partition=replace(change.partition, partition_epoch=0))
        if isinstance(change, PartitionCreated)
        else change
        for change in every_change()
        if not isinstance(change, others)
    ]


def elected_bench(
    run: Callable[[Coroutine[Any, Any, Any]], Any], zookeeper: ZooKeeper, disk: Files, clock: Clock
) -> Bench:
    """Make the place for stores on ZooKeeper."""
    store = functools.partial(ZooKeeperStore, zookeeper, disk, ["/data"], NODE, clock, DICE)
    return Bench(run, lambda: Leading(store()), changes=changes_of_the_tree)


@contextmanager
def made_bench(kind: str, folder: Path) -> Iterator[Bench]:
    """Make the place for one kind of store."""
    if kind == "sole voter on disk":
        directories = [f"{folder}/data"]
        yield Bench(
            asyncio.run,
            lambda: Leading(sole_voter(Disk(), directories, NODE, SystemClock(), DICE)),
        )
        return
    with World(11) as world:
        if kind == "of several brokers":
            shared = SharedMetadata(world)
            yield Bench(world.run, lambda: shared.store(NODE))
            return
        disk = SimDisk(world.random("disk"), trace=world.trace)
        if kind == "on a simulated ZooKeeper":
            zookeeper = SimZooKeeper(SimEnsemble(world), f"broker-{NODE}")
            yield elected_bench(world.run, zookeeper, disk, world.clock)
            return
        if kind == "observer in simulation":
            cluster = ObservedCluster(world, SimDisk(world.random("voter's disk")))
            yield Bench(world.run, lambda: ObservingStore(cluster, disk), ObservingStore.commit)
            return

        def simulated() -> MetadataStore:
            executor = SimExecutor(world)
            return Leading(
                sole_voter(
                    disk, ["/data"], NODE, world.clock, world.random("store"), executor=executor
                )
            )

        yield Bench(world.run, simulated)


CONTROLLERS = [
    "sole voter on disk",
    "sole voter in simulation",
    "of several brokers",
    "on a simulated ZooKeeper",
    pytest.param("on ZooKeeper", marks=pytest.mark.process),
]
"""The stores whose broker may become the controller."""


@pytest.fixture(params=CONTROLLERS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with requested_bench(request, tmp_path) as made:
        yield made


@pytest.fixture(params=[*CONTROLLERS, "observer in simulation"])
def followed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A place where the metadata can be followed, whoever commits it."""
    with requested_bench(request, tmp_path) as made:
        yield made


@contextmanager
def requested_bench(request: pytest.FixtureRequest, folder: Path) -> Iterator[Bench]:
    """Make the place that a fixture's parameter names; that of a real server needs the server."""
    if request.param != "on ZooKeeper":
        with made_bench(request.param, folder) as made:
            yield made
        return
    connect = parse_connect_string(request.getfixturevalue("node").address + new_chroot())
    zookeeper = KazooZooKeeper(ZooKeeperSettings(connect, SESSION_TIMEOUT_S))
    yield elected_bench(asyncio.run, zookeeper, SimDisk(random.Random(1)), SystemClock())


def created(number: int) -> list[Change]:
    """A topic with a partition: on ZooKeeper there is no topic without one."""
    leader = (BrokerId(NODE),)
    topic = TopicCreated(f"topic-{number}", topic_id(number + 1))  # 0 is no id of a topic
    partition = Partition(0, leader, leader, leader[0], directories=(bytes(16),))
    return [topic, PartitionCreated(topic.topic_id, partition)]


def names(changes: Sequence[Change]) -> list[str]:
    """The topics that changes create. Directories of replicas are not kept on ZooKeeper."""
    return [change.name for change in changes if isinstance(change, TopicCreated)]


def test_a_commit_is_in_the_image_under_the_version_it_returns(followed):
    async def use(store):
        before = store.image
        version = await followed.commit(store, before.version, [*created(1), *created(2)])
        assert version == store.image.version > before.version
        assert set(store.image.topics) == {"topic-1", "topic-2"}
        assert "topic-1" not in before.topics

    followed.with_store(use)


def test_a_store_that_was_never_used_knows_its_cluster_and_nothing_else(followed):
    async def use(store):
        assert store.image.cluster_id
        assert not store.image.topics
        assert not store.image.brokers
        return store.image.cluster_id

    first = followed.with_store(use)
    assert followed.with_store(use) == first


def test_what_was_committed_is_there_when_the_store_is_opened_again(followed):
    async def fill(store):
        version = store.image.version
        for number in range(5):
            version = await followed.commit(store, version, created(number))
        return store.image

    async def look(store):
        return store.image

    before, after = followed.with_store(fill), followed.with_store(look)
    assert after.topics == before.topics
    assert after.version >= before.version


def test_every_kind_of_change_survives_reopening(followed):
    async def fill(store):
        version = store.image.version
        for change in followed.changes():
            version = await followed.commit(store, version, [change])
        return store.image

    async def look(store):
        return store.image

    before, after = followed.with_store(fill), followed.with_store(look)
    expected = MetadataImage(before.version, before.cluster_id).apply(
        before.as_changes(), after.version
    )
    assert after == expected


def test_a_decision_on_an_old_version_changes_nothing(bench):
    async def use(store):
        old = store.image.version
        await commit(store, old, created(1))
        heard = []
        store.subscribe(lambda changes, image: heard.append(changes))
        before = store.image
        with pytest.raises(VersionConflict) as conflict:
            await commit(store, old, created(2))
        assert (conflict.value.expected, conflict.value.actual) == (old, before.version)
        with pytest.raises(VersionConflict):
            await commit(store, before.version + 1, created(2))
        assert store.image is before
        assert heard == []

    async def look(store):
        assert set(store.image.topics) == {"topic-1"}

    bench.with_store(use)
    bench.with_store(look)


def test_of_two_decisions_on_one_version_exactly_one_wins(bench):
    async def use(store):
        version = store.image.version
        outcomes = await asyncio.gather(
            *(commit(store, version, created(number)) for number in range(4)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, VersionConflict) for outcome in outcomes) == 3
        assert len(store.image.topics) == 1

    bench.with_store(use)


def test_listeners_hear_every_change_once_in_order_with_its_image(followed):
    async def use(store):
        heard = []

        def listen(changes, image):
            assert image is store.image
            assert names(changes)[-1] in image.topics
            heard.append((image.version, names(changes)))

        store.subscribe(listen)
        versions = []
        for number in range(6):
            changes = [*created(2 * number), *created(2 * number + 1)]
            version = await followed.commit(store, store.image.version, changes)
            versions.append((version, names(changes)))
        assert heard == versions

    followed.with_store(use)


def test_who_has_unsubscribed_hears_nothing_more(followed):
    async def use(store):
        heard = []
        stop = store.subscribe(lambda changes, image: heard.append(image.version))
        version = await followed.commit(store, store.image.version, created(1))
        stop()
        await followed.commit(store, version, created(2))
        assert heard == [version]

    followed.with_store(use)


def test_a_listener_that_fails_keeps_nobody_else_from_hearing(bench):
    async def use(store):
        heard = []

        def fail(changes, image):
            raise ZeroDivisionError

        store.subscribe(fail)
        store.subscribe(lambda changes, image: heard.append(changes))
        with pytest.raises(ZeroDivisionError):
            await commit(store, store.image.version, created(1))
        assert [names(changes) for changes in heard] == [["topic-1"]]
        assert "topic-1" in store.image.topics

    bench.with_store(use)


def test_a_caller_that_gives_up_does_not_harm_the_store(bench):
    async def use(store):
        heard = []
        store.subscribe(lambda changes, image: heard.extend(changes))
        controllership = await store.claim()
        task = asyncio.ensure_future(controllership.commit(store.image.version, created(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        decisions = Decisions(store, controllership)
        image = await decisions.commit(lambda image: created(2))
        assert "topic-2" in image.topics
        assert set(image.topics) == set(names(heard))
        return image.topics

    async def look(store):
        return store.image.topics

    assert bench.with_store(use) == bench.with_store(look)


def test_decisions_made_at_the_same_time_all_count(bench):
    async def use(store):
        decisions = Decisions(store, await store.claim())
        await decisions.commit(lambda image: register_broker(image, registration(NODE)))
        await decisions.commit(lambda image: unfence_broker(image, image.brokers[NODE]))
        dice = random.Random(3)

        async def create(number):
            wanted = NewTopic(f"topic-{number}", 2, 1)
            return await decisions.commit(
                lambda image: create_topic(image, wanted, TopicDefaults(), dice)
            )

        images = await asyncio.gather(*(create(number) for number in range(10)))
        assert all(f"topic-{number}" in image.topics for number, image in enumerate(images))
        assert len(store.image.topics) == 10

    bench.with_store(use)


def test_a_decision_that_refuses_or_finds_nothing_to_do_writes_nothing(bench):
    async def use(store):
        decisions = Decisions(store, await store.claim())
        before = store.image

        def refuse(image):
            return create_topic(image, NewTopic("a b"), TopicDefaults(), random.Random(1))

        with pytest.raises(ApiError):
            await decisions.commit(refuse)
        assert await decisions.commit(lambda image: []) is before
        assert await commit(store, before.version, []) == before.version
        assert store.image is before

    bench.with_store(use)


def test_controllership_is_granted_under_a_higher_epoch_each_time(bench):
    async def claim(store):
        controllership = await store.claim()
        assert await store.claim() is controllership
        return controllership.epoch

    epochs = [bench.with_store(claim) for _ in range(3)]
    assert epochs == sorted(set(epochs))


def test_a_controllership_does_not_outlive_its_store(bench):
    async def claim(store):
        heard = []
        controllership = await store.claim()
        controllership.on_lost(lambda: heard.append("lost"))
        return controllership, heard

    async def commit_as_before(store):
        before = store.image
        with pytest.raises((StoreFailed, ControllerFenced)):
            await controllership.commit(before.version, created(1))
        assert store.image is before

    controllership, heard = bench.with_store(claim)
    bench.with_store(commit_as_before)
    assert heard == []


def test_a_closed_store_takes_no_commit(bench):
    async def use(store):
        controllership = await store.claim()
        await store.close()
        await store.close()
        with pytest.raises(StoreFailed):
            await controllership.commit(store.image.version, created(1))
        with pytest.raises(StoreFailed):
            await store.claim()

    bench.with_store(use)
