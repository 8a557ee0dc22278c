"""What the core knows of a log, and where two logs part."""

import pytest

from kits.raft_node import log_of
from moldau.cluster.raft.divergence import diverging, snapshot_instead, truncation_offset
from moldau.cluster.raft.log_position import LogEnd, LogPosition
from moldau.cluster.snapshots import SnapshotId
from moldau.storage.epochs import EpochEnd


def test_a_later_epoch_beats_a_longer_log():
    assert LogEnd(3, 10) < LogEnd(4, 5) < LogEnd(4, 6)


def test_an_empty_log_has_no_epoch():
    assert LogPosition().end == (-1, 0)


def test_a_log_behind_a_snapshot_ends_in_its_epoch():
    log = LogPosition()
    log.restart(SnapshotId(20, 3))
    assert log.end == (3, 20)
    assert log.start_offset == log.synced_offset == 20
    assert log.append(4, 2) == 20
    assert log.end == (4, 22)


def test_a_sync_counts_up_to_the_end_that_it_has_seen():
    log = LogPosition()
    log.append(1, 2)
    mark = log.mark
    log.append(1, 3)
    assert log.synced(mark)
    assert log.synced_offset == 2
    assert not log.synced(mark)
    assert not log.is_synced
    assert log.synced(log.mark)
    assert log.is_synced


def test_a_sync_that_ends_after_a_truncation_says_nothing():
    log = LogPosition()
    log.append(1, 5)
    mark = log.mark
    log.truncate(3)
    log.append(2, 2)
    assert not log.synced(mark)
    assert log.synced_offset == 0


def test_a_truncation_takes_what_was_durable_along():
    log = log_of((1, 0), (2, 4), end=6)
    log.truncate(3)
    assert log.synced_offset == 3
    assert log.last_epoch == 1


def test_a_log_forgets_its_head_and_knows_its_snapshots():
    log = log_of((1, 0), (2, 4), end=9)
    log.take_snapshot(SnapshotId(5, 2))
    log.take_snapshot(SnapshotId(8, 2))
    assert log.oldest_snapshot == SnapshotId(5, 2)
    assert log.newest_snapshot == SnapshotId(8, 2)
    log.trim(8, SnapshotId(8, 2))
    assert log.start_offset == 8
    assert log.oldest_snapshot == SnapshotId(8, 2)
    assert log.epochs.entries == ((2, 8),)


LEADER = log_of((1, 0), (3, 4), (5, 8), end=10)


@pytest.mark.parametrize(
    ("offset", "epoch", "end"),
    [
        (0, -1, None),  # an empty log goes on
        (10, 5, None),
        (8, 3, None),
        (2, 1, None),
        (9, 3, EpochEnd(3, 8)),  # longer than the leader's epoch 3
        (6, 2, EpochEnd(1, 4)),  # an epoch that the leader never had
        (6, 1, EpochEnd(1, 4)),
        (12, 5, EpochEnd(5, 10)),
        (9, 6, EpochEnd(5, 10)),  # newer than all of the leader's
    ],
)
def test_a_leader_says_where_a_log_has_left_its_own(offset, epoch, end):
    assert diverging(LEADER, offset, epoch) == end


@pytest.mark.parametrize(
    ("leader_end", "offset"),
    [
        (EpochEnd(3, 7), 7),  # both have epoch 3, the leader less of it
        (EpochEnd(3, 99), 8),  # both have epoch 3, we less of it
        (EpochEnd(4, 9), 8),  # the leader's epoch 4 is unknown here: back to the end of 3
        (EpochEnd(2, 3), 4),
        (EpochEnd(7, 9), 9),  # later than all of ours
        (EpochEnd(7, 30), 10),
        (EpochEnd(-1, 2), 2),  # the leader has no epochs at all
    ],
)
def test_a_follower_cuts_where_both_agree_as_far_as_it_knows(leader_end, offset):
    assert truncation_offset(LEADER, leader_end) == offset


def test_a_log_that_begins_before_ours_needs_a_snapshot():
    snapshots = (SnapshotId(20, 3), SnapshotId(30, 4))
    log = log_of((3, 20), (4, 25), end=40, start=20, snapshots=snapshots)
    newest = snapshots[1]
    assert snapshot_instead(log, 0, -1) == newest
    assert snapshot_instead(log, 19, 3) == newest
    assert snapshot_instead(log, 22, 2) == newest  # no epoch of ours
    assert snapshot_instead(log, 20, 4) == newest  # not what our snapshot ends with
    assert snapshot_instead(log, 20, 3) is None
    assert snapshot_instead(log, 22, 3) is None
    assert diverging(log, 20, 3) is None


def test_a_log_with_an_epoch_before_ours_needs_a_snapshot_wherever_the_oldest_one_ends():
    """Kafka's segments do not end where its snapshots do."""
    snapshots = (SnapshotId(25, 3), SnapshotId(30, 4))
    log = log_of((3, 20), (4, 28), end=40, start=20, snapshots=snapshots)
    newest = snapshots[1]
    # Epoch 2 may have ended before offset 20: such a log may have records that ours never had.
    assert snapshot_instead(log, 20, 2) == newest
    assert snapshot_instead(log, 35, 2) == newest
    assert snapshot_instead(log, 20, 3) is None
    assert snapshot_instead(log, 24, 3) is None
    assert diverging(log, 20, 3) is None
    whole = log_of((1, 0), (3, 20), end=40, snapshots=snapshots)
    assert snapshot_instead(whole, 20, 1) is None
    assert snapshot_instead(whole, 22, 1) is None


def test_without_a_snapshot_to_begin_with_the_log_is_served():
    assert snapshot_instead(log_of((1, 0), end=5), 0, -1) is None
    bootstrap = (SnapshotId(0, 0),)
    assert snapshot_instead(log_of((1, 0), end=5, snapshots=bootstrap), 0, -1) is None
