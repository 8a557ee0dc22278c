"""Reading records and printing them until it is enough.

A poll hands out no more than may still be printed, and the next poll begins after all of the last
was written out: so what a group commits by itself is exactly what was printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, Final

from moldau.cli.stream.progress import Progress
from moldau.cli.stream.reach import Newcomers, Stretch
from moldau.cli.stream.writing import AnyRecord, Write
from moldau.client.consumer import Consumer
from moldau.client.records import TopicPartition

POLL_MS: Final = 200
"""How long nothing has to come before it is looked whether the end was reached."""

POLL_COUNT_MAX: Final = 5_000
"""A poll of this many costs little beside what it brings, and its output is a megabyte or so."""


class Printing:
    """Prints what a consumer hands out, up to a number of records."""

    def __init__(
        self, consumer: Consumer[Any, Any], write: Write, out: BinaryIO, progress: Progress, *,
        count_max: int | None = None, grep: re.Pattern[bytes] | None = None,
    ) -> None:  # fmt: skip
        self._consumer = consumer
        self._write = write
        self._out = out
        self._progress = progress
        self._left = count_max
        self._grep = grep

    def run_assigned(
        self, wanted: Mapping[TopicPartition, Stretch], newcomers: Newcomers | None = None
    ) -> None:
        """Print stretches of partitions; returns when all are read, or enough is printed."""
        open_ends: dict[TopicPartition, int | None] = {}
        if self._grep is None and self._left is None:
            self._progress.total = _record_count(wanted.values())
        self._open(wanted, open_ends)
        while open_ends and self._wants_more():
            records = self._poll()
            ended = self._ended(records, open_ends) if records else self._passed(open_ends)
            if ended:
                records = [one for one in records if _is_before(one, open_ends)]
            self._print(records)
            for one in ended:
                del open_ends[one]
            if ended:
                self._consumer.assign(open_ends)
            if newcomers is not None and (new := newcomers.look()):
                self._open(new, open_ends)

    def _open(
        self,
        wanted: Mapping[TopicPartition, Stretch],
        open_ends: dict[TopicPartition, int | None],
    ) -> None:
        """Begin to read stretches, beside those that are read already."""
        begun = {one: stretch for one, stretch in wanted.items() if not _is_empty(stretch)}
        open_ends |= {one: stretch.end for one, stretch in begun.items()}
        self._consumer.assign(open_ends)
        for one, stretch in begun.items():
            self._consumer.seek(one, stretch.begin)

    def run_subscribed(self, *, to_end: bool) -> None:
        """Print what a group assigns; returns when there is no more, if so wished, or enough."""
        while self._wants_more():
            records = self._poll()
            self._print(records)
            if to_end and not records and self._is_at_end():
                return

    def _wants_more(self) -> bool:
        return self._left is None or self._left > 0

    def _poll(self) -> list[AnyRecord]:
        count = POLL_COUNT_MAX if self._left is None else min(self._left, POLL_COUNT_MAX)
        return self._consumer.poll(timeout_ms=POLL_MS, max_records=count)

    @staticmethod
    def _ended(
        records: list[AnyRecord], open_ends: Mapping[TopicPartition, int | None]
    ) -> set[TopicPartition]:
        """Name the partitions whose last records these are."""
        last: dict[tuple[Any, ...], int] = {record[:2]: record[2] for record in records}
        return {
            one
            for one, end in open_ends.items()
            if end is not None and last.get(one, -1) + 1 >= end
        }

    def _passed(self, open_ends: Mapping[TopicPartition, int | None]) -> set[TopicPartition]:
        """Name the partitions that are read although their last offsets hold no records.

        Markers of transactions and what was compacted away are passed in silence.
        """
        return {
            one
            for one, end in open_ends.items()
            if end is not None and self._consumer.position(one) >= end
        }

    def _is_at_end(self) -> bool:
        partitions = self._consumer.assignment()
        return bool(partitions) and all(self._consumer.lag(one) == 0 for one in partitions)

    def _print(self, records: list[AnyRecord]) -> None:
        if self._grep is not None:
            search = self._grep.search
            records = [one for one in records if search(one.key or b"") or search(one.value or b"")]
        if not records:
            return
        text = b"".join(map(self._write, records))
        self._out.write(text)
        self._out.flush()
        if self._left is not None:
            self._left -= len(records)
        self._progress.add(len(records), len(text))


def _is_empty(stretch: Stretch) -> bool:
    return stretch.end is not None and stretch.end <= stretch.begin


def _record_count(stretches: Iterable[Stretch]) -> int | None:
    """Count the offsets of stretches; None if one has no end."""
    count = 0
    for begin, end in stretches:
        if end is None:
            return None
        count += max(0, end - begin)
    return count


def _is_before(record: AnyRecord, ends: Mapping[TopicPartition, int | None]) -> bool:
    end = ends[TopicPartition(record.topic, record.partition)]
    return end is None or record.offset < end
