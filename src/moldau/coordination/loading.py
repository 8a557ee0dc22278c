"""Bringing a shard up to its log: everything in the partition replayed, from its start to its end.

The loop is never held for long: bytes are read by the port, off the loop, and records replayed in
slices with other work in between. Whatever is appended meanwhile (transaction markers; a shard that
loads appends nothing itself) is read too, because the end is looked at anew before each read and
nothing can come between the last look and the return.

A compacted log has gaps; batches of any format and codec may stand in it. Records that this
release does not know are passed over, with a line for each of the first. What cannot be read at all
ends the load.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from moldau.base.checks import crash_point
from moldau.base.errors import CorruptRecords
from moldau.coordination.internal_log import InternalLog
from moldau.coordination.outcome import ProducerIdentity, Shard, StateRecord, UnknownRecord
from moldau.records.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    PEEK_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_ok,
    iter_batches,
    parse_header,
)
from moldau.records.control import end_transaction_marker
from moldau.records.legacy import read_message, unwrapped
from moldau.records.record import Record, iter_records, payload_of

logger = logging.getLogger(__name__)

MAGIC_POSITION: Final = PEEK_SIZE - 1

RECORDS_PER_SLICE: Final = 256
"""Records, or batches without any, between two turns of the loop.

Less than a millisecond for offsets, two or three for a shard that takes some ten microseconds."""

LINES_PER_LOAD: Final = 20
"""Records passed over that get a line each; a topic of a newer release may be full of them."""

Run = tuple[Sequence[Record], ProducerIdentity | None]
"""Records that follow one another, and their transaction; none for a batch that brought none."""


class Loader:
    """One shard's way up to its log."""

    def __init__(self, log: InternalLog, shard: Shard, name: str) -> None:
        self._log = log
        self._shard = shard
        self._name = name
        self._offset = log.log_start_offset
        self.record_count = 0
        """Records replayed so far."""
        self.passed_over_count = 0
        """Records that nothing could be made of."""

    async def run(self, max_bytes: int) -> None:
        """Replay the whole log, reading at most this much at once (or one batch).

        Raises what the port raises, CorruptRecords, or what the shard raised. Cancelling it leaves
        a shard that is good for nothing.
        """
        with _collector_off():
            await self._run(max_bytes)

    async def _run(self, max_bytes: int) -> None:
        while self._offset < self._log.log_end_offset:
            crash_point("coordinator.load.before_read")
            data = await self._log.read(self._offset, max_bytes)
            if not data:
                break
            await self._replay(data)
        crash_point("coordinator.load.after_replay")
        if self.passed_over_count > LINES_PER_LOAD:
            logger.warning("%s: %d records were passed over", self._name, self.passed_over_count)

    async def _replay(self, data: bytes) -> None:
        """Replay what was read, up to the last whole batch, and go on behind it."""
        begun = self._offset
        count = 0
        for records, producer in self._runs(data):
            self._take(records, producer)
            count += len(records) or 1
            if count >= RECORDS_PER_SLICE:
                count = 0
                await asyncio.sleep(0)
        if self._offset == begun:
            raise CorruptRecords(f"there is no whole batch at offset {begun}")

    def _take(self, records: Sequence[Record], producer: ProducerIdentity | None) -> None:
        """Replay records. Everything else is done for many at a time, this loop for each."""
        replay, make = self._shard.replay, tuple.__new__
        for offset, _, key, value, _ in records:
            if key is None:
                self._passed_over(offset, "it has no key")
                continue
            try:
                replay(make(StateRecord, (key, value)), producer)
            except UnknownRecord as error:
                self._passed_over(offset, str(error))
            self.record_count += 1

    def _runs(self, data: bytes) -> Iterator[Run]:
        """Walk the batches, in runs that fit into a slice; markers are taken on the way.

        A log of single commits is a batch for each record, so this loop does by hand what
        `iter_batches` does for others.
        """
        position = 0
        while (header := _batch_at(data, position)) is not None:
            end = position + LENGTH_END + header.length
            if header.attributes & CONTROL_BIT:
                self._take_marker(header, data[position:end])
                yield (), None
            elif not header.count:
                yield (), None
            else:
                producer = None
                if header.attributes & TRANSACTIONAL_BIT:
                    producer = ProducerIdentity(header.producer_id, header.producer_epoch)
                if header.attributes & CODEC_BITS:
                    payload = payload_of(header, data, position)
                else:
                    payload = data[position + HEADER_SIZE : end]
                for run in _cut(iter_records(header, payload)):
                    yield run, producer
            position = end
            self._offset = header.base_offset + header.last_offset_delta + 1
        yield from self._old_runs(data[position:])

    def _old_runs(self, data: bytes) -> Iterator[Run]:
        """Walk messages of magic 0 and 1, as Kafka wrote them before 0.11.

        What follows them in another format is read again, from its own offset on.
        """
        for span in iter_batches(data, allow_cut=True):
            if span.magic == MAGIC:
                return
            for run in _cut(unwrapped(read_message(data, span))):
                yield run, None
            self._offset = span.base_offset + 1

    def _passed_over(self, offset: int, why: str) -> None:
        self.passed_over_count += 1
        if self.passed_over_count <= LINES_PER_LOAD:
            logger.warning("%s: the record at %d is passed over: %s", self._name, offset, why)

    def _take_marker(self, header: BatchHeader, batch: bytes) -> None:
        marker = end_transaction_marker(batch)
        if marker is not None:
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
            self._shard.transaction_ended(producer, committed=not marker.aborted)


def _cut(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Read records in runs of one slice at most: a batch may have any number of them."""
    left = iter(records)
    while run := list(islice(left, RECORDS_PER_SLICE)):
        yield run


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep Python's collector of cycles out of a load.

    What is loaded stays, and none of it is a cycle; but it is so much that the collector would look
    through all of it several times, for tens of milliseconds each, and find nothing. Of two loads
    at once the first that ends turns it on again, which does no harm.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _batch_at(data: bytes, position: int) -> BatchHeader | None:
    """Read the header of a whole and sound batch; None if what is there is cut, or older."""
    left = len(data) - position
    if left < HEADER_SIZE or data[position + MAGIC_POSITION] != MAGIC:
        return None
    header = parse_header(data, position)
    size = LENGTH_END + header.length
    if size > left:
        return None
    if not crc_ok(data, position, size):
        raise CorruptRecords(f"the batch at offset {header.base_offset} is damaged")
    return header
