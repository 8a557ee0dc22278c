"""Long walks through a shard, in slices that are short enough for the event loop.

A shard may hold hundreds of thousands of offsets. A walk over many of them is a generator that
yields after each step: a tombstone, or None if there is nothing to write. The shard takes one slice
in each turn, and sets a timer without delay for the next one. The state may change between two
slices, so a generator must read it again at each step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.coordination.outcome import StateRecord

LOOKS_PER_SLICE: Final = 500
"""Steps in one slice. It takes a few milliseconds if each step yields a tombstone."""

BYTES_PER_SLICE: Final = 256 * 1024
"""Bytes of keys in one batch, since ids may be long: a quarter of the default limit of a batch."""


class Slice(NamedTuple):
    """A part of a walk."""

    records: list[StateRecord]
    """Tombstones. They must be replayed before the next slice: later steps read the state."""
    is_last: bool


class Slices:
    """One or more walks, one after the other. No slice holds parts of two walks."""

    __slots__ = ("_ways",)

    def __init__(self, *ways: Iterator[StateRecord | None]) -> None:
        self._ways = deque(ways)

    def next_slice(self) -> Slice:
        """Return the next slice."""
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
