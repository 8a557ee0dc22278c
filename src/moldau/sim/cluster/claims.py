"""What clients were told of one partition: each record acknowledged with acks=all, or read.

Such a record is committed. It must be in the log at the end, at its offset, whatever happened, and
no client may ever get another value for that offset. A partition of which too many replicas were
damaged (`atlas`) may lose records; its replicas must still agree in the end.
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
        """By offset."""
        self._offsets: dict[bytes, int] = {}
        self.end = 0
        """Behind the last record that is known to be committed."""
        self.given_up: set[str] = set()
        """Writers that gave up a batch: their numbers may have gaps."""

    @property
    def is_exceeded(self) -> bool:
        """Whether records may be lost."""
        return self.key in self._atlas.exceeded

    def committed(self, first_offset: int, values: Sequence[bytes]) -> None:
        """Take records that are committed, from an offset on."""
        if self.is_exceeded:
            return
        self.end = max(self.end, first_offset + len(values))
        for offset, value in enumerate(values, first_offset):
            if f"/{self.key}/".encode() not in value:
                raise Violation(f"P2: {self.key} offset {offset} holds {value!r}, not its own")
            known = self.values.setdefault(offset, value)
            if known != value:
                raise Violation(f"P2: {self.key} offset {offset} held {known!r} and now {value!r}")
            if (other := self._offsets.setdefault(value, offset)) != offset:
                raise Violation(f"P4: {self.key} has {value!r} at {other} and at {offset}")

    def final(self, records: Sequence[Read]) -> None:
        """Compare with the whole log, when all is well."""
        if self.is_exceeded:
            return
        found = {record.offset: record.value for record in records}
        lost = [one for one, value in sorted(self.values.items()) if found.get(one) != value]
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
