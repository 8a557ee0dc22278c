"""How a task turns answers into record batches, and what it does not load for that."""

from __future__ import annotations

import subprocess
import sys

from moldau.client.records import TopicPartition
from moldau.engine.fetched_batches import split
from moldau.records.builder import BatchBuilder
from moldau.spark.source.fetching import Answer
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.tasks import USUAL_PACE, Pace, RangePartition, _decoded

OPTIONS = SourceOptions.for_batch({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})


def answer(*counts):
    """Return what a fetch brings of batches with so many records each, from offset 0 on."""
    content, first = b"", 0
    for count in counts:
        builder = BatchBuilder()
        for number in range(first, first + count):
            builder.append(1_700_000_000_000, b"key", b"value %d" % number)
        content += first.to_bytes(8, "big") + builder.seal()[1][8:]
        first += count
    view = memoryview(content)
    return Answer(view, split(view, 0).spans, 0, ())


def offsets(told, end, pace=USUAL_PACE):
    wanted = RangePartition(TopicPartition("t", 0), "", 0, end)
    return [batch.column("offset").to_pylist() for batch in _decoded(told, OPTIONS, wanted, pace)]


def test_a_batch_that_goes_beyond_the_range_is_cut_where_the_range_ends():
    assert offsets(answer(4, 4), 6) == [[0, 1, 2, 3, 4, 5]]
    assert offsets(answer(4, 4), 8) == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_batches_that_begin_beyond_the_range_make_no_record_batch():
    assert offsets(answer(4, 4), 4, Pace(rows=1)) == [[0, 1, 2, 3]]


def test_small_batches_are_put_together_up_to_the_rows_of_a_record_batch():
    assert offsets(answer(2, 2, 2, 2), 8, Pace(rows=4)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert offsets(answer(2, 2, 2, 2), 8, Pace(rows=1)) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_query_that_takes_values_as_bytes_loads_nothing_that_reads_them():
    # Every start of a stream imports the source in a process of its own.
    loaded = "import moldau.spark.source.stream, sys; print(sorted(sys.modules))"
    told = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    ).stdout

    assert "moldau.spark.source.tasks" in told
    for heavy in ("pyarrow.compute", "moldau.spark.source.payloads", "moldau.spark.sink.encoding"):
        assert f"'{heavy}'" not in told
