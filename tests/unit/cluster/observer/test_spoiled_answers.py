"""Answers that make no sense change nothing; records that make none end the following."""

from __future__ import annotations

import pytest

from kits.observer_kit import assert_same_log, catch_up, failure_of, fill, following, run, write_raw
from kits.spoiled_answers import (
    Spoiling,
    fetched_partition,
    flip_bit_in_the_middle,
    spoil_bytes,
    spoil_values,
)
from moldau.base.errors import StorageError


def cut_batch(data):
    del data[-5:]


def set_later_epoch(data):
    data[12:16] = (9).to_bytes(4, "big")


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_bytes(fetched_partition, "records", flip_bit_in_the_middle),
        spoil_bytes(fetched_partition, "records", cut_batch),
        spoil_values(fetched_partition, records=None),
        spoil_values(
            fetched_partition,
            records=b"no batch at all, but some bytes that are long enough for one" * 3,
        ),
        spoil_values(fetched_partition, error_code=6),
        spoil_values(lambda answer: answer, responses=[]),
        spoil_values(lambda answer: answer, error_code=42),
        spoil_values(lambda answer: fetched_partition(answer).current_leader, leader_id=-1),
    ],
)
def test_an_answer_that_makes_no_sense_changes_nothing(cluster, disk, spoil):
    async def work():
        await fill(cluster, 5)
        source = Spoiling(cluster.source, spoil_fetch=spoil)
        await catch_up(cluster, disk, source=source)
        assert source.left == 0

    run(cluster, work)
    assert_same_log(cluster, disk)


def test_a_batch_of_a_later_epoch_than_the_one_fetched_under_is_refused(cluster, disk):
    async def work():
        later_epoch = spoil_bytes(fetched_partition, "records", set_later_epoch)
        source = Spoiling(cluster.source, spoil_fetch=later_epoch)
        observer = await following(cluster, disk, source=source)
        assert source.left == 0
        assert observer.leader_epoch == 1
        await observer.close()

    run(cluster, work)
    assert_same_log(cluster, disk)


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
