"""Partitions go through their stages, and what is under way for an older position is dropped."""

from __future__ import annotations

import pytest

from kits.consumer_kit import PARTITION, ready
from moldau.client.consuming.positions import (
    EARLIEST,
    NO_OFFSET,
    PartitionState,
    Positions,
    Stage,
    committable,
)
from moldau.client.errors import InvalidState
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.metadata import NO_EPOCH

OTHER = TopicPartition("t", 1)


def test_a_new_partition_has_no_position():
    state = PartitionState(PARTITION)
    assert (state.stage, state.has_offset, state.offset) == (Stage.UNKNOWN, False, NO_OFFSET)


def test_a_seek_is_fetched_at_once_and_with_an_epoch_after_validation():
    state = PartitionState(PARTITION)
    state.seek(5)
    assert (state.stage, state.offset, state.fetch_offset) == (Stage.READY, 5, 5)
    state.seek(6, 3)
    assert (state.stage, state.fetch_epoch) == (Stage.VALIDATING, 3)
    state.validated(4)
    assert (state.stage, state.leader_epoch, state.fetch_offset) == (Stage.READY, 4, 6)


def test_everything_that_moves_counts_up_the_revision_and_clears_errors():
    state = ready()
    for move in (
        lambda: state.seek(1),
        lambda: state.reset(EARLIEST),
        lambda: state.found(1, 0, 0),
        lambda: state.refetch(1, 0),
        state.retire,
    ):
        before = state.revision
        move()
        assert state.revision > before
    state.error = ValueError()
    state.fetched(9, 1, 100)
    state.seek(3)
    assert (state.error, state.buffered_size, state.fetch_epoch) == (None, 0, NO_EPOCH)


def test_fetching_runs_ahead_of_what_the_user_is_done_with():
    state = ready(5)
    state.fetched(8, 2, 100)
    state.fetched(9, NO_EPOCH, 50)
    assert (state.offset, state.fetch_offset, state.fetch_epoch) == (5, 9, 2)
    assert state.buffered_size == 150
    state.settle(7, 2)
    assert (state.offset, state.fetch_offset) == (7, 9)


def test_a_new_leader_asks_for_validation_only_if_something_was_read_before():
    state = ready(5)
    assert not state.leader_changed(3)  # nothing read: nothing that could have been cut
    state.fetched(8, 3, 1)
    assert not state.leader_changed(3)
    assert state.leader_changed(4)
    assert state.stage is Stage.VALIDATING
    assert not state.leader_changed(5)  # it is being validated anyway


def test_a_position_the_leader_named_needs_no_validation_under_that_leader():
    state = PartitionState(PARTITION)
    state.found(100, 2, 6)
    assert not state.leader_changed(6)
    assert state.leader_changed(7)


def test_a_leader_change_ends_reading_from_a_replica():
    state = ready()
    state.preferred_replica = 3
    state.leader_changed(1)
    assert state.preferred_replica == -1


def test_assigning_keeps_what_stays_and_retires_what_goes():
    positions = Positions()
    positions.assign([PARTITION, OTHER])
    kept, gone = positions.state(PARTITION), positions.state(OTHER)
    kept.seek(7)
    revision = gone.revision
    assert positions.assign([PARTITION]) == [gone]
    assert positions.state(PARTITION) is kept
    assert gone.revision > revision
    assert positions.partitions == {PARTITION}
    assert OTHER not in positions
    positions.assign([PARTITION, OTHER])
    assert positions.state(OTHER) is not gone


def test_a_partition_that_is_not_assigned_is_named():
    with pytest.raises(InvalidState, match="t-0 is not assigned"):
        Positions().state(PARTITION)


def test_the_one_just_served_goes_to_the_back():
    positions = Positions()
    positions.assign([PARTITION, OTHER])
    positions.to_back(positions.state(PARTITION))
    assert [state.partition for state in positions] == [OTHER, PARTITION]
    positions.to_back(PartitionState(TopicPartition("gone", 0)))
    assert len(positions) == 2


def test_an_epoch_is_committed_only_where_it_is_known():
    assert committable(5, NO_EPOCH) == OffsetAndMetadata(5)
    assert committable(5, 2) == OffsetAndMetadata(5, "", 2)


def test_a_partition_that_is_not_assigned_yet_says_how_it_will_be():
    with pytest.raises(
        InvalidState, match=r"t-0 is not assigned.*poll\(\).*on_partitions_assigned"
    ):
        Positions().state(PARTITION)
