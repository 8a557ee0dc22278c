"""What clients were told of one partition: each record acknowledged by all, or read.

Such a record is committed. It must be in the log at the end, at its offset, whatever happened, and
no other value may ever be told for that offset. Nothing is held against a partition of which too
many replicas were damaged (`atlas`), except that its replicas must agree in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.base.ids import PartitionKey, TopicId
from moldau.sim.cluster.atlas import Atlas
from moldau.sim.history import Read, Violation


class PartitionClaims:
    """All claims about one partition."""

    def __init__(self, key: PartitionKey, topic_id: TopicId, atlas: Atlas) -> None:
        self.key = key
        self.topic_id = topic_id
        self._atlas = atlas
        self.values: dict[int, bytes] = {}
        self._offsets: dict[bytes, int] = {}
        self.given_up: set[str] = set()
        """Writers that gave up a batch: their numbers may have gaps."""

    @property
    def is_exceeded(self) -> bool:
        """Whether records may be lost."""
        return self.key in self._atlas.exceeded

    def committed(self, offset: int, values: Sequence[bytes]) -> None:
        """Take records that are committed, from an offset on."""
        if self.is_exceeded:
            return
        for place, value in enumerate(values, offset):
            if f"/{self.key}/".encode() not in value:
                raise Violation(f"P2: {self.key} offset {place} holds {value!r}, not its own")
            known = self.values.setdefault(place, value)
            if known != value:
                raise Violation(f"P2: {self.key} offset {place} held {known!r} and now {value!r}")
            if (first := self._offsets.setdefault(value, place)) != place:
                raise Violation(f"P4: {self.key} has {value!r} at {first} and at {place}")

    def final(self, records: Sequence[Read]) -> None:
        """Compare with the whole log, when all is well."""
        if self.is_exceeded:
            return
        found = {record.offset: record.value for record in records}
        lost = [place for place, value in sorted(self.values.items()) if found.get(place) != value]
        if lost:
            raise Violation(
                f"P1: {self.key} with {len(found)} records lacks {len(lost)} of "
                f"{len(self.values)} that were acknowledged or read, first {lost[0]}"
            )
        values = [record.value for record in records]
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise Violation(f"P4: {self.key} has {twice!r} twice")
        self._check_order(values)

    def _check_order(self, values: Sequence[bytes]) -> None:
        """What an idempotent writer wrote stands in its order, with no gap unless it gave up."""
        last: dict[str, int] = {}
        for value in values:
            writer, _, number_text, _ = value.decode().split("/")
            number = int(number_text)
            before = last.get(writer, -1)
            has_gap = number != before + 1 and writer not in self.given_up
            if writer.startswith("idempotent") and (number <= before or has_gap):
                raise Violation(f"P4: {self.key}: {writer} has {number} behind {before}")
            last[writer] = number
