"""What is done by each side, so that the two can be compared.

A query that reads takes every column of every row: its rows go to Spark's `noop` sink, for which
both connectors have to make them whole. A query that writes makes its rows from numbers, the same
ones at the same cost on both sides, and writes them to a topic made for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from bench.spark import topics
from bench.spark.scale import Scale
from bench.spark.variants import NO_PREFETCH, NOT_COALESCED, ROWS_1K, ROWS_10K, register_variants

OFFICIAL = "kafka"
OURS = "moldau"
"""The formats of the two connectors, and the names of their sides."""
FETCH_1MB = "moldau-1mb"
FETCH_8MB = "moldau-8mb"
AT_LEAST_ONCE = "at least once"
EXACTLY_ONCE = "exactly once"

Action = Callable[[], None]
Side = Callable[[], AbstractContextManager[Action]]
"""Makes ready what is not timed, gives what is, and cleans up behind it."""

_KEY = "lpad(cast(id as string), 10, '0')"
_VALUE = f"concat({_KEY}, repeat('v', 90))"


@dataclass(frozen=True, slots=True)
class Arena:
    """Where contests take place."""

    session: SparkSession
    address: str
    scale: Scale
    directory: Path


@dataclass(frozen=True, slots=True)
class Contest:
    """Sides that do the same work; the first one is what the others are compared with."""

    rows: int
    sides: Mapping[str, Side]


# Reading


def _read(arena: Arena, topic: str, format_: str, **options: str) -> Side:
    reader = _source(arena.session.read, arena, format_).options(**options)

    @contextmanager
    def side() -> Iterator[Action]:
        yield lambda: _take_all(reader.option("subscribe", topic).load())

    return side


def _source(reader: Any, arena: Arena, format_: str) -> Any:
    return reader.format(format_).option("kafka.bootstrap.servers", arena.address)


def _take_all(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _reads(arena: Arena, content: topics.Content, *formats: str) -> Contest:
    topic = topics.topic_with(arena.address, content)
    sides = {format_: _read(arena, topic, format_) for format_ in formats}
    return Contest(content.rows, sides)


def read_small(arena: Arena) -> Contest:
    """Read records of 100 bytes."""
    return _reads(arena, topics.Content(arena.scale.small_rows, 100), OFFICIAL, OURS)


def read_large(arena: Arena) -> Contest:
    """Read records of 1 KB."""
    content = topics.Content(arena.scale.large_rows, 1_000)
    contest = _reads(arena, content, OFFICIAL, OURS)
    return Contest(content.rows, {**contest.sides, FETCH_8MB: _fetching(arena, content, 8)})


def _fetching(arena: Arena, content: topics.Content, mebibytes: int) -> Side:
    """Read with fetches of another size."""
    topic = topics.topic_with(arena.address, content)
    size = str(mebibytes * 1024 * 1024)
    return _read(arena, topic, OURS, **{"kafka.max.partition.fetch.bytes": size})


def read_uneven(arena: Arena) -> Contest:
    """Read records of 50 to 150 bytes: no two in a row are alike."""
    content = topics.Content(arena.scale.small_rows, 100, spread=50)
    return _reads(arena, content, OFFICIAL, OURS)


def read_small_batches(arena: Arena) -> Contest:
    """Read records of 100 bytes in batches of the size that Java's producer makes.

    Such batches can be taken together in any number, so here Arrow batches may be small too.
    """
    content = topics.Content(arena.scale.small_rows, 100, batch_size=topics.JAVA_BATCH_SIZE)
    register_variants(arena.session)
    return _reads(arena, content, OFFICIAL, OURS, NOT_COALESCED, ROWS_1K, ROWS_10K)


def read_variants(arena: Arena) -> Contest:
    """Read records of 100 bytes without something that the source does."""
    register_variants(arena.session)
    content = topics.Content(arena.scale.small_rows, 100)
    contest = _reads(arena, content, OURS, NO_PREFETCH)
    fetches = {FETCH_1MB: _fetching(arena, content, 1), FETCH_8MB: _fetching(arena, content, 8)}
    return Contest(content.rows, {**contest.sides, **fetches})


def stream_small(arena: Arena) -> Contest:
    """Have a stream read all there is, from an empty checkpoint."""
    content = topics.Content(arena.scale.small_rows, 100)
    topic = topics.topic_with(arena.address, content)
    numbers = itertools.count()

    def side_of(format_: str) -> Side:
        reader = _source(arena.session.readStream, arena, format_)
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()

        @contextmanager
        def side() -> Iterator[Action]:
            checkpoint = arena.directory / "checkpoints" / str(next(numbers))
            yield lambda: _run_to_the_end(frame, checkpoint)

        return side

    return Contest(content.rows, {each: side_of(each) for each in (OFFICIAL, OURS)})


def _run_to_the_end(frame: DataFrame, checkpoint: Path) -> None:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


# Writing


_written: Final = itertools.count()
"""Numbers the topics written to: a producer that is kept may bring one back after it is deleted."""


def _write(arena: Arena, rows: int, format_: str, **options: str) -> Side:
    @contextmanager
    def side() -> Iterator[Action]:
        topic = topics.empty(arena.address, f"written-{next(_written)}")
        frame = arena.session.range(rows).selectExpr(f"{_KEY} AS key", f"{_VALUE} AS value")
        writer = frame.write.format(format_).mode("append").options(**options)
        writer = writer.option("kafka.bootstrap.servers", arena.address).option("topic", topic)
        yield writer.save
        topics.check_count(arena.address, topic, rows)
        topics.deleted(arena.address, topic)

    return side


def write_small(arena: Arena) -> Contest:
    """Write records of 100 bytes with keys, at least once."""
    rows = arena.scale.written_rows
    return Contest(rows, {each: _write(arena, rows, each) for each in (OFFICIAL, OURS)})


def write_once(arena: Arena) -> Contest:
    """Write records of 100 bytes with keys in one transaction, and without."""
    rows = arena.scale.once_rows
    once = _write(arena, rows, OURS, **{"exactly.once": "true"})
    return Contest(rows, {AT_LEAST_ONCE: _write(arena, rows, OURS), EXACTLY_ONCE: once})
