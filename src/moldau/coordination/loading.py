"""Loading a shard: replays its partition from the start to the end.

A load never blocks the event loop for long: the port reads bytes off the loop, and records are
replayed in slices with other work in between. A shard that loads appends nothing, but transaction
markers may be appended meanwhile. They are read too: the end is checked again before each read, and
there is no await between the last check and the return.

A load reads to the log's end, not to the high watermark. Records that are not committed yet are in
the state afterwards, and replies wait until they are committed (`host`). A load that stopped at the
high watermark would never see them: no one replays them later.

A compacted log has gaps, and may hold batches of any format and codec. Damaged bytes do not stop a
load: records and batches that cannot be read are skipped (`skipping`), and everything whole before
and after them counts. Only a disk error ends a load.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from moldau.base.checks import crash_point, invariant
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
"""Records, or batches without records, between two turns of the loop.

Less than a millisecond for offsets; two or three for a shard that takes 10 microseconds a record.
"""

Run = tuple[Sequence[Record], ProducerIdentity | None]
"""Consecutive records and their transaction. It is empty for a batch without records."""


class Loader:
    """One load of one shard."""

    def __init__(self, log: InternalLog, shard: Shard, name: str, bugs: BugLog) -> None:
        self._log = log
        self._shard = shard
        self._name = name
        self._bugs = bugs
        self._offset = log.log_start_offset
        self._damaged_at = -1
        """The base offset of the last damaged batch, so that it is counted once if read twice."""
        self._skipped = Skipped(name)
        self.record_count = 0
        """Records replayed so far."""

    @property
    def skipped_count(self) -> int:
        """Records that could not be read."""
        return self._skipped.count

    async def run(self, max_bytes: int) -> None:
        """Replay the whole log. Each read is at most this large, or one batch.

        Raises ApiError or StorageError if the port does. After a cancellation the shard is half
        loaded and must be thrown away.
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
                    break  # a compacted log may have no batch between here and its end
                await self._replay(data)
            except CorruptRecords as error:
                self._skip_to_next_segment(begun, str(error))
        crash_point("coordinator.load.after_replay")

    async def _replay(self, data: bytes) -> None:
        """Replay the whole batches of these bytes; the next read starts after the last of them."""
        begun = self._offset
        count = 0
        for records, producer in self._runs(data):
            self._replay_run(records, producer)
            count += len(records) or 1
            if count >= RECORDS_PER_SLICE:
                count = 0
                await asyncio.sleep(0)
        if self._offset == begun:
            raise CorruptRecords("there is no whole batch")

    def _skip_to_next_segment(self, begun: int, why: str) -> None:
        """Continue at the next segment: after a broken batch no other can be found in this one.

        Batches before the broken one are replayed already.
        """
        resumed = self._log.next_start(max(begun, self._offset))
        # Otherwise the same read would be repeated for ever, and the shard would never serve.
        invariant(resumed > begun, f"{self._name}: a load at {begun} resumes at {resumed}")
        self._skipped.stretch(self._offset, resumed, why)
        self._offset = resumed

    def _replay_run(self, records: Sequence[Record], producer: ProducerIdentity | None) -> None:
        """Replay records. This is the only loop of a load that runs once for each record."""
        replay, make = self._shard.replay, tuple.__new__
        for offset, _, key, value, _ in records:
            if key is None:
                self._skipped.record(offset, "it has no key")
                continue
            try:
                replay(make(StateRecord, (key, value)), producer)
            except (UnknownRecord, ProtocolError) as error:
                self._skipped.record(offset, str(error))
            except Exception as error:  # noqa: BLE001 - one record must not stop the load
                self._bugs.note(f"{self._name} at offset {offset}", error)
                self._skipped.record(offset, repr(error))
            else:
                self.record_count += 1

    def _runs(self, data: bytes) -> Iterator[Run]:
        """Walk the batches, in runs that fit into a slice; apply markers on the way.

        The order matters: a marker ends the transaction of the records before it and not of those
        after it. In a log of single commits each record is a batch, so this loop does by hand what
        `iter_batches` does elsewhere. Raises CorruptRecords where no further batch can be found.
        """
        position = 0
        while (header := _batch_at(data, position)) is not None:
            end = position + LENGTH_END + header.length
            if not crc_ok(data, position, end - position):
                self._skip_damaged(header)
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
        """Read the records of a batch up to the first damaged one."""
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

    def _skip_damaged(self, header: BatchHeader) -> None:
        """Skip a batch whose checksum is wrong. Its records and counts cannot be trusted.

        Only its base offset is used. So the next read may start inside this batch and return it
        again; then it is skipped again, and the batch after it is read.
        """
        if header.base_offset != self._damaged_at:
            self._damaged_at = header.base_offset
            self._skipped.batch(header.base_offset, 1, "its batch is damaged")
        self._offset = max(self._offset, header.base_offset + 1)

    def _old_runs(self, data: bytes) -> Iterator[Run]:
        """Walk messages of magic 0 and 1, as Kafka wrote them before 0.11.

        Batches of the current format after them are left to the next read.
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
    """Cut records into runs of at most one slice, since a batch may have any number of records.

    The records before a damaged one are yielded before the error is raised.
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
    """Turn Python's cycle collector off during a load.

    Loaded state is large, stays in memory and has no cycles. The collector would go through it
    several times, for tens of milliseconds each, and find nothing. Of two loads at once the first
    one to end turns it on again, which does no harm.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _batch_at(data: bytes, position: int) -> BatchHeader | None:
    """Read the header of a whole batch; None if the batch is cut off or of an older format."""
    left = len(data) - position
    if left < HEADER_SIZE or data[position + MAGIC_POSITION] != MAGIC:
        return None
    header = parse_header(data, position)
    return None if LENGTH_END + header.length > left else header
