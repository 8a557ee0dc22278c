"""What a leader's answer means for one partition of a follower.

The rules are Kafka's (`AbstractFetcherThread`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import FetchablePartitionResponse
from moldau.records.batch import iter_batches

PIECE_BYTES: Final = 128 * 1024
PIECE_BATCHES: Final = 64
"""Batches are appended in pieces up to here: each takes about a millisecond."""

AT_ONCE_BYTES: Final = PIECE_BYTES // 8
"""Most answers have fewer bytes, too few for many batches, and are appended in one step."""


class Meaning(Enum):
    """What a follower does with the answer for one partition."""

    APPEND = "append"
    """Take the records, if any, and the leader's figures."""
    TRUNCATE = "truncate"
    """Cut the log where it parts from the leader's, and ask again."""
    LOOK_UP = "look up"
    """Ask where the leader's log begins and ends."""
    REST = "rest"
    """Ask again after a while: the leader, or this broker, will know better then."""
    FAIL = "fail"
    """Do not ask before the cluster's metadata has changed."""


EXPECTED_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""While the cluster's metadata changes, one broker knows of it before the other."""


FIRST_REST_S: Final = 0.01


def rest_after(refusals: int, longest_s: float) -> float:
    """Say how long to rest when a leader has given an expected error so many times.

    A leader learns of its election a moment after its followers, or before. Records that were
    written to it meanwhile wait for them, so the first rest is short.
    """
    return longest_s if refusals > 16 else min(longest_s, FIRST_REST_S * 2**refusals)


def meaning_of(answer: FetchablePartitionResponse) -> Meaning:
    """Say what to do with an answer to what the follower still asks for.

    A leader that fences the epoch which this broker has from the metadata knows of a newer one.
    To ask with the old one again is of no use.
    """
    error = answer.error_code
    if error == ErrorCode.NONE:
        return Meaning.TRUNCATE if answer.diverging_epoch.epoch >= 0 else Meaning.APPEND
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Meaning.LOOK_UP
    if error == ErrorCode.FENCED_LEADER_EPOCH:
        return Meaning.FAIL
    return Meaning.REST


class LeaderOffsets(NamedTuple):
    """Where a leader's log begins and ends."""

    start: int
    end: int


class TruncateTo(NamedTuple):
    """The leader ends before the follower: an unclean election."""

    offset: int


class RestartAt(NamedTuple):
    """The leader begins behind the follower: it was away for longer than records are kept."""

    offset: int


def out_of_range(own_end_offset: int, leader: LeaderOffsets) -> TruncateTo | RestartAt | None:
    """Decide how a follower whose offset the leader does not have goes on; None: as it is."""
    if leader.end < own_end_offset:
        return TruncateTo(leader.end)
    if leader.start > own_end_offset:
        return RestartAt(leader.start)
    return None


def pieces(records: memoryview) -> Iterator[memoryview]:
    """Divide batches into pieces that are appended in one step each; a cut last one is left out.

    There is at least one piece, which may be empty: the leader's figures come with it.
    CorruptRecords where no batch begins.
    """
    start = end = count = 0
    for span in iter_batches(records, allow_cut=True):
        if count == PIECE_BATCHES or (count and end + span.size - start > PIECE_BYTES):
            yield records[start:end]
            start, count = end, 0
        end += span.size
        count += 1
    yield records[start:end]
