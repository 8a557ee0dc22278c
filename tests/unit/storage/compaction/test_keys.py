"""The map from keys to newest offsets: what it takes, and where it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.compaction_kit import keyed_batch
from moldau.base.errors import CorruptRecords
from moldau.records.batch import HEADER_SIZE, parse_header
from moldau.records.record import iter_spans
from moldau.storage.compaction.keys import ENTRY_OVERHEAD, KeyOffsets

KEYS = st.none() | st.binary(max_size=4) | st.binary(min_size=60, max_size=200)
VALUES = st.none() | st.binary(max_size=20) | st.binary(min_size=100, max_size=9000)


def noted(batch: bytes, base_offset: int = 0, capacity_bytes: int = 1 << 20) -> KeyOffsets:
    keys = KeyOffsets(capacity_bytes)
    count = parse_header(batch).count
    keys.note_records(batch, HEADER_SIZE, len(batch), count, base_offset)
    return keys


@given(st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=80), st.integers(0, 1 << 40))
def test_every_key_has_the_offset_of_its_last_record(pairs, base_offset):
    batch = keyed_batch(pairs, timestamps=[7 * number * number for number in range(len(pairs))])
    header = parse_header(batch)
    expected = {
        span.key: base_offset + span.offset
        for span in iter_spans(header, batch[HEADER_SIZE:])
        if span.key is not None
    }
    assert noted(batch, base_offset).newest == expected


def test_records_that_end_too_soon_are_corrupt():
    batch = keyed_batch([(b"k", b"v" * 10)] * 3)
    keys = KeyOffsets(1000)
    for size in range(HEADER_SIZE, len(batch)):
        with pytest.raises(CorruptRecords):
            keys.note_records(batch[:size], HEADER_SIZE, size, 3, 0)
    with pytest.raises(CorruptRecords):
        keys.note_records(batch + b"more", HEADER_SIZE, len(batch) + 4, 3, 0)


def test_a_key_that_leaves_its_record_is_corrupt():
    batch = bytearray(keyed_batch([(b"k" * 10, b"v"), (b"k", b"v" * 60)]))
    at = batch.index(b"k" * 10) - 1
    batch[at] = 2 * 40
    with pytest.raises(CorruptRecords, match="a key ends"):
        noted(bytes(batch))


def test_memory_is_counted_once_for_each_key():
    keys = noted(keyed_batch([(b"four", b"v"), (b"fiver", b"v"), (b"four", b"v")]))
    assert keys.size == 2 * ENTRY_OVERHEAD + 9
    keys.note(b"four", 9)
    assert keys.size == 2 * ENTRY_OVERHEAD + 9
    keys.note(b"1", 9)
    assert keys.size == 3 * ENTRY_OVERHEAD + 10


def test_it_is_full_when_its_bytes_are_used_up():
    assert not noted(keyed_batch([(b"k", b"v")]), capacity_bytes=ENTRY_OVERHEAD + 2).full
    assert noted(keyed_batch([(b"k", b"v")]), capacity_bytes=ENTRY_OVERHEAD + 1).full
