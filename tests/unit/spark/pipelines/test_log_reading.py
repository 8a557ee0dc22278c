"""Arrow batches of records become batches of rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from moldau.spark.pipelines.logs.parsing import DEAD_SIZE_MAX, Rules
from moldau.spark.pipelines.logs.reading import Records, header, lines_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MOMENT = pa.timestamp("us", "UTC")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
RULES = Rules(UTC, 600_000_000, 1 << 20)


def read(*rows, sizes=None):
    """Read records of (value, headers)."""
    values, headers = zip(*rows, strict=True) if rows else ((), ())
    now_us = int(NOON.timestamp() * 1e6) + 1_000_000
    records = Records(
        pa.array(values, pa.binary()),
        pa.array(sizes or [len(value or b"") for value in values], pa.int64()),
        pa.array(headers, HEADERS),
        pa.array([NOON] * len(rows), MOMENT),
        pa.array([now_us] * len(rows), pa.int64()),
    )
    return lines_of(records, RULES).to_pylist()


def test_each_record_becomes_a_row_or_a_dead_letter():
    told = [{"key": "host", "value": b"web-1"}, {"key": "path", "value": b"/var/log/shop.log"}]
    long = b"x" * (RULES.line_size_max + 1)
    good, bad, none, too_long, plain = read(
        (b'{"level":"error","msg":"no plums","user":"u-7"}', told),
        (b"\xff", told),
        (None, None),
        (long, []),
        (b"plain", []),
    )
    assert (good["host"], good["service"], good["path"]) == ("web-1", "shop", "/var/log/shop.log")
    assert (good["level"], good["message"], good["fields"]) == (
        "ERROR", "no plums", [("user", "u-7")],
    )  # fmt: skip
    assert (good["time"], good["reason"], good["value"], good["size"]) == (NOON, None, None, 47)
    assert (bad["value"], bad["reason"]) == (b"\xff", "not UTF-8: invalid start byte at byte 0")
    assert (none["value"], none["reason"], none["size"]) == (None, "no value", 0)
    assert (len(too_long["value"]), too_long["size"]) == (DEAD_SIZE_MAX, len(long))
    assert (plain["format"], plain["host"], plain["service"]) == ("plain", None, None)


def test_a_record_that_was_cut_is_a_dead_letter_whatever_its_beginning_looks_like():
    (cut,) = read((b'{"msg":"no plums"}', None), sizes=[100_000_000])
    assert cut["reason"] == "100000000 bytes, more than a line of 1048576"
    assert (cut["value"], cut["message"]) == (b'{"msg":"no plums"}', "")


def test_the_last_header_of_a_name_counts_and_slices_are_read_in_their_place():
    lists = pa.array(
        [
            [{"key": "a", "value": b"0"}],
            None,
            [{"key": "a", "value": b"1"}, {"key": "b", "value": b"x"}, {"key": "a", "value": b"2"}],
            [],
            [{"key": "b", "value": b"caf\xe9"}, {"key": "a", "value": None}],
        ],
        HEADERS,
    )
    assert header(lists, "a").to_pylist() == ["0", None, "2", None, None]
    assert header(lists[1:], "a").to_pylist() == [None, "2", None, None]
    assert header(lists, "b").to_pylist() == [None, None, "x", None, "caf\ufffd"]


def test_an_empty_batch_is_an_empty_batch():
    assert read() == []
