"""Notifications by the thousand, and such that say nothing of use."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kits.stores_on_zookeeper import run_with_two_stores
from moldau.cluster.changes import FeatureLevelSet
from moldau.cluster.zookeeper import tree_following
from moldau.cluster.zookeeper.client.port import CreateNode, NodeKind
from moldau.cluster.zookeeper.events import BrokersSeen, DirectoryFailed
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.log_dir_nodes import encode_log_dir_event

MANY = 3 * tree_following.NOTIFICATIONS_AT_ONCE + 1
PREFIXES = {
    paths.CONFIG_CHANGES: paths.CONFIG_CHANGE_PREFIX,
    paths.ISR_CHANGES: paths.ISR_CHANGE_PREFIX,
    paths.LOG_DIR_EVENTS: paths.LOG_DIR_EVENT_PREFIX,
}


@pytest.fixture(params=range(3))
def stores(request):
    """Run a test with the stores of two brokers, of which the first is started."""
    return partial(run_with_two_stores, request.param, start_both=False)


async def write_many(store, prefix, data):
    session = store.lives.session
    for _ in range(MANY):
        await session.create(prefix, data, NodeKind.SEQUENTIAL)


def test_a_commit_comes_between_many_notifications(stores):
    async def test(kept, first, second):
        await write_many(first, paths.LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1))
        await second.start()
        tenure = await second.claim()
        level = [FeatureLevelSet("metadata.version", 20)]
        await tenure.commit(second.image.version, level)
        await second.lives.session.sync()
        assert len(await second.lives.session.children(paths.LOG_DIR_EVENTS)) > MANY // 2
        assert isinstance(await second.following.next_event(), BrokersSeen)
        for _ in range(MANY):
            assert await second.following.next_event() == DirectoryFailed(1)
        await asyncio.sleep(60)  # the last ones are removed by then
        assert await second.lives.session.children(paths.LOG_DIR_EVENTS) == []

    stores(test)


@pytest.mark.parametrize("parent", PREFIXES)
def test_of_many_that_cannot_be_read_a_few_are_told(stores, parent, caplog):
    async def test(kept, first, second):
        await first.claim()
        await write_many(first, PREFIXES[parent], b'{"version":9}')
        await asyncio.sleep(60)  # the controller has seen them by then
        said = [one.getMessage() for one in caplog.records if parent in one.getMessage()]
        assert len(said) == tree_following.COMPLAINTS_MAX + 1

    stores(test)


def test_one_with_nodes_below_it_is_removed_with_them(stores):
    async def test(kept, first, second):
        await first.claim()
        odd = f"{paths.ISR_CHANGES}/odd"
        for path in (odd, f"{odd}/below", f"{odd}/below/that"):
            kept.ensemble.write_as_tool(CreateNode(path))
        await asyncio.sleep(60)  # the controller has seen them by then
        assert await first.lives.session.children(paths.ISR_CHANGES) == []
        assert first.is_controller

    stores(test)
