"""Writing as rows come: at least once, as Spark's own Kafka sink does it.

A task is done when every row of it is acknowledged. One that fails, or is run twice, leaves what it
wrote: who reads may see rows again, and rows of a query that failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.base.clock import SystemClock, system_random
from moldau.spark.sink.held import producer_for
from moldau.spark.sink.options import SinkOptions
from moldau.spark.sink.rows import RowEncoder, RowFormat


def write_plain(options: SinkOptions, arriving: Iterable[Any]) -> int:
    """Write the rows of one task, given as `pyarrow.RecordBatch`es; return how many there were."""
    with producer_for(options) as producer:
        form = RowFormat.of(producer.settings, options.topic)
        encoder = RowEncoder(form, producer, SystemClock(), system_random())
        for topic, partition, batch in encoder.batches(arriving):
            producer.send_batch(topic, partition, *batch)
        if encoder.row_count:
            producer.flush_batches()
    return encoder.row_count
