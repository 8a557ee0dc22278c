"""Fetch answers become record batches with the rows that records would have been."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.column_kit import batch_of
from kits.consumer_kit import batch, marker
from moldau.client.errors import CorruptAnswer
from moldau.client.records import TopicPartition
from moldau.engine.arrow_answer import ArrowAnswer
from moldau.engine.arrow_batches import ArrowForm
from moldau.engine.fetched_batches import BatchWalk, split
from moldau.protocol.messages.data import AbortedTransaction
from moldau.records.batch import TimestampType, pack_batch, parse_header
from moldau.records.compression import Codec
from moldau.records.legacy import message_set
from moldau.records.record import Record

PARTITION = TopicPartition("orders", 3)
WITH_HEADERS = ArrowForm(headers=True)
IN_MS = ArrowForm(time_unit="ms")
RECORDS = [
    Record(7, 1_700_000_000_123, b"key", b"value"),
    Record(8, 1_700_000_000_124, None, b""),
    Record(9, 1_700_000_000_125, b"", None),
    Record(20, -1, None, None, (("a", b"1"), ("\u017elu\u0165", None), ("a", b""))),
]


def answer(content, offset=0, form=ArrowForm(), aborted=()):  # noqa: B008 - a named tuple
    view = memoryview(content)
    told = [AbortedTransaction(*one) for one in aborted]
    return ArrowAnswer(
        PARTITION, view, BatchWalk(view, split(view, offset).spans, offset, told), form
    )


def take_all(reading, *limits):
    taken = []
    while (one := reading.take(*limits)) is not None:
        one.batch.validate(full=True)
        taken.append(one)
    return taken


def rows(reading):
    return [row for taken in take_all(reading) for row in taken.batch.to_pylist()]


def column(reading, name):
    return [row[name] for row in rows(reading)]


def test_a_row_has_the_columns_of_sparks_kafka_source():
    found = rows(answer(batch_of(RECORDS), 7, WITH_HEADERS))
    assert found[0] == {
        "key": b"key",
        "value": b"value",
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "timestampType": 0,
        "headers": [],
    }
    assert list(found[0]) == WITH_HEADERS.schema.names
    assert [(row["key"], row["value"]) for row in found[1:]] == [
        (None, b""),
        (b"", None),
        (None,) * 2,
    ]
    assert [tuple(header.values()) for header in found[3]["headers"]] == list(RECORDS[3].headers)


@pytest.mark.parametrize("dictionary_topics", [True, False])
@pytest.mark.parametrize("time_unit", ["ms", "us"])
@pytest.mark.parametrize("headers", [True, False])
def test_every_form_keeps_to_its_schema_also_without_rows(headers, time_unit, dictionary_topics):
    form = ArrowForm(headers, dictionary_topics, time_unit)
    content = batch_of(RECORDS) + message_set([Record(21, 5, b"k", b"v")], 1)
    taken = take_all(answer(content + marker(22, 9, aborted=False), 7, form))
    assert [one.batch.num_rows for one in taken] == [4, 1]
    empty = take_all(answer(marker(0, 9, aborted=False), 0, form))
    assert [one.batch.num_rows for one in empty] == [0]
    for one in taken + empty:
        assert one.batch.schema == form.schema
        assert set(one.batch.column("topic").to_pylist()) <= {"orders"}


def test_a_time_beyond_microseconds_is_null_and_exact_in_milliseconds():
    limit = (2**63 - 1) // 1000
    times = [limit, limit + 1, 2**62, -1, 1_700_000_000_000]
    content = batch_of([Record(number, time, None, b"v") for number, time in enumerate(times)])
    (taken,) = take_all(answer(content))
    microseconds = taken.batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert microseconds == [limit * 1000, None, None, -1000, 1_700_000_000_000_000]
    (taken,) = take_all(answer(content, form=IN_MS))
    assert taken.batch.column("timestamp").cast(pa.int64()).to_pylist() == times


def test_who_set_the_time_is_told():
    content = (
        message_set([Record(0, -1, None, b"a")], 0)
        + message_set([Record(1, 5, None, b"a")], 1, timestamp_type=TimestampType.LOG_APPEND_TIME)
        + batch(2, [b"a"])
        + batch(3, [b"a"], timestamp_type=TimestampType.LOG_APPEND_TIME)
    )
    assert column(answer(content), "timestampType") == [-1, 1, 0, 1]


@pytest.mark.parametrize("codec", Codec)
def test_compressed_batches_come_between_others(codec):
    content = batch(0, [b"a", b"bb"]) + batch(2, [b"c"] * 40, codec=codec) + batch(42, [b"d"])
    assert column(answer(content), "value") == [b"a", b"bb", *[b"c"] * 40, b"d"]


def test_small_batches_become_one_record_batch():
    content = b"".join(batch(number, [b"%d" % number]) for number in range(300))
    (taken,) = take_all(answer(content))
    assert taken.batch.num_rows == 300
    assert (taken.next_offset, taken.leader_epoch) == (300, 5)


def test_a_record_batch_ends_behind_the_batch_that_reaches_the_count():
    content = b"".join(batch(first, [b"x" * 50] * 10) for first in range(0, 100, 10))
    taken = take_all(answer(content), 25)
    assert [one.batch.num_rows for one in taken] == [30, 30, 30, 10]
    assert [one.next_offset for one in taken] == [30, 60, 90, 100]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_record_batch_ends_before_the_batch_that_is_too_large(codec):
    sizes = [100, 100, 3000, 100, 100]
    content = b"".join(
        batch(offset, [b"x" * size], codec=codec) for offset, size in enumerate(sizes)
    )
    taken = take_all(answer(content), 1000, 500)
    assert [one.batch.num_rows for one in taken] == [2, 1, 2]
    assert [one.next_offset for one in taken] == [2, 3, 5]


def test_what_is_below_the_position_or_aborted_or_a_marker_is_left_out():
    content = (
        batch(0, [b"a", b"b", b"c"])
        + batch(
            3, [b"aborted"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        + marker(4, 1, aborted=True)
        + batch(5, [b"d"])
        + marker(6, 2, aborted=False)
    )
    reading = answer(content, 2, aborted=[(1, 0)])
    assert column(reading, "value") == [b"c", b"d"]
    assert reading.next_offset == 7


def test_the_position_passes_what_was_left_out_at_the_end():
    content = batch(0, [b"a"]) + marker(1, 2, aborted=False)
    (taken,) = take_all(answer(content))
    assert (taken.next_offset, taken.batch.num_rows) == (2, 1)
    first, last = take_all(answer(content), 1)
    assert (first.next_offset, first.batch.num_rows) == (1, 1)
    assert (last.next_offset, last.batch.num_rows) == (2, 0)


def damaged(base_offset):
    """A batch whose checksum is right and whose record is wrong."""
    return batch_of([Record(base_offset, 1, None, b"v" * 5)]).replace(b"\x0av", b"\x0cv")


def resealed(content):
    """The same batch with the checksum that its bytes have now."""
    return pack_batch(parse_header(content), content[61:])


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(batch(20, [b"b"])[:-1] + b"\x7f", id="checksum"),
        pytest.param(resealed(damaged(20)), id="record"),
        pytest.param(resealed(batch(20, [b"c"], codec=Codec.ZSTD)[:-4]), id="compressed stream"),
        pytest.param(message_set([Record(20, 1, None, b"v")], 1)[:-1] + b"w", id="old message"),
    ],
)
def test_good_batches_before_a_bad_one_come_first_and_the_error_stays(bad):
    content = batch(0, [b"a"] * 10) + batch(10, [b"b"] * 10) + bad + batch(30, [b"z"])
    reading = answer(content)
    taken = reading.take()
    assert taken.batch.num_rows == 20
    assert (taken.next_offset, reading.next_offset) == (20, 20)
    for _ in range(2):
        with pytest.raises(CorruptAnswer, match="orders-3 cannot be read at offset 20"):
            reading.take()


def test_headers_that_are_wrong_concern_only_who_asks_for_them():
    good = batch_of([Record(0, 1, None, b"v", (("ab", b"x"),))])
    bad = resealed(good.replace(b"\x04ab", b"\x06ab"))
    assert column(answer(bad), "value") == [b"v"]
    with pytest.raises(CorruptAnswer):
        rows(answer(bad, form=WITH_HEADERS))


def test_a_header_name_that_is_not_utf8_is_patched_up():
    good = batch_of([Record(0, 1, None, b"v", (("ab", b"x"), ("c", None)))])
    (row,) = rows(answer(resealed(good.replace(b"ab", b"\xffb")), form=WITH_HEADERS))
    assert [header["key"] for header in row["headers"]] == ["\ufffdb", "c"]


blobs = st.none() | st.binary(max_size=40) | st.just(b"x" * 33)
contents = st.lists(
    st.tuples(blobs, blobs, st.lists(st.tuples(st.text(max_size=5), blobs), max_size=2)), min_size=1
)


@settings(max_examples=40)
@given(st.lists(st.tuples(contents, st.sampled_from(Codec)), min_size=1, max_size=4))
def test_rows_are_the_records_of_any_batches(batches):
    records, content = [], b""
    for fields, codec in batches:
        made = [
            Record(len(records) + number, 1000 + number, key, value, tuple(headers))
            for number, (key, value, headers) in enumerate(fields)
        ]
        records += made
        content += batch_of(made, codec=codec)
    assert [
        (row["offset"], row["key"], row["value"], [tuple(each.values()) for each in row["headers"]])
        for row in rows(answer(content, form=WITH_HEADERS))
    ] == [(each.offset, each.key, each.value, list(each.headers)) for each in records]
