"""Every record can become a letter, whatever time it has."""

from __future__ import annotations

import pyarrow as pa
import pytest

from moldau.spark.sink.columns import timestamps_ms
from moldau.spark.source.columns import arrow_form
from moldau.spark.source.dead_letters import letters

NOW_MS = 1_700_000_000_000
YEAR_10000_MS = 253_402_300_800_000
TIME = "moldau-origin-timestamp-ms"


def batch(time_ms, headers=()):
    """Return a record batch with one record; its time is null if it is beyond Spark's."""
    row = {
        "key": b"k", "value": b"v", "topic": "t", "partition": 1, "offset": 5,
        "timestamp": None if time_ms is None else time_ms * 1000, "timestampType": 0,
        "headers": [{"key": key, "value": value} for key, value in headers],
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([row], arrow_form(include_headers=True).schema)


@pytest.mark.parametrize(
    ("time_ms", "written_ms", "told"),
    [
        (1_600_000_000_123, 1_600_000_000_123, b"1600000000123"),
        (YEAR_10000_MS, YEAR_10000_MS, b"253402300800000"),
        (-1, NOW_MS, b"-1"),
        (-5000, NOW_MS, b"-5000"),
        (None, NOW_MS, None),
    ],
)
def test_a_letter_keeps_its_time_if_that_can_be_written(time_ms, written_ms, told):
    found = letters(batch(time_ms, [("h", None), (TIME, b"other")]), {0: "bad"})

    assert timestamps_ms(found.column("timestamp"), NOW_MS).tolist() == [written_ms]
    headers = [(one["key"], one["value"]) for one in found.column("headers")[0].as_py()]
    assert headers == [
        ("h", None),
        ("moldau-origin-topic", b"t"),
        ("moldau-origin-partition", b"1"),
        ("moldau-origin-offset", b"5"),
        *([] if told is None else [(TIME, told)]),
        ("moldau-error-text", b"bad"),
    ]
