"""A broker that could not read a topic leaves the seat of the controller to those who know it."""

from __future__ import annotations

import asyncio

import pytest

from kits.metadata_samples import topic_id
from kits.stores_on_zookeeper import run_with_two_stores
from moldau.cluster.changes import PartitionCreated, TopicCreated
from moldau.cluster.model import Partition
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.store import DEFERENCE_S

CREATED = [
    TopicCreated("t", topic_id(7)),
    PartitionCreated(topic_id(7), Partition(0, (1,), (1,), 1)),
]


@pytest.mark.parametrize("seed", range(3))
def test_who_knows_all_topics_runs_first(seed):
    async def test(kept, first, second):
        kept.stores = {1: first}
        tenure = await first.claim()
        await tenure.commit(first.image.version, CREATED)
        await first.lives.session.set_data(paths.state("t", 0), b"nonsense")
        await second.start()
        kept.stores[2] = second
        tenure.resign()
        waiting = [asyncio.ensure_future(store.seat_free()) for store in (second, first)]
        await asyncio.sleep(DEFERENCE_S / 2)
        assert [one.done() for one in waiting] == [False, True]
        await first.claim()
        assert "t" in first.image.topics
        await asyncio.sleep(DEFERENCE_S * 2)
        assert not waiting[0].done()
        assert second.image.topics.keys() == {"t"}
        waiting[0].cancel()

    run_with_two_stores(seed, test, start_both=False)


def test_if_nobody_knows_a_topic_somebody_runs_all_the_same():
    async def test(kept, first, second):
        tenure = await first.claim()
        await first.lives.session.create(paths.topic("t"), b"nonsense")
        await second.start()
        tenure.resign()
        await asyncio.wait_for(second.seat_free(), DEFERENCE_S * 2)
        assert await second.claim() is not None

    run_with_two_stores(1, test, start_both=False)
