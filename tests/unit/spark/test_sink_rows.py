"""Rows are gathered and cut so that none is lost, and encoded with all their columns."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from moldau.base.errors import UserError
from moldau.records.batch import pack_batch
from moldau.records.compression import Codec
from moldau.records.record import read_records
from moldau.spark.sink import rows
from moldau.spark.sink.rows import RowEncoder, RowFormat, gather

NOW_MS = 1_700_000_000_000
FORM = RowFormat("t", 16_384, 1 << 20, Codec.NONE, None, hashes_keys=True)


class Clock:
    """Stands still."""

    @staticmethod
    def monotonic():
        return 0.0

    @staticmethod
    def wall_ms():
        return NOW_MS


class Topics:
    """Every topic has three partitions."""

    @staticmethod
    def partition_count(topic):
        return 3

    @staticmethod
    def available_partitions(topic):
        return range(3)

    @staticmethod
    def look_again(topic):
        return 3


def encoded(arriving, form=FORM):
    encoder = RowEncoder(form, Topics(), Clock(), random.Random(1))
    return [
        (out.topic, out.partition, record)
        for out in encoder.batches(arriving)
        for record in read_records(pack_batch(out.batch.header, out.batch.records))
    ], encoder.row_count


def numbered(start, count):
    return pa.record_batch({"value": [b"%d" % number for number in range(start, start + count)]})


@pytest.mark.parametrize("sizes", [[1] * 10, [5, 0, 7], [100], [30, 1, 30, 1], [0], []])
def test_gathering_keeps_all_rows_in_order(monkeypatch, sizes):
    monkeypatch.setattr(rows, "GATHERED_ROWS", 10)
    monkeypatch.setattr(rows, "GATHERED_SIZE", 200)
    arriving, start = [], 0
    for size in sizes:
        arriving.append(numbered(start, size))
        start += size
    gathered = list(gather(arriving))
    values = [value for batch in gathered for value in batch.column("value").to_pylist()]
    assert values == [b"%d" % number for number in range(start)]
    assert all(batch.num_rows for batch in gathered)


def test_small_arrivals_are_put_together():
    assert [batch.num_rows for batch in gather([numbered(0, 5)] * 6)] == [30]


def test_large_arrivals_are_cut():
    large = pa.record_batch({"value": [b"x" * (1 << 20)] * 40})
    gathered = list(gather([large]))
    assert sum(batch.num_rows for batch in gathered) == 40
    assert max(batch.nbytes for batch in gathered) <= 2 * rows.GATHERED_SIZE


def test_every_column_arrives():
    table = pa.record_batch(
        {
            "key": pa.array(["k"]),
            "value": pa.array(["v"]),
            "topic": pa.array(["other"]),
            "partition": pa.array([2], pa.int32()),
            "timestamp": pa.array([1_234_000], pa.timestamp("us", "UTC")),
            "headers": pa.array(
                [[{"key": "h", "value": b"x"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "offset": pa.array([99]),
        }
    )
    found, count = encoded([table], FORM._replace(topic=None))
    ((topic, partition, record),) = found
    assert (topic, partition, count) == ("other", 2, 1)
    assert record == (0, 1234, b"k", b"v", (("h", b"x"),))


def test_columns_that_are_null_throughout_are_as_if_they_were_not_there():
    table = pa.record_batch(
        {
            "value": pa.array([None, None], pa.null()),
            "key": pa.array([None, None], pa.null()),
            "headers": pa.array([None, None], pa.null()),
            "partition": pa.array([None, None], pa.null()),
            "timestamp": pa.array([None, None], pa.timestamp("us", "UTC")),
        }
    )
    found, _ = encoded([table])
    assert [(record.timestamp, record.key, record.value) for *_, record in found] == [
        (NOW_MS, None, None)
    ] * 2


def test_the_option_comes_before_the_column_topic():
    table = pa.record_batch({"value": [b"v"], "topic": ["ignored"]})
    assert encoded([table])[0][0][0] == "t"


def test_a_row_that_no_request_can_hold_is_refused():
    table = pa.record_batch({"value": [b"v" * (1 << 20)]})
    with pytest.raises(UserError, match=r"larger than kafka\.max\.request\.size=1048576"):
        encoded([table])


def test_rows_of_many_arrivals_are_all_encoded():
    found, count = encoded([numbered(start, 1000) for start in range(0, 50_000, 1000)])
    assert count == 50_000
    assert Counter(record.value for *_, record in found) == Counter(
        b"%d" % number for number in range(50_000)
    )
