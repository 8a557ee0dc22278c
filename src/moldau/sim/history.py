"""What clients were told of one partition, and whether it can all be true at once.

Every answer is a claim: this value is at this offset, this is the end, this is the start. Claims
are compared as they come, so that a broken promise is found when it breaks. The text of a
`Violation` begins with the promise (docs/guarantees.md) or invariant that was broken.

A power cut may take back what was not synced: then another *era* begins, which shares with the one
before what survived. Within an era nothing changes, whatever is killed. An answer belongs to the
era of the process that gave it, even if it arrives later.

Whoever asks notes first what was known then (`Known`): an answer must know at least as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.base.errors import MoldauError


class Violation(MoldauError):  # noqa: N818 - it names the finding
    """A promise was broken."""


class Known(NamedTuple):
    """What had been told before a question was asked."""

    era: int
    """By number in this history."""
    life: int
    end: int
    start: int


class Read(NamedTuple):
    """One record as a consumer got it."""

    offset: int
    timestamp: int
    value: bytes


class LogEnds(NamedTuple):
    """The ends of a log, as one answer told them."""

    start: int
    stable_end: int
    end: int


class _Era:
    """What is true of the log between two power cuts."""

    def __init__(self, cut: int) -> None:
        self.cut = cut
        """Where it parts from the era before."""
        self.values: dict[int, bytes] = {}
        self.offsets: dict[bytes, int] = {}
        self.timestamps: dict[int, int] = {}
        self.end = cut
        """The highest end that was told or that follows from an acknowledgement."""


class PartitionHistory:
    """All claims about one partition."""

    def __init__(
        self,
        name: str,
        *,
        era: int = 0,
        start_limit: int | None = 0,
        synced_acknowledgements: bool = False,
    ) -> None:
        self.name = name
        self._first_era = era
        self.start_limit = start_limit
        """How far the log's start may have moved by request; None where retention moves it."""
        self._synced_acknowledgements = synced_acknowledgements
        """What is acknowledged was synced before, so that a power cut does not take it."""
        self._synced_end = 0
        self.given_up: set[str] = set()
        """Producers that gave up a batch of unknown outcome: their numbers may have gaps."""
        self._eras = [_Era(0)]
        self._starts: dict[int, int] = {}
        """By life of the broker, the highest start that was told."""

    @property
    def values(self) -> dict[int, bytes]:
        """By offset, what is known to be in the log now, or was before it was removed."""
        return self._eras[-1].values

    @property
    def timestamps(self) -> dict[int, int]:
        """By offset, the times of records that were read."""
        return self._eras[-1].timestamps

    @property
    def end(self) -> int:
        """The log reaches at least this far."""
        return self._eras[-1].end

    def known(self, era: int, life: int) -> Known:
        """Note what has been told so far, before asking a broker in this era and life."""
        number = max(0, era - self._first_era)
        return Known(number, life, self._eras[number].end, self._starts.get(life, 0))

    # Claims

    def acknowledged(self, known: Known, offset: int, values: Sequence[bytes]) -> None:
        """Take an acknowledgement of a batch at an offset."""
        for number, value in enumerate(values):
            self._learn(known.era, offset + number, value)
        end = offset + len(values)
        self._reaches(known.era, end)
        if self._synced_acknowledgements:
            self._synced_end = max(self._synced_end, end)
            cuts = [era.cut for era in self._eras[known.era + 1 :]]
            if cuts and min(cuts) < end:
                raise Violation(f"P1: {self.name} {offset} was synced and lost in a power cut")

    def read(self, known: Known, asked: int, place: LogEnds, records: Sequence[Read]) -> None:
        """Take what a fetch from an offset gave: records from there on, in order, none left out."""
        self.told(known, place)
        if records and asked < place.start:
            raise Violation(f"P3: {self.name} served offset {asked}, it starts at {place.start}")
        for number, record in enumerate(records):
            if record.offset != asked + number:
                raise Violation(
                    f"I5: {self.name} read from {asked}: {record.offset} came "
                    f"where {asked + number} was next"
                )
            self._learn(known.era, record.offset, record.value, record.timestamp)
        if records and records[-1].offset >= place.end:
            raise Violation(
                f"P3: {self.name} served offset {records[-1].offset}, "
                f"its high watermark is {place.end}"
            )

    def told(self, known: Known, place: LogEnds) -> None:
        """Take where the log starts and ends, by an answer to a question asked after `known`."""
        if not 0 <= place.start <= place.stable_end <= place.end:
            raise Violation(f"I7: {self.name} is at {place}")
        if place.end < known.end:
            raise Violation(f"P9: {self.name} ended at {known.end}, now at {place.end}")
        if place.start < known.start:
            raise Violation(f"I7: {self.name} started at {known.start}, now at {place.start}")
        if self.start_limit is not None and place.start > self.start_limit:
            raise Violation(
                f"P1: {self.name} starts at {place.start}, only {self.start_limit} was asked for"
            )
        self._reaches(known.era, place.end)
        self._starts[known.life] = max(self._starts.get(known.life, 0), place.start)

    def found_by_time(self, known: Known, asked_ms: int, offset: int, timestamp: int) -> None:
        """Take the answer to which record is the first that is not older than a time.

        Where the log starts must have been told after the answer was given.
        """
        timestamps = self._eras[known.era].timestamps
        if offset >= 0 and timestamp < asked_ms:
            raise Violation(f"I5: {self.name} has {timestamp} at {offset}, asked for {asked_ms}")
        reached = known.end if offset < 0 else offset
        missed = [
            one
            for one, ms in timestamps.items()
            if ms >= asked_ms and self._starts.get(known.life, 0) <= one < reached
        ]
        # What came while the question was on its way need not be in the answer.
        if missed and min(missed) < known.end:
            raise Violation(
                f"I5: {self.name} asked for {asked_ms}: told {offset}, but {min(missed)} is before"
            )

    def _reaches(self, era: int, end: int) -> None:
        for number in range(era, len(self._eras)):
            if number > era and end > self._eras[number].cut:
                break
            self._eras[number].end = max(self._eras[number].end, end)

    def _learn(self, era: int, offset: int, value: bytes, timestamp: int | None = None) -> None:
        for number in range(era, len(self._eras)):
            current = self._eras[number]
            if number > era and offset >= current.cut:
                break
            known = current.values.setdefault(offset, value)
            if f"/{self.name}/".encode() not in value:
                raise Violation(f"P2: {self.name} offset {offset} holds {value!r}, not its own")
            if known != value:
                raise Violation(f"P2: {self.name} offset {offset} held {known!r} and now {value!r}")
            place = current.offsets.setdefault(value, offset)
            if place != offset:
                raise Violation(f"P4: {self.name} has {value!r} at {place} and at {offset}")
            if timestamp is not None:
                current.timestamps[offset] = timestamp

    # Crashes

    def survived_kill(self, start: int, end: int) -> None:
        """Take how the log was found after a process ended."""
        if end < self.end:
            raise Violation(f"P8: {self.name} ended at {self.end}, after a kill at {end}")
        if self.start_limit is not None and start > self.start_limit:
            raise Violation(f"P8: {self.name} starts at {start} after a kill")

    def survived_power_cut(self, durable_end: int, end: int) -> None:
        """Take how the log was found after a power cut; what was durable must be there."""
        durable_end = max(durable_end, self._synced_end)
        if end < durable_end:
            raise Violation(
                f"P1: {self.name} was durable up to {durable_end}, after a power cut it ends at "
                f"{end}"
            )
        before = self._eras[-1]
        era = _Era(end)
        era.values = {offset: one for offset, one in before.values.items() if offset < end}
        era.offsets = {value: offset for offset, value in era.values.items()}
        era.timestamps = {offset: ms for offset, ms in before.timestamps.items() if offset < end}
        self._eras.append(era)

    def final(self, start: int, records: Sequence[Read]) -> None:
        """Compare with all that the log holds in the end: what was claimed must be there."""
        found = {record.offset: record.value for record in records}
        lost = [
            offset
            for offset, value in sorted(self.values.items())
            if offset >= start and found.get(offset) != value
        ]
        if lost:
            raise Violation(
                f"P1: {self.name} [{start}, {start + len(found)}) lacks {len(lost)} of "
                f"{len(self.values)} records that were acknowledged or read, first {lost[0]}"
            )
