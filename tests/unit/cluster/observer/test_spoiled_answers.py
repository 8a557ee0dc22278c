"""Answers that make no sense change nothing; records that make none end the following."""

from __future__ import annotations

import pytest

from kits.observer_kit import (
    LOG,
    VOTERS_LOG,
    Spoiling,
    failure_of,
    fill,
    following,
    run,
    write_raw,
)
from moldau.base.errors import StorageError
from moldau.base.files import read_whole


def spoil_batch(answer):
    partition = answer.responses[0].partitions[0]
    if not partition.records:
        return False
    data = bytearray(partition.records)
    data[len(data) // 2] ^= 1
    partition.records = bytes(data)
    return True


def cut_batch(answer):
    partition = answer.responses[0].partitions[0]
    partition.records = bytes(partition.records or b"")[:-5]
    return bool(partition.records)


def on_partition(**values):
    def spoil(answer):
        for name, value in values.items():
            setattr(answer.responses[0].partitions[0], name, value)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_batch,
        cut_batch,
        on_partition(records=None),
        on_partition(records=b"no batch at all, but some bytes that are long enough for one" * 3),
        on_partition(error_code=6),
        lambda answer: setattr(answer, "responses", []),
        lambda answer: setattr(answer, "error_code", 42),
        lambda answer: setattr(answer.responses[0].partitions[0].current_leader, "leader_id", -1),
    ],
)
def test_an_answer_that_makes_no_sense_changes_nothing(cluster, disk, spoil):
    async def work():
        await fill(cluster, 5)
        source = Spoiling(cluster.source, spoil_fetch=spoil)
        observer = await following(cluster, disk, source=source)
        assert source.left == 0
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


def test_a_batch_of_a_later_epoch_than_the_one_fetched_under_is_refused(cluster, disk):
    def newer_epoch(answer):
        partition = answer.responses[0].partitions[0]
        if not partition.records:
            return False
        data = bytearray(partition.records)
        data[12:16] = (9).to_bytes(4, "big")
        partition.records = bytes(data)
        return True

    async def work():
        source = Spoiling(cluster.source, spoil_fetch=newer_epoch)
        observer = await following(cluster, disk, source=source)
        assert source.left == 0
        assert observer.leader_epoch == 1
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


def test_a_record_that_makes_no_sense_ends_the_following(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        await fill(cluster, 1)
        await cluster.caught_up(observer)
        image = observer.image
        await write_raw(cluster.voter, [b"\x07\x07\x07"])
        with pytest.raises(StorageError, match=r"does not add up: .* frame version"):
            await failure_of(observer)
        assert observer.image is image
        await observer.close()

    run(cluster, work)
