"""What a leader sends is checked batch by batch before any of it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cluster import fetched_log
from moldau.cluster.fetched_log import checked_batches
from moldau.cluster.metadata_source import SourceUnavailable
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder


def batch(base_offset, epoch=1, size=20):
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for _ in range(2):
        builder.append(1_000, None, b"v" * size)
    return builder.build()


LOG = [batch(offset) for offset in range(10, 30, 2)]
WHOLE = b"".join(LOG)


def taken(data, next_offset=10, last_epoch=1, leader_epoch=1):
    """Return what may be written, and whether the rest was refused."""
    accepted = []
    try:
        for piece, headers in checked_batches(data, next_offset, last_epoch, leader_epoch):
            assert headers
            assert len(piece) == sum(header.size for header in headers)
            assert parse_header(piece).base_offset == headers[0].base_offset
            accepted.append(bytes(piece))
    except SourceUnavailable:
        return b"".join(accepted), True
    return b"".join(accepted), False


def test_whole_batches_that_continue_the_log_are_taken():
    assert taken(WHOLE) == (WHOLE, False)
    assert taken(b"") == (b"", False)


def test_batches_that_the_log_has_are_left_out():
    assert taken(WHOLE, next_offset=16) == (b"".join(LOG[3:]), False)
    assert taken(WHOLE, next_offset=99) == (b"", False)


@pytest.mark.parametrize("cut", [1, 16, 17, 60, 61, len(LOG[0]) - 1])
def test_a_batch_that_is_cut_is_left_out(cut):
    assert taken(WHOLE + batch(30)[:cut]) == (WHOLE, False)
    assert taken(batch(10)[:cut]) == (b"", False)


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x00" * 100,
        b"\xff" * 100,
        batch(31),
        batch(30, epoch=2),
        batch(30, epoch=0),
        batch(30)[:-2] + b"\x07\x00",
        batch(30)[:16] + b"\x01" + batch(30)[17:],
        batch(28),
    ],
    ids=["zeros", "ones", "gap", "later epoch", "earlier epoch", "checksum", "magic", "again"],
)
def test_what_stands_before_a_wrong_batch_is_taken(wrong):
    assert taken(WHOLE + wrong + batch(32)) == (WHOLE, True)


def test_many_batches_are_handed_over_in_pieces(monkeypatch):
    monkeypatch.setattr(fetched_log, "_SLICE_BYTES", 2 * len(LOG[0]))
    pieces = list(checked_batches(WHOLE, 10, 1, 1))
    assert [len(headers) for _, headers in pieces] == [2] * 5


@given(st.data())
def test_whatever_happens_to_the_bytes_a_prefix_of_the_log_is_taken(data):
    spoiled = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(WHOLE) - 1))] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.integers(0, len(WHOLE)))
    accepted, _ = taken(bytes(spoiled[:end]), leader_epoch=2**31 - 1)
    # The epoch lies outside of the checksum, so it may differ.
    assert len(accepted) % len(LOG[0]) == 0
    for position in range(0, len(accepted), len(LOG[0])):
        ours, theirs = (one[position : position + len(LOG[0])] for one in (accepted, WHOLE))
        assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]
