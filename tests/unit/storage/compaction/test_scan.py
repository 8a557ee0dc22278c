"""The fast path over records takes what the slow path takes, or leaves it alone."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.compaction_kit import keyed_batch
from kits.log_kit import NOW_MS
from moldau.base.errors import CorruptRecords
from moldau.records.batch import HEADER_SIZE, pack_batch, parse_header
from moldau.storage.compaction.batches import Source, clean_data
from moldau.storage.compaction.keys import KeyOffsets, note_keys
from moldau.storage.compaction.scan import plain_keys, record_starts

KEYS = st.none() | st.binary(max_size=4) | st.sampled_from([b"k" * 63, b"k" * 64, b"k" * 9000])
VALUE_SIZES = st.sampled_from([0, 10, 52, 53, 54, 60, 1000, 8170, 8180, 8190, 9000])
STEPS_MS = st.sampled_from([0, 0, 0, 1, 63, 64, 8191, 8192, 1 << 20, 1 << 27, -5])


@st.composite
def batches(draw):
    """Runs of records that are alike, with others between them, as they come in life."""
    pairs, timestamps = [], []
    stamp = NOW_MS
    for _ in range(draw(st.integers(1, 5))):
        key, size, step = draw(KEYS), draw(VALUE_SIZES), draw(STEPS_MS)
        stamp += step
        for number in range(draw(st.sampled_from([1, 2, 15, 16, 17, 40, 70]))):
            pairs.append((key and key + b"%d" % (number % 7), b"v" * size))
            timestamps.append(stamp)
    return keyed_batch(pairs, timestamps=timestamps)


def noted(batch: bytes, base_offset: int = 5) -> dict[bytes, int]:
    keys = KeyOffsets(1 << 30)
    header = parse_header(batch)
    keys.note_records(batch, HEADER_SIZE, len(batch), header.count, base_offset)
    return keys.newest


def noted_one_by_one(batch: bytes, base_offset: int = 5) -> dict[bytes, int]:
    newest: dict[bytes, int] = {}
    count = parse_header(batch).count
    assert note_keys(newest, batch, HEADER_SIZE, count, base_offset) == len(batch)
    return newest


def misnumbered(batch: bytes, number: int, delta: int) -> bytes:
    """Give a record another offset delta, in a batch of few small ones."""
    header = parse_header(batch)
    start = record_starts(batch, HEADER_SIZE, header.count)[number]
    changed = bytearray(batch)
    assert changed[start + 3] == 2 * number
    changed[start + 3] = 2 * delta
    return pack_batch(header, changed[HEADER_SIZE:])


@given(batches())
def test_both_ways_note_the_same(batch):
    assert noted(batch) == noted_one_by_one(batch)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 300, 8191, 8192, 8193, 8300])
def test_records_of_one_kind_all_go_the_short_way(count):
    batch = keyed_batch([(b"key %d" % number, b"v" * 100) for number in range(count)])
    position, taken = HEADER_SIZE, []
    for numbers in (range(count), range(64, count)):
        keys, position = plain_keys(batch, position, numbers) if numbers else ([], position)
        taken += keys
    most = min(count, 8192)
    assert taken == [b"key %d" % number for number in range(most)]
    assert position == record_starts(batch, HEADER_SIZE, count)[most]
    assert noted(batch) == noted_one_by_one(batch)


@pytest.mark.parametrize("step_ms", [1, 100, 10_000, 2_000_000])
def test_timestamps_of_any_width_go_the_short_way(step_ms):
    pairs = [(b"k", b"v" * 100)] * 40
    stamps = [NOW_MS, *[NOW_MS + step_ms] * 39]
    batch = keyed_batch(pairs, timestamps=stamps)
    second = record_starts(batch, HEADER_SIZE, 40)[1]
    assert plain_keys(batch, second, range(1, 40)) == ([b"k"] * 39, len(batch))


@pytest.mark.parametrize("odd", [(None, b"v"), (b"k" * 64, b"v"), (b"k", b"v" * 9000)])
def test_what_is_not_plain_ends_the_fast_path_before_it(odd):
    batch = keyed_batch([(b"a", b"v"), (b"b", b"v"), odd, (b"c", b"v")])
    starts = record_starts(batch, HEADER_SIZE, 4)
    # Every other record of the kit has a header: they differ in length, not in how it is written.
    assert plain_keys(batch, HEADER_SIZE, range(4)) == ([b"a", b"b"], starts[2])
    assert plain_keys(batch, starts[2], range(2, 4)) == ([], starts[2])


def test_a_record_with_the_wrong_number_ends_the_short_way():
    batch = misnumbered(keyed_batch([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]), 1, 2)
    keys, position = plain_keys(batch, HEADER_SIZE, range(3))
    assert (keys, position) == ([b"a"], record_starts(batch, HEADER_SIZE, 3)[1])
    assert noted(batch, 0) == {b"a": 0, b"b": 2, b"c": 2}


def test_a_narrower_timestamp_is_not_taken_for_a_wider_one():
    """Read one byte further on, the last record has the expected number too, and another key."""
    wide = keyed_batch([(b"a", b"1")] * 2, timestamps=[NOW_MS, NOW_MS + 64])
    timestamp, delta, key = b"\x02", b"\x04", b"\x04\x02k"
    body = b"\x00" + timestamp + delta + key + b"\x01\x00"
    data = wide + bytes([2 * len(body)]) + body
    second = record_starts(data, HEADER_SIZE, 3)[1]
    assert plain_keys(data, second, range(1, 3)) == ([b"a"], len(wide))


@given(batches(), st.data())
def test_data_that_ends_too_soon_is_corrupt(batch, data):
    size = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    count = parse_header(batch).count
    with pytest.raises(CorruptRecords):
        KeyOffsets(1 << 30).note_records(batch[:size], HEADER_SIZE, size, count, 0)


@given(batches())
def test_records_begin_where_others_end(batch):
    starts = record_starts(batch, HEADER_SIZE, parse_header(batch).count)
    assert starts[0] == HEADER_SIZE
    assert starts[-1] == len(batch)
    assert all(start < end for start, end in pairwise(starts))


class TestKnownOffsets:
    """Looking only for offsets that stay comes to the same as looking at all records."""

    @staticmethod
    def cleaned(batch: bytes, later: dict[bytes, int]):
        header = parse_header(batch)
        newest = noted_one_by_one(batch, header.base_offset) | later
        inside = (o for o in newest.values() if header.base_offset <= o <= header.last_offset)
        source = Source(batch, 0, header)
        short = clean_data(source, newest, NOW_MS, 1000, staying=sorted(inside))
        return short, clean_data(source, newest, NOW_MS, 1000)

    @given(batches(), st.data())
    def test_it_leaves_the_same(self, batch, data):
        keys = sorted(noted_one_by_one(batch))
        again = data.draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
        short, long = self.cleaned(batch, dict.fromkeys(again, 1 << 40))
        assert short == long

    @pytest.mark.parametrize(("number", "delta"), [(0, 1), (1, 0), (2, 1), (1, 2)])
    @pytest.mark.parametrize("later", [(), (b"a",), (b"b",), (b"c",), (b"a", b"c")])
    def test_records_not_counted_one_by_one_are_all_looked_at(self, number, delta, later):
        batch = keyed_batch([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
        changed = misnumbered(batch, number, delta)
        short, long = self.cleaned(changed, dict.fromkeys(later, 9))
        assert short == long


@pytest.mark.process
def test_a_broker_that_imports_it_makes_no_tables():
    code = (
        "import sys, moldau.server.upkeep.compaction, moldau.storage.compaction.scan as scan;"
        "made = (scan._written, scan._record_sizes, scan._key_sizes, scan._shape);"
        "print([table.cache_info().currsize for table in made])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 0, 0, 0]"
