"""How long records have been waiting, at the edges of their times."""

from __future__ import annotations

import pyarrow as pa
import pytest

from moldau.client.records import TopicPartition
from moldau.spark import lag
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.tasks import RangePartition

OPTIONS = SourceOptions.for_stream({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})


@pytest.mark.parametrize("time_us", [253_402_300_800_000_000, None], ids=["year 10000", "too far"])
def test_a_record_of_a_time_beyond_all_calendars_is_not_late(monkeypatch, time_us):
    times = pa.array([time_us], pa.timestamp("us", "UTC"))
    read = pa.record_batch({"timestamp": times})
    monkeypatch.setattr(lag, "read_range", lambda *_: iter([read]))

    assert lag._waiting_ms(OPTIONS, RangePartition(TopicPartition("t", 0), "", 0, 1)) == 0
