"""The observer's disk: full, broken, damaged, unreadable."""

from __future__ import annotations

import asyncio

import pytest

from kits.observer_kit import (
    FOLDER,
    LOG,
    assert_same_log,
    catch_up,
    diverged,
    fill,
    following,
    run,
)
from moldau.base.errors import StorageError
from moldau.sim.disk_faults import Operation


def test_a_full_disk_is_waited_for(cluster, disk, caplog):
    async def work():
        observer = await following(cluster, disk)
        disk.faults.fill_up(20)
        await fill(cluster, 5)
        await asyncio.sleep(10)
        assert observer.image != cluster.voter.image
        disk.faults.heal()
        await cluster.caught_up(observer)
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)
    assert caplog.text.count("cannot be appended") == 1


def test_a_disk_that_breaks_within_a_cut_ends_the_following(cluster, disk):
    async def work():
        await diverged(cluster, disk)
        observer = cluster.new_observer(disk)
        await observer.start()
        disk.faults.fail(Operation.TRUNCATE, FOLDER)
        with pytest.raises(StorageError):
            await observer.caught_up()
        await observer.close()

    run(cluster, work)


def test_damage_to_its_own_copy_is_fetched_again(cluster, disk):
    async def work():
        await fill(cluster, 20)
        await catch_up(cluster, disk)
        disk.flip_bit(LOG, disk.size(LOG) // 2)
        await catch_up(cluster, disk)

    run(cluster, work)
    assert_same_log(cluster, disk)


def test_a_folder_that_cannot_be_read_is_an_error_of_its_own(cluster, disk):
    async def work():
        await catch_up(cluster, disk)
        disk.faults.fail(Operation.READ, FOLDER)
        with pytest.raises(StorageError, match="cannot be opened"):
            await cluster.new_observer(disk).start()

    run(cluster, work)
