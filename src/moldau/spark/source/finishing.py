"""The last step of a task before Spark gets a record batch, if it wants values read.

What is too large is cut before that, and is hardly good any more. What is bad stands in a column,
or goes to a topic and is no row.
"""

from __future__ import annotations

from moldau.engine.arrow_batches import RecordBatch
from moldau.spark.source.cutting import cut
from moldau.spark.source.dead_letters import send_letters
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.payloads import VALUE, parse_values, with_corrupt, without_bad


def finished(batch: RecordBatch, options: SourceOptions) -> RecordBatch:
    """Return a record batch as Spark is to have it; it may be without rows."""
    values = options.values
    batch = cut(batch, options)
    parsed = parse_values(batch.column(VALUE), values)
    if values.dead_letter_topic is None:
        return with_corrupt(batch, parsed)
    if parsed.reasons:
        send_letters(batch, parsed.reasons, values.dead_letter_topic, options.connection)
    good = without_bad(batch, parsed)
    return good if options.include_headers else good.drop_columns(["headers"])
