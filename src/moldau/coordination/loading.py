"""Bringing a shard up to its log: everything in the partition replayed, from its start to its end.

The loop is never held for long: bytes are read by the port, off the loop, and records replayed in
slices with other work in between. Whatever is appended meanwhile (transaction markers; a shard that
loads appends nothing itself) is read too, because the end is looked at anew before each read and
nothing can come between the last look and the return.

A compacted log has gaps; batches of any format and codec may stand in it. Whatever bytes lie in the
partition, its shard is loaded: records and batches that nobody can read are skipped (`skipping`),
and all that is whole before and behind them counts. Only a disk that does not answer ends a load.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from moldau.base.checks import crash_point
from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.coordination.bugs import BugLog
from moldau.coordination.internal_log import InternalLog
from moldau.coordination.outcome import ProducerIdentity, Shard, StateRecord, UnknownRecord
from moldau.coordination.skipping import Skipped
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

MAGIC_POSITION: Final = PEEK_SIZE - 1

RECORDS_PER_SLICE: Final = 256
"""Records, or batches without any, between two turns of the loop.

Less than a millisecond for offsets, two or three for a shard that takes some ten microseconds."""

Run = tuple[Sequence[Record], ProducerIdentity | None]
"""Records that follow one another, and their transaction; none for a batch that brought none."""


class Loader:
    """One shard's way up to its log."""

    def __init__(self, log: InternalLog, shard: Shard, name: str, bugs: BugLog) -> None:
        self._log = log
        self._shard = shard
        self._name = name
        self._bugs = bugs
        self._offset = log.log_start_offset
        self._damaged_at = -1
        """The last damaged batch, which may be read twice."""
        self._skipped = Skipped(name)
        self.record_count = 0
        """Records replayed so far."""

    @property
    def skipped_count(self) -> int:
        """Records that nothing could be made of."""
        return self._skipped.count

    async def run(self, max_bytes: int) -> None:
        """Replay the whole log, reading at most this much at once (or one batch).

        Raises ApiError or StorageError if the port does. Cancelling it leaves a shard that is good
        for nothing.
        """
        with _collector_off():
            await self._run(max_bytes)
        self._skipped.summarize()

    async def _run(self, max_bytes: int) -> None:
        while self._offset < self._log.log_end_offset:
            crash_point("coordinator.load.before_read")
            begun = self._offset
            try:
                data = await self._log.read(begun, max_bytes)
                if not data:
                    break
                await self._replay(data)
            except CorruptRecords as error:
                self._leap(begun, str(error))
        crash_point("coordinator.load.after_replay")

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
            raise CorruptRecords("there is no whole batch")

    def _leap(self, begun: int, why: str) -> None:
        """Go on at the next segment: behind a broken batch none can be found in this one.

        What was read before the broken batch counts as read.
        """
        resumed = self._log.next_start(max(begun, self._offset))
        self._skipped.stretch(self._offset, resumed, why)
        self._offset = resumed

    def _take(self, records: Sequence[Record], producer: ProducerIdentity | None) -> None:
        """Replay records. Everything else is done for many at a time, this loop for each."""
        replay, make = self._shard.replay, tuple.__new__
        for offset, _, key, value, _ in records:
            if key is None:
                self._skipped.record(offset, "it has no key")
                continue
            try:
                replay(make(StateRecord, (key, value)), producer)
            except (UnknownRecord, ProtocolError) as error:
                self._skipped.record(offset, str(error))
            except Exception as error:  # noqa: BLE001 - no record keeps the others from loading
                self._bugs.note(f"{self._name} at offset {offset}", error)
                self._skipped.record(offset, repr(error))
            else:
                self.record_count += 1

    def _runs(self, data: bytes) -> Iterator[Run]:
        """Walk the batches, in runs that fit into a slice; markers are taken on the way.

        A log of single commits is a batch for each record, so this loop does by hand what
        `iter_batches` does for others. CorruptRecords where no further batch can be found.
        """
        position = 0
        while (header := _batch_at(data, position)) is not None:
            end = position + LENGTH_END + header.length
            if not crc_ok(data, position, end - position):
                self._pass_damaged(header)
                yield (), None
                position = end
                continue
            if header.attributes & CONTROL_BIT:
                self._take_marker(header, data[position:end])
                yield (), None
            elif not header.count:
                yield (), None
            else:
                producer = None
                if header.attributes & TRANSACTIONAL_BIT:
                    producer = ProducerIdentity(header.producer_id, header.producer_epoch)
                for run in self._runs_of(header, data, position):
                    yield run, producer
            position = end
            self._offset = max(self._offset, header.base_offset + header.last_offset_delta + 1)
        yield from self._old_runs(data[position:])

    def _runs_of(self, header: BatchHeader, data: bytes, position: int) -> Iterator[list[Record]]:
        """Read the records of a batch as far as they are whole."""
        count = 0
        try:
            if header.attributes & CODEC_BITS:
                payload = payload_of(header, data, position)
            else:
                payload = data[position + HEADER_SIZE : position + LENGTH_END + header.length]
            for run in _cut(iter_records(header, payload)):
                count += len(run)
                yield run
        except CorruptRecords as error:
            self._skipped.batch(header.base_offset + count, header.count - count, str(error))

    def _pass_damaged(self, header: BatchHeader) -> None:
        """Skip a batch that is not what was written: neither its records nor its counts are true.

        Only its first offset is built upon. So it may be read once more, at the start of the next
        read, to find the batch behind it.
        """
        if header.base_offset != self._damaged_at:
            self._damaged_at = header.base_offset
            self._skipped.batch(header.base_offset, 1, "its batch is damaged")
        self._offset = max(self._offset, header.base_offset + 1)

    def _old_runs(self, data: bytes) -> Iterator[Run]:
        """Walk messages of magic 0 and 1, as Kafka wrote them before 0.11.

        What follows them in another format is read again, from its own offset on.
        """
        for span in iter_batches(data, allow_cut=True):
            if span.magic == MAGIC:
                return
            try:
                for run in _cut(unwrapped(read_message(data, span))):
                    yield run, None
            except CorruptRecords as error:
                self._skipped.batch(span.base_offset, 1, str(error))
            self._offset = max(self._offset, span.base_offset + 1)

    def _take_marker(self, header: BatchHeader, batch: bytes) -> None:
        try:
            marker = end_transaction_marker(batch)
        except CorruptRecords as error:
            self._skipped.record(header.base_offset, str(error))
            return
        if marker is not None:
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
            self._shard.transaction_ended(producer, committed=not marker.aborted)


def _cut(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Read records in runs of one slice at most: a batch may have any number of them.

    Those before one that cannot be read come before the error.
    """
    left = iter(records)
    while True:
        run: list[Record] = []
        try:
            run.extend(islice(left, RECORDS_PER_SLICE))
        except CorruptRecords:
            if run:
                yield run
            raise
        if not run:
            return
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
    """Read the header of a whole batch; None if what is there is cut, or older."""
    left = len(data) - position
    if left < HEADER_SIZE or data[position + MAGIC_POSITION] != MAGIC:
        return None
    header = parse_header(data, position)
    return None if LENGTH_END + header.length > left else header
