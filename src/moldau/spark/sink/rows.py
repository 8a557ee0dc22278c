"""From what Spark hands to a task to batches with their destinations.

Pure, but for what it asks about topics. Spark hands out ten thousand rows at a time, few where rows
are few; they are gathered until it is worth a round of array operations, and cut where they are so
large that the copies they need would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from moldau.base.clock import Clock, Random
from moldau.base.errors import UserError
from moldau.client.producer_settings import ProducerSettings
from moldau.records.batch import HEADER_SIZE
from moldau.records.compression import Codec
from moldau.spark.sink.columns import Strings, timestamps_ms
from moldau.spark.sink.encoding import EncodedBatch, Headers, Rows, encode
from moldau.spark.sink.routing import Router, Topics, topics_of

GATHERED_ROWS: Final = 32_768
"""A round of array operations costs about a millisecond however few rows there are; with so many,
that is little beside the rows themselves."""
GATHERED_SIZE: Final = 8 * 1024 * 1024
"""What the copies that a round makes stay near to."""


class RowFormat(NamedTuple):
    """How batches are made."""

    topic: str | None
    batch_size: int
    request_size_max: int
    codec: Codec
    level: int | None
    hashes_keys: bool

    @classmethod
    def of(cls, settings: ProducerSettings, topic: str | None) -> RowFormat:
        """Return how batches have to be made for a producer with these settings."""
        return cls(
            topic,
            min(settings.batch_size, settings.max_request_size),
            settings.max_request_size,
            settings.codec,
            settings.level,
            hashes_keys=not settings.partitioner_ignore_keys,
        )


class Outgoing(NamedTuple):
    """A batch and where it goes."""

    topic: str
    partition: int
    batch: EncodedBatch


class RowEncoder:
    """Makes batches of the rows of one task."""

    def __init__(self, form: RowFormat, topics: Topics, clock: Clock, random: Random) -> None:
        self._form = form
        self._clock = clock
        self._router = Router(topics, random, hashes_keys=form.hashes_keys)
        self.row_count = 0

    def batches(self, arriving: Iterable[Any]) -> Iterator[Outgoing]:
        """Make batches of all rows that arrive, as `pyarrow.RecordBatch`es."""
        for gathered in gather(arriving):
            yield from self._encoded(gathered)
            self.row_count += gathered.num_rows

    def _encoded(self, table: Any) -> Iterator[Outgoing]:
        form = self._form
        rows = self._rows(table)
        bounds = rows.size_bounds()
        most = int(bounds.max()) + HEADER_SIZE
        if most > form.request_size_max:
            raise UserError(
                f"a row of {most} bytes is larger than kafka.max.request.size="
                f"{form.request_size_max}: raise it, and max.message.bytes of the topic"
            )
        names, which = topics_of(_column(table, "topic"), form.topic, table.num_rows)
        given = _column(table, "partition")
        ways = self._router.routed(names, which, given, rows.keys, bounds)
        for way, batch in encode(rows, ways, form.batch_size, form.codec, form.level):
            yield Outgoing(*self._router.destination(way), batch)

    def _rows(self, table: Any) -> Rows:
        keys, headers, times = (_column(table, name) for name in ("key", "headers", "timestamp"))
        now_ms = self._clock.wall_ms()
        return Rows(
            keys=None if keys is None else Strings.of(keys),
            values=Strings.of(table.column("value")),
            headers=None if headers is None else Headers.of(headers),
            timestamps=(
                np.full(table.num_rows, now_ms, np.int64)
                if times is None
                else timestamps_ms(times, now_ms)
            ),
        )


def gather(arriving: Iterable[Any]) -> Iterator[Any]:
    """Put small batches of rows together and cut large ones apart; empty ones are left out."""
    waiting: list[Any] = []
    count = size = 0
    for batch in arriving:
        for part in _cut(batch):
            if waiting and (
                count + part.num_rows > GATHERED_ROWS or size + part.nbytes > GATHERED_SIZE
            ):
                yield _combined(waiting)
                waiting, count, size = [], 0, 0
            waiting.append(part)
            count += part.num_rows
            size += part.nbytes
    if waiting:
        yield _combined(waiting)


def _cut(batch: Any) -> Iterator[Any]:
    """Cut a batch of rows into parts of about the size that is gathered."""
    if not batch.num_rows:
        return
    part_count = -(-batch.nbytes // GATHERED_SIZE)
    row_count = max(1, -(-batch.num_rows // max(1, part_count)))
    for start in range(0, batch.num_rows, row_count):
        yield batch.slice(start, row_count)


def _combined(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    (combined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return combined


def _column(table: Any, name: str) -> Any:
    """Return a column, None if there is none or nothing is in it."""
    place = table.schema.get_field_index(name)
    if place < 0:
        return None
    column = table.column(place)
    return None if column.null_count == len(column) and name != "topic" else column
