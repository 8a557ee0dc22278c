"""Which client is held against which, by what, and the bar each ratio has to clear.

A figure is named by the client and the work it did (`reading(...)`, `writing(...)`); a ratio is
ours divided by theirs within one round. What is to be so many times as fast is to be so by the rate
and by the CPU a record costs, or a client that keeps two cores busy would pass for a quick one.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.bars import Better, Measure

RATE, CPU = "records_per_s", "cpu_us"
ROUND_TRIP, IMPORT = "round trip", "import"


class Comparison(NamedTuple):
    """One row of the table."""

    measure: Measure
    ours: str
    """The key of our figure in a round."""
    theirs: str
    against: str


def writing(client: str, record_size: int, figure: str) -> str:
    """Return the key of a writer's figure."""
    return f"{client} writing {record_size} B: {figure}"


def reading(client: str, figure: str) -> str:
    """Return the key of a reader's figure."""
    return f"{client} reading: {figure}"


def once(client: str, work: str) -> str:
    """Return the key of a client's round trip or import."""
    return f"{client}: {work}"


def _so_many_times(
    work: str, title: str, against: str, bar: float, ours: str, theirs: str
) -> tuple[Comparison, Comparison]:
    """Compare by rate and by CPU; the keys lack their last word."""
    rate = Measure(work, RATE, title, "records/s", Better.MORE, bar)
    cost = Measure(work, CPU, f"{title}: CPU", "us/record", Better.LESS, 1 / bar)
    return (
        Comparison(rate, ours + RATE, theirs + RATE, against),
        Comparison(cost, ours + CPU, theirs + CPU, against),
    )


def _written(size: int, face: str, ours: str, theirs: str, bar: float) -> tuple[Comparison, ...]:
    title = f"{face}, {size} B, acks=all"
    keys = writing(ours, size, ""), writing(theirs, size, "")
    return _so_many_times("produce", title, theirs, bar, *keys)


def _read(title: str, ours: str, theirs: str, bar: float) -> tuple[Comparison, ...]:
    return _so_many_times("consume", title, theirs, bar, reading(ours, ""), reading(theirs, ""))


def _once(work: str, name: str, title: str, unit: str, bar: float) -> Comparison:
    measure = Measure(work, name, title, unit, Better.LESS, bar)
    return Comparison(measure, once("moldau", name), once("aiokafka", name), "aiokafka")


COMPARISONS: tuple[Comparison, ...] = (
    *_written(100, "AsyncProducer", "moldau-async", "aiokafka", 2.5),
    *_written(100, "AsyncProducer with gather", "moldau-gather", "aiokafka-gather", 2.5),
    *_written(100, "Producer", "moldau-blocking", "kafka-python", 4.0),
    *_written(100, "Producer", "moldau-blocking", "confluent-kafka", 1.0),
    *_written(100, "Producer with large batches", "moldau-large", "confluent-large", 1.0),
    *_written(1000, "AsyncProducer", "moldau-async", "aiokafka", 2.5),
    *_written(1000, "AsyncProducer with gather", "moldau-gather", "aiokafka-gather", 2.5),
    *_read("AsyncConsumer, 100 B, one by one", "moldau-async", "aiokafka", 1.0),
    *_read("Consumer, 100 B, one by one", "moldau-blocking", "kafka-python", 4.0),
    *_read("Consumer, 100 B, one by one", "moldau-blocking", "confluent-kafka", 0.9),
    *_read("Consumer.batches, 100 B", "moldau-batches", "confluent-kafka", 1.0),
    *_read("Consumer, 100 B, in columns", "moldau-columns", "confluent-kafka", 3.0),
    _once("round_trip", ROUND_TRIP, "one request and its answer, p50", "us", 0.7),
    _once("importing", IMPORT, "importing producer and consumer: CPU", "ms", 1.0),
)
