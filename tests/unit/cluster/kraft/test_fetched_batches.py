"""A fetch answer becomes a few batches of the core, of which each was checked."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.raft_node import voter_set
from kits.slicing import count_turns
from moldau.cluster.kraft.control_records import (
    leader_change_batch,
    voters_batch,
)
from moldau.cluster.kraft.fetched_batches import fetched_batches
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.raft.requests import LeaderChange, VotersChange
from moldau.cluster.raft.voters import VOTERS_BYTES_MAX
from moldau.records.batch import pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import ControlType, control_batch

THREE = voter_set(1, 2, 3)
TWO = voter_set(1, 2)


def batch(base_offset, epoch=1, size=20):
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for _ in range(2):
        builder.append(1_000, None, b"v" * size)
    return builder.build()


def fetched(data):
    return asyncio.run(fetched_batches(data))


def extents(data):
    return [(one.base_offset, one.end_offset, one.epoch) for one in fetched(data)]


def joined(batches):
    return b"".join(bytes(one.content.data) for one in batches)


LOG = [batch(offset) for offset in range(10, 30, 2)]
WHOLE = b"".join(LOG)


def test_batches_of_one_epoch_are_one_batch():
    (one,) = fetched(WHOLE)
    assert (one.base_offset, one.end_offset, one.epoch, one.voters) == (10, 30, 1, None)
    assert bytes(one.content.data) == WHOLE
    assert one.content.headers == [parse_header(data) for data in LOG]


def test_an_empty_answer_has_no_batches():
    assert fetched(b"") == ()


def test_another_epoch_begins_another_batch():
    data = WHOLE + batch(30, epoch=4) + batch(32, epoch=4) + batch(34, epoch=5)
    assert extents(data) == [(10, 30, 1), (30, 34, 4), (34, 36, 5)]
    assert joined(fetched(data)) == data


def test_a_batch_with_voters_stands_alone():
    change = LeaderChange(1, THREE.keys, THREE.keys, THREE)
    begin = leader_change_batch(change, 30, 2, 0)
    data = (
        WHOLE
        + begin
        + batch(33, 2)
        + batch(35, 2)
        + voters_batch(VotersChange(TWO), 37, 2, 0)
        + batch(38, 2)
    )
    batches = fetched(data)
    assert [(one.base_offset, one.voters, one.voters_offset) for one in batches] == [
        (10, None, -1),
        (30, THREE, 32),
        (33, None, -1),
        (37, TWO, 37),
        (38, None, -1),
    ]
    assert [len(one.content.headers) for one in batches] == [10, 1, 2, 1, 1]
    assert joined(batches) == data


def test_two_voter_sets_one_behind_the_other_are_both_told():
    data = voters_batch(VotersChange(THREE), 5, 1, 0) + voters_batch(VotersChange(TWO), 6, 1, 0)
    assert [one.voters for one in fetched(data)] == [THREE, TWO]


def test_other_control_records_are_like_data():
    change = leader_change_batch(LeaderChange(1, THREE.keys, THREE.keys), 30, 1, 0)
    future = control_batch(ControlType.SNAPSHOT_FOOTER, b"?", 0, base_offset=31, leader_epoch=1)
    assert extents(WHOLE + change + future) == [(10, 32, 1)]


@pytest.mark.parametrize("cut", [1, 16, 17, 60, 61, len(LOG[0]) - 1])
def test_a_batch_that_is_cut_is_left_out(cut):
    assert joined(fetched(WHOLE + batch(30)[:cut])) == WHOLE
    with pytest.raises(PeerUnavailable):
        fetched(batch(10)[:cut])


def unreadable_voters():
    builder = BatchBuilder(base_offset=30, leader_epoch=1, control=True)
    builder.append(0, b"\0\0\0\x06", b"no voters")
    return builder.build()


WRONG = {
    "zeros": b"\x00" * 100,
    "ones": b"\xff" * 100,
    "gap": batch(31),
    "again": batch(28),
    "earlier epoch": batch(30, epoch=0),
    "checksum": batch(30)[:-2] + b"\x07\x00",
    "magic": batch(30)[:16] + b"\x01" + batch(30)[17:],
    "old magic": batch(30)[:16] + b"\x00" + batch(30)[17:],
    "no extent": pack_batch(parse_header(batch(30))._replace(last_offset_delta=-1), b""),
    "voters": unreadable_voters(),
}
ALWAYS_WRONG = WRONG.keys() - {"gap", "again", "earlier epoch"}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_stands_before_a_broken_batch_counts(wrong):
    assert joined(fetched(WHOLE + WRONG[wrong] + batch(32))) == WHOLE


@pytest.mark.parametrize("wrong", sorted(ALWAYS_WRONG))
def test_an_answer_that_begins_with_a_broken_batch_is_none(wrong):
    with pytest.raises(PeerUnavailable, match="cannot be used"):
        fetched(WRONG[wrong] + batch(32))


@pytest.mark.parametrize("first", [batch(10, epoch=-1), batch(-2)], ids=["epoch", "offset"])
def test_an_offset_and_an_epoch_are_not_negative(first):
    with pytest.raises(PeerUnavailable):
        fetched(first)


def test_what_is_written_in_one_turn_is_bounded():
    large = [batch(2 * number, size=10_000) for number in range(12)]
    batches = fetched(b"".join(large))
    assert [len(one.content.headers) for one in batches] == [4, 4, 4]
    assert joined(batches) == b"".join(large)
    (whole,) = fetched(batch(0, size=200_000))
    assert whole.end_offset == 2


def test_the_loop_gets_its_turns():
    async def turns(data):
        return await count_turns(fetched_batches(data))

    def bound(data):
        return asyncio.run(turns(data))

    small = b"".join(batch(2 * number) for number in range(2_000))
    assert 2_000 // 100 <= bound(small) <= 2_000 // 100 + 2
    large = b"".join(batch(2 * number, size=20_000) for number in range(20))
    assert bound(large) >= len(large) // (2 * (64 << 10))


def test_many_small_batches_are_few():
    data = b"".join(batch(2 * number) for number in range(10_000))
    batches = fetched(data)
    assert len(batches) <= len(data) // (64 << 10) + 1
    assert sum(len(one.content.headers) for one in batches) == 10_000
    assert joined(batches) == data


def test_an_oversized_control_batch_is_not_read():
    huge = control_batch(ControlType.KRAFT_VOTERS, bytes(3 * VOTERS_BYTES_MAX), 0, base_offset=30)
    assert joined(fetched(WHOLE + huge)) == WHOLE


@given(st.data())
def test_whatever_happens_to_the_bytes_a_prefix_of_the_log_is_taken(data):
    spoiled = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(WHOLE) - 1))] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.integers(0, len(WHOLE)))
    try:
        batches = fetched(bytes(spoiled[:end]))
    except PeerUnavailable:
        return
    taken = joined(batches)
    assert spoiled[:end].startswith(taken)
    assert len(taken) % len(LOG[0]) == 0
    expected = batches[0].base_offset if batches else 0
    for one in batches:
        assert one.base_offset == expected < one.end_offset
        expected = one.end_offset
    # Offset and epoch lie outside of the checksum, so they may differ.
    for position in range(0, len(taken), len(LOG[0])):
        ours, theirs = (one[position : position + len(LOG[0])] for one in (taken, WHOLE))
        assert ours[8:12] + ours[16:] == theirs[8:12] + theirs[16:]
