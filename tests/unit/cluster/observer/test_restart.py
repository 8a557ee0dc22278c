"""An observer that starts again goes on where it was, and one that is closed waits for nobody."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from kits.observer_kit import FOLDER, catch_up, fill, following, run
from moldau.base.files import read_whole
from moldau.cluster.store import StoreFailed


def test_it_goes_on_where_it_was(cluster, disk):
    async def work():
        await fill(cluster, 5)
        await catch_up(cluster, disk)
        end = cluster.voter.image.version
        await fill(cluster, 2, first=10)
        cluster.source.fetches.clear()
        again = await following(cluster, disk)
        assert cluster.source.fetches[0].topics[0].partitions[0].fetch_offset == end
        assert again.image == cluster.voter.image
        await again.close()

    run(cluster, work)


def test_its_image_waits_for_the_leader_to_say_what_is_committed(cluster, disk):
    async def work():
        await fill(cluster, 3)
        await catch_up(cluster, disk)
        handlers, cluster.handlers = cluster.handlers, None
        again = cluster.new_observer(disk)
        await again.start()
        await asyncio.sleep(5)
        assert not again.image.topics
        cluster.handlers = handlers
        await again.caught_up()
        assert again.image == cluster.voter.image
        await again.close()

    run(cluster, work)


def test_a_voter_that_starts_again_is_followed_in_its_new_epoch(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        for number in range(3):
            await cluster.stop_voter()
            await asyncio.sleep(3)
            await cluster.start_voter()
            await fill(cluster, 1, first=number)
            await cluster.caught_up(observer)
            assert observer.image == cluster.voter.image
            assert observer.leader_epoch == cluster.voter.leader_epoch == number + 2
            state = json.loads(read_whole(disk, f"{FOLDER}/quorum-state"))
            assert state["leaderEpoch"] == number + 2
        await observer.close()

    run(cluster, work)


def test_it_asks_again_with_growing_pauses_and_says_so_once(cluster, disk, caplog):
    async def work():
        observer = await following(cluster, disk)
        handlers, cluster.handlers = cluster.handlers, None
        cluster.source.fetches.clear()
        await asyncio.sleep(60)
        assert 50 <= len(cluster.source.fetches) <= 90
        cluster.handlers = handlers
        await fill(cluster, 1)
        await cluster.caught_up(observer)
        await observer.close()

    with caplog.at_level(logging.WARNING):
        run(cluster, work)
    assert caplog.text.count("metadata cannot be fetched") == 1


def test_closing_ends_a_parked_fetch_a_pause_and_whoever_waits(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        await asyncio.sleep(0.1)
        before = cluster.world.clock.monotonic()
        await observer.close()
        await observer.close()
        cluster.handlers, handlers = None, cluster.handlers
        again = cluster.new_observer(disk)
        await again.start()
        waiting = asyncio.ensure_future(again.caught_up())
        await asyncio.sleep(0.1)
        await again.close()
        with pytest.raises(StoreFailed, match="closed"):
            await waiting
        assert cluster.world.clock.monotonic() - before < 0.2
        cluster.handlers = handlers

    run(cluster, work)


def test_a_store_that_was_not_started_can_be_closed(cluster, disk):
    async def work():
        observer = cluster.new_observer(disk)
        with pytest.raises(StoreFailed, match="not been started"):
            observer.identity  # noqa: B018
        await observer.close()

    run(cluster, work)
