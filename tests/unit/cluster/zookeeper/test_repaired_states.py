"""A malformed state of a partition counts again as soon as somebody has repaired it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kits.metadata_samples import topic_id
from kits.stores_on_zookeeper import run_with_two_stores
from kits.zookeeper_nodes import encode_partitions, encode_topic
from moldau.base.ids import PartitionKey
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.model import Partition
from moldau.cluster.zookeeper.client.port import NodeKind
from moldau.cluster.zookeeper.events import BrokersSeen
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.state_nodes import encode_state, state_of
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode

STATE = paths.state("t", 1)


@pytest.fixture(params=range(3))
def stores(request):
    """Run a test with the store of a broker, on a tree with a topic of two partitions."""

    def run(test):
        async def with_topic(kept, first, second):
            await write_topic(first.lives.session)
            await test(first, first.lives.session)

        run_with_two_stores(request.param, with_topic, start_both=False)

    return run


def content(leader=1, epoch=0):
    return encode_state(state_of(Partition(0, (1, 2), (1, 2), leader, epoch), 1))


async def write_topic(session):
    replicas = TopicNode((Assignment((1, 2)),) * 2, topic_id(1))
    await session.create(paths.topic("t"), encode_topic(replicas))
    await session.create(paths.partitions("t"))
    for index in range(2):
        await session.create(paths.partition("t", index))
        await session.create(paths.state("t", index), content())


async def led_by(store, leader):
    """Wait until the image has this leader of partition 1."""
    while store.image.partition(PartitionKey("t", 1)) is None or (  # noqa: ASYNC110
        store.image.partition(PartitionKey("t", 1)).leader != leader
    ):
        await asyncio.sleep(0.1)


def complaints(caplog):
    return [one.getMessage() for one in caplog.records if "is left out" in one.getMessage()]


async def events(store):
    """All events so far."""
    found = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            while True:
                found.append(await store.following.next_event())
    return found


def test_one_that_the_controller_found(stores, caplog):
    async def test(first, session):
        await session.set_data(STATE, b"nonsense")
        await first.claim()
        await asyncio.sleep(60)
        assert "t" not in first.image.topics
        await session.set_data(STATE, b"{}")
        await asyncio.sleep(60)
        assert await events(first) == [BrokersSeen({})]
        await session.set_data(STATE, content(leader=2))
        await led_by(first, 2)
        assert await events(first) == [BrokersSeen({})]  # somebody has to look who is alive

    stores(test)
    assert len(complaints(caplog)) == 2


def test_one_that_is_missing(stores, caplog):
    async def test(first, session):
        await session.delete(paths.state("t", 0))
        await first.claim()
        await asyncio.sleep(60)
        assert "t" not in first.image.topics
        await session.create(paths.state("t", 0), content())
        await led_by(first, 1)

    stores(test)
    assert len(complaints(caplog)) == 1


def test_one_that_a_notification_told_of(stores, caplog):
    async def test(first, session):
        await first.claim()
        await session.set_data(STATE, b"nonsense")
        notification = encode_partitions([PartitionKey("t", 1)])
        await session.create(paths.ISR_CHANGE_PREFIX, notification, NodeKind.SEQUENTIAL)
        await asyncio.sleep(60)
        await led_by(first, 1)  # what was known stays
        await session.set_data(STATE, content(leader=2, epoch=1))
        await led_by(first, 2)

    stores(test)
    assert len(complaints(caplog)) == 1


def test_one_that_is_repaired_is_watched_no_more(stores):
    async def test(first, session):
        await session.set_data(STATE, b"nonsense")
        tenure = await first.claim()
        await asyncio.sleep(60)
        watched = first.following._reader.watched
        assert STATE in watched
        await session.set_data(STATE, content(leader=2))
        await led_by(first, 2)
        for leader in (1, 2):
            change = PartitionChanged(topic_id(1), 1, leader=leader)
            await tenure.commit(first.image.version, [change])
            await asyncio.sleep(60)
        assert STATE not in watched

    stores(test)
