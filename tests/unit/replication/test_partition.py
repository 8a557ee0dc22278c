"""How far a partition may be read: the high watermark, and what transactions leave stable."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kits import log_kit
from kits.log_kit import KEY, TOPIC_ID, append_values, make_batch, marker
from kits.partition_kit import give_role, make_partition
from moldau.base.errors import DiskFull
from moldau.replication.partition import Partition
from moldau.sim.disk_faults import Operation

ME = 1


def partition_of(log) -> Partition:
    return make_partition(KEY, TOPIC_ID, log)


def opened() -> Partition:
    return partition_of(log_kit.Broker().log())


def transact(partition: Partition, sequence: int = 0) -> None:
    batch = make_batch([b"v"], producer=(7, 0, sequence), transactional=True)
    log_kit.append(partition.log, batch)
    partition.advance()


def end(partition: Partition) -> None:
    partition.log.append_marker(*marker(7, 0, aborted=False), 0, 1)
    partition.advance()


def test_an_open_transaction_is_not_stable_and_an_ended_one_is():
    partition = opened()
    append_values(partition.log, b"before")
    transact(partition)
    append_values(partition.log, b"behind")
    partition.advance()
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 3)
    end(partition)
    assert partition.last_stable_offset == partition.high_watermark == 4
    transact(partition, 1)
    assert partition.last_stable_offset == 4


def test_a_transaction_is_not_stable_before_its_marker_is_below_the_high_watermark():
    partition = opened()
    transact(partition)
    partition.log.append_marker(*marker(7, 0, aborted=False), 0, 1)
    assert (partition.last_stable_offset, partition.high_watermark) == (0, 1)
    partition.advance()
    assert partition.last_stable_offset == 2


def test_watchers_are_told_when_what_the_marker_ended_is_stable_already():
    partition = opened()
    transact(partition)
    seen = []

    class Watcher:
        def moved(self, moved: Partition) -> None:
            seen.append(moved.last_stable_offset)

    partition.watch(Watcher())
    end(partition)
    assert seen == [2]


def test_transactions_read_back_after_a_crash_are_stable_below_the_restored_high_watermark():
    disk = log_kit.Broker()
    partition = partition_of(disk.log())
    transact(partition)
    end(partition)
    again = partition_of(disk.kill().log())
    again.set_high_watermark(again.log.log_end_offset)
    assert again.last_stable_offset == 2


def test_nothing_is_said_to_be_stable_below_the_start_of_the_log():
    partition = opened()
    for sequence in range(4):
        transact(partition, sequence)
    partition.log.delete_records_before(3)
    assert partition.last_stable_offset == partition.log.log_start_offset == 3


def test_an_epoch_in_which_nobody_wrote_ends_where_the_leaders_begins():
    partition = opened()
    give_role(partition, replace(partition.role, leader_epoch=3))
    assert partition.epoch_end(1) == (1, 0)
    append_values(partition.log, b"in epoch 0")
    assert [partition.epoch_end(epoch) for epoch in range(5)] == [
        (0, 1),
        (0, 1),
        (0, 1),
        (3, 1),
        (-1, -1),
    ]


def test_a_marker_that_is_taken_back_leaves_ended_transactions_stable():
    disk = log_kit.Broker()
    partition = partition_of(disk.log())
    transact(partition)
    end(partition)
    transact(partition, 1)
    path = f"{disk.log().folder}/{0:020d}.txnindex"
    disk.sim().faults.fail(Operation.APPEND, path, code=errno.ENOSPC)
    with pytest.raises(DiskFull):
        partition.append_marker(*marker(7, 1, aborted=True), 2)
    assert (partition.last_stable_offset, partition.high_watermark) == (2, 3)
