"""What is encoded by columns is what the client's builder writes record by record."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.errors import UserError
from moldau.records.batch import HEADER_SIZE, pack_batch
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.record import read_records
from moldau.spark.sink.columns import Strings
from moldau.spark.sink.encoding import Headers, Rows, encode

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NO_LIMIT = 1 << 30

contents = st.one_of(st.none(), st.binary(max_size=200))
header_lists = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=5), contents), max_size=3))
records = st.tuples(
    st.integers(0, 2**41), contents, contents, header_lists, st.integers(0, 3)
)  # fmt: skip


def columns(given, with_headers=True):
    """Put records (timestamp, key, value, headers, destination) side by side."""
    headers = None
    if with_headers:
        pairs = [
            one[3] and [{"key": name, "value": value} for name, value in one[3]] for one in given
        ]
        headers = Headers.of(pa.array(pairs, HEADERS))
    rows = Rows(
        Strings.of(pa.array([one[1] for one in given], pa.binary())),
        Strings.of(pa.array([one[2] for one in given], pa.binary())),
        headers,
        np.array([one[0] for one in given], np.int64),
    )
    return rows, np.array([one[4] for one in given], np.int64)


def built(given, codec=Codec.NONE):
    """Build one batch the usual way."""
    builder = BatchBuilder(codec)
    for timestamp, key, value, headers, _ in given:
        builder.append(timestamp, key, value, headers or ())
    return builder.build()


def packed(batch):
    return pack_batch(batch.header, batch.records)


@settings(max_examples=150)
@given(st.lists(records, min_size=1, max_size=40))
def test_each_destination_gets_what_a_builder_writes_for_its_records(given):
    found = {way: packed(batch) for way, batch in encode(*columns(given), NO_LIMIT)}
    assert found == {
        way: built([one for one in given if one[4] == way]) for way in {one[4] for one in given}
    }


@given(st.lists(records, min_size=1, max_size=30), st.integers(100, 600))
def test_limited_batches_hold_all_records_in_order_and_keep_to_the_limit(given, limit):
    found = {}
    for way, batch in encode(*columns(given), limit):
        assert len(packed(batch)) <= limit or batch.header.count == 1
        assert batch.plain_size == len(packed(batch))
        found.setdefault(way, []).extend(
            (record.timestamp, record.key, record.value, list(record.headers))
            for record in read_records(packed(batch))
        )
    wanted = {}
    for timestamp, key, value, headers, way in given:
        wanted.setdefault(way, []).append((timestamp, key, value, list(headers or ())))
    assert found == wanted


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193])
def test_places_of_every_width_are_written_right(count):
    given = [(1000 + number, b"k", b"v%d" % number, None, 0) for number in range(count)]
    ((_, batch),) = encode(*columns(given), NO_LIMIT)
    assert packed(batch) == built(given)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_understood_by_readers(codec):
    given = [(5, b"key", b"value " * 50, [("a", b"1")], 0) for _ in range(100)]
    ((_, batch),) = encode(*columns(given), NO_LIMIT, codec)
    read = [(record.timestamp, record.key, record.value) for record in read_records(packed(batch))]
    assert read == [one[:3] for one in given]
    assert batch.header.codec is codec
    assert batch.plain_size == len(built(given))


def test_rows_without_keys_or_headers_are_written_without():
    given = [(7, None, b"value", None, 0), (9, None, None, None, 0)]
    rows, ways = columns(given, with_headers=False)
    ((_, batch),) = encode(rows._replace(keys=None), ways, NO_LIMIT)
    assert packed(batch) == built(given)


def test_slices_of_columns_are_read_where_they_are():
    values = pa.array([b"left out", b"first", None, b"last", b"left out"], pa.binary()).slice(1, 3)
    keys = pa.array(["out", "a", None, "c", "out"]).slice(1, 3)
    pairs = [[{"key": "out", "value": b""}], None, [{"key": "h", "value": b"x"}], [], None]
    headers = pa.array(pairs, HEADERS).slice(1, 3)
    rows = Rows(
        Strings.of(keys), Strings.of(values), Headers.of(headers), np.array([3, 2, 1])
    )  # fmt: skip
    ((_, batch),) = encode(rows, np.zeros(3, np.int64), NO_LIMIT)
    assert packed(batch) == built(
        [
            (3, b"a", b"first", None, 0),
            (2, None, None, [("h", b"x")], 0),
            (1, b"c", b"last", None, 0),
        ]
    )


def test_a_null_list_over_hidden_headers_has_none():
    children = pa.StructArray.from_arrays(
        [pa.array(["a", "b"]), pa.array([b"1", b"2"])], ["key", "value"]
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), children)
    masked = pa.Array.from_buffers(
        lists.type, 2, [pa.py_buffer(b"\x02"), lists.buffers()[1]], children=[children]
    )
    headers = Headers.of(masked)
    assert headers.counts.tolist() == [0, 1]
    assert headers.written.array.to_pylist() == [b"", b"\x02b\x022"]


@pytest.mark.parametrize("pairs", [[[{"key": None, "value": b"x"}]], [[None]]])
def test_a_header_without_a_key_is_refused(pairs):
    with pytest.raises(UserError, match="a header without a key"):
        Headers.of(pa.array(pairs, HEADERS))


def test_headers_that_nobody_has_are_none():
    assert Headers.of(pa.array([None, []], HEADERS)) is None


def test_nothing_is_made_of_no_rows():
    rows, ways = columns([(1, b"", b"", None, 0)], with_headers=False)
    assert list(encode(rows, ways[:0], NO_LIMIT)) == []


def test_a_batch_is_at_most_as_large_as_it_was_planned():
    given = [(1, b"k" * 10, b"v" * 89, None, 0) for _ in range(1000)]
    sizes = [len(packed(batch)) for _, batch in encode(*columns(given), 16_384)]
    assert max(sizes) <= 16_384
    assert min(sizes[:-1]) > 16_384 * 0.7
    assert sum(sizes) - len(sizes) * HEADER_SIZE >= 1000 * 99
