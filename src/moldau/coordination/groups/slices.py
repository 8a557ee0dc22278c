"""Long ways through a shard, in slices that are short enough for the event loop.

A shard may hold hundreds of thousands of offsets. Whoever has to look at many of them says so with
a generator, which yields after every look: a tombstone, or None where there is nothing to write.
The shard takes one slice of it in a turn, and a timer without delay brings it back for the next.
The state may change in between; a generator must bear that, and look at it as it is then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.coordination.outcome import StateRecord

LOOKS_PER_SLICE: Final = 500
"""A few milliseconds, if all of them lead to a tombstone."""

BYTES_PER_SLICE: Final = 256 * 1024
"""Bytes of keys in one batch: a quarter of what a batch may have by default, as ids may be long."""


class Slice(NamedTuple):
    """A part of a way."""

    records: list[StateRecord]
    """Tombstones; they must be in the state before the next slice."""
    is_last: bool


class Slices:
    """One or more ways, one after the other. No slice holds parts of two."""

    __slots__ = ("_ways",)

    def __init__(self, *ways: Iterator[StateRecord | None]) -> None:
        self._ways = deque(ways)

    def next_slice(self) -> Slice:
        """Look at what comes next."""
        records: list[StateRecord] = []
        size = 0
        for look_count, record in enumerate(self._ways[0], 1):
            if record is not None:
                records.append(record)
                size += len(record.key)
            if look_count == LOOKS_PER_SLICE or size >= BYTES_PER_SLICE:
                return Slice(records, is_last=False)
        self._ways.popleft()
        return Slice(records, is_last=not self._ways)
