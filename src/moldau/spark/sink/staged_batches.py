"""Reading back what tasks have staged, on the driver.

Several tasks stage in one partition, and attempts that lost, or come too late, do so too. So the
messages of those that count say exactly which records are wanted; everything between them is passed
over, and a record that is gone, or is not the task's own, is an error before anything is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import CorruptRecords, UserError
from moldau.client.consumer import Consumer
from moldau.client.errors import OffsetOutOfRange
from moldau.client.records import TopicPartition
from moldau.records.batch import HEADER_SIZE, crc_ok, parse_header
from moldau.spark.errors import WriteInterrupted
from moldau.spark.sink.encoding import EncodedBatch
from moldau.spark.sink.options import STAGING_RETENTION
from moldau.spark.sink.rows import Outgoing
from moldau.spark.sink.staging import Located, StagedRows

_POLL_MS: Final = 500
_PATIENCE_S: Final = 60.0
"""How long staged rows, which were acknowledged, may not be readable: a leader may be changing.
Only asking in vain counts: who is handed a batch may take as long as it likes to send it."""

_GONE: Final = (
    "rows that tasks had staged are gone, so nothing of their batch was published here. Unless"
    " another run of the query has done so, start it again, and raise"
    f" {STAGING_RETENTION} if a batch takes longer than that"
)


class _WantedBatch(NamedTuple):
    """A staged batch, and whose it is."""

    share: StagedRows
    located: Located


class StagedBatches:
    """Reads staged batches back, each partition in its order."""

    def __init__(
        self, consumer: Consumer[bytes, bytes], shares: Sequence[StagedRows], clock: Clock
    ) -> None:
        """Take what to read; the consumer, which fails where offsets are gone, is lent."""
        self._consumer = consumer
        self._clock = clock
        self._wanted: dict[TopicPartition, deque[_WantedBatch]] = {}
        for share in shares:
            place = TopicPartition(share.staging_topic, share.staging_partition)
            wanted = self._wanted.setdefault(place, deque())
            wanted.extend(_WantedBatch(share, located) for located in share.located)
        for place, wanted in self._wanted.items():
            ordered = sorted(wanted, key=lambda one: one.located.staging_offset)
            self._wanted[place] = deque(ordered)

    def batches(self) -> Iterator[Outgoing]:
        """Yield the batches; UserError if one is gone, WriteInterrupted if nothing can be read."""
        consumer = self._consumer
        consumer.assign(self._wanted)
        for place, wanted in self._wanted.items():
            consumer.seek(place, wanted[0].located.staging_offset)
        deadline = self._clock.monotonic() + _PATIENCE_S
        while any(self._wanted.values()):
            try:
                records = consumer.poll(timeout_ms=_POLL_MS)
            except OffsetOutOfRange as error:
                raise UserError(_GONE) from error
            for record in records:
                outgoing = self._taken(record)
                if outgoing is not None:
                    yield outgoing
            if records:
                deadline = self._clock.monotonic() + _PATIENCE_S
            elif self._clock.monotonic() > deadline:
                raise self._unreadable()
        consumer.assign(())

    def _unreadable(self) -> WriteInterrupted:
        places = sorted(str(place) for place, wanted in self._wanted.items() if wanted)
        return WriteInterrupted(
            f"rows that tasks had staged could not be read for {_PATIENCE_S:g} s, so nothing of"
            f" their batch was published: check that {', '.join(places)} can be reached"
        )

    def _taken(self, record: Any) -> Outgoing | None:
        """Take a record that is wanted next in its partition; None if it is not wanted."""
        wanted = self._wanted[TopicPartition(record.topic, record.partition)]
        if not wanted or record.offset < wanted[0].located.staging_offset:
            return None
        share, located = wanted.popleft()
        if record.offset != located.staging_offset or record.key != share.share.label:
            raise UserError(_GONE)
        content = checked(record.value, located.plain_size, share)
        return Outgoing(located.topic, located.partition, content)


def checked(content: bytes, plain_size: int, share: StagedRows) -> EncodedBatch:
    """Take a batch as it was staged; it must be what the task has written."""
    try:
        header = parse_header(content)
        sound = header.size == len(content) and crc_ok(content, 0, len(content))
    except CorruptRecords:
        sound = False
    if not sound:
        raise UserError(
            f"a batch that task {share.share.task} has staged is damaged: start the query again"
        )
    return EncodedBatch(header, memoryview(content)[HEADER_SIZE:], plain_size)
