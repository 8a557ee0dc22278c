"""Where a follower cuts its log: every answer of a leader, and every state of its own epochs."""

from __future__ import annotations

import pytest

from kits.log_kit import make_batch
from moldau.replication import truncation
from moldau.replication.role import NO_ROLE, Role
from moldau.storage.epochs import EpochEnd, EpochEntry, LeaderEpochs

HIGH_WATERMARK = 7


def epochs(*entries):
    return LeaderEpochs([EpochEntry(*entry) for entry in entries])


@pytest.mark.parametrize(
    ("own", "leader_end", "log_end", "cut"),
    [
        # The follower has the leader's epoch: the lower end of both.
        (epochs((0, 0), (1, 10)), EpochEnd(0, 8), 20, 8),
        (epochs((0, 0), (1, 10)), EpochEnd(0, 15), 20, 10),
        (epochs((0, 0), (1, 10)), EpochEnd(1, 15), 20, 15),
        (epochs((0, 0), (1, 10)), EpochEnd(1, 30), 20, 20),
        # It has not: the end of the next lower one, and the leader says more at the next fetch.
        (epochs((0, 0), (2, 10)), EpochEnd(1, 15), 20, 10),
        (epochs((0, 0), (1, 5), (4, 10)), EpochEnd(3, 9), 20, 10),
        # Its first epoch is later: all of it was written by others.
        (epochs((3, 4)), EpochEnd(1, 9), 20, 4),
        (epochs((3, 4)), EpochEnd(1, 2), 20, 2),
        # It knows no epochs at all: the leader's end.
        (epochs(), EpochEnd(1, 9), 20, 9),
        (epochs(), EpochEnd(1, 30), 20, 20),
        # The leader knows the end but not the epoch, as before KIP-279.
        (epochs((0, 0), (2, 10)), EpochEnd(-1, 9), 20, 9),
        # The leader knows nothing.
        (epochs((0, 0)), EpochEnd(-1, -1), 20, HIGH_WATERMARK),
    ],
)
def test_the_follower_cuts_where_both_logs_agree(own, leader_end, log_end, cut):
    assert truncation.truncation_offset(own, leader_end, log_end, HIGH_WATERMARK) == cut


@pytest.mark.parametrize(
    ("asked", "offset", "answer"),
    [
        (-1, 20, None),
        (0, 5, None),
        (0, 10, None),
        (0, 11, (0, 10)),
        (1, 9, (0, 10)),
        (2, 15, None),
        (2, 16, (2, 15)),
        (3, 15, (2, 15)),  # nobody wrote in epoch 3
        (3, 17, (2, 15)),
        (4, 20, None),
        (5, 20, (-1, -1)),
    ],
)
def test_the_leader_tells_where_the_logs_part(asked, offset, answer):
    leader = epochs((0, 0), (2, 10), (4, 15))
    assert truncation.diverging(leader, 4, 20, asked, offset) == answer


def test_an_epoch_without_records_ends_where_the_leaders_begins():
    leader = epochs((0, 0))
    assert truncation.diverging(leader, 3, 5, 2, 6) == (0, 5)
    assert truncation.diverging(leader, 3, 5, 3, 5) is None


def test_the_log_is_checked_again_in_every_epoch_also_under_the_same_leader():
    first = Role(1, 4, 9, (1, 2), (1, 2))
    assert truncation.must_check_log(NO_ROLE, first)
    assert truncation.must_check_log(first, Role(1, 6, 11, (1, 2), (1, 2)))
    assert not truncation.must_check_log(first, Role(1, 4, 10, (1, 2), (1,)))


def test_batches_of_a_later_leader_are_cut_off_with_all_behind_them():
    older, later = make_batch(leader_epoch=3), make_batch(base_offset=1, leader_epoch=5)
    assert truncation.up_to_epoch(older + later + older, 4) == older
    assert truncation.up_to_epoch(older + later, 5) == older + later
    assert truncation.up_to_epoch(older + later[:20], 4) == older + later[:20]
