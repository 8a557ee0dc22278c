"""Receive buffers: one that all streams share, and those of streams in the middle of a frame.

Large buffers are anonymous mappings and not `bytearray`s. The kernel fills them page by page, as
bytes arrive: to make one of 100 MiB costs no time on the event loop, and what was not sent takes
no memory. They grow without being copied, and go back to the system as soon as they are dropped.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Final

from moldau.base.memory_budget import MemoryBudget

SHARED_BUFFER_SIZE: Final = 256 * 1024
"""More than the usual socket buffer gives at once."""

SHORT_READ_SIZE: Final = 16 * 1024
"""What is read at once while memory is short: small requests, and not much of any other."""

SMALLEST_BUFFER: Final = 16 * 1024
LARGEST_HEAP_BUFFER: Final = 128 * 1024

POOLED_BUFFERS_SIZE: Final = 64 * 1024 * 1024
"""What is kept for reuse: enough for fifty connections in the middle of a full produce request."""

OwnBuffer = bytearray | mmap.mmap


class BufferPool:
    """Receive buffers of streams in the middle of a frame, kept for the next one."""

    __slots__ = ("_free", "_whole", "budget", "kept", "shared")

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self._whole = memoryview(bytearray(SHARED_BUFFER_SIZE))
        self.shared = self._whole
        """What streams read into that are not in the middle of a frame."""
        self._free: dict[int, list[OwnBuffer]] = {}
        self.kept = 0
        """Bytes of buffers that wait to be used again."""
        budget.changed.append(self._budget_changed)

    def _budget_changed(self) -> None:
        self.shared = self._whole[:SHORT_READ_SIZE] if self.budget.is_short else self._whole

    def take(self, size: int) -> OwnBuffer:
        """Return a buffer of a size that `rounded` gave; its content is arbitrary."""
        free = self._free.get(size)
        if free:
            self.kept -= size
            return free.pop()
        self._make_room()
        return _allocate(size)

    def give(self, buffer: OwnBuffer) -> None:
        """Take a buffer back, unless enough are kept already."""
        size = len(buffer)
        if self.kept + size <= self._room():
            self._free.setdefault(size, []).append(buffer)
            self.kept += size

    def grow(self, buffer: OwnBuffer, filled: int, size: int) -> OwnBuffer:
        """Return a buffer of this size that begins with the same bytes; the old one is gone."""
        if isinstance(buffer, mmap.mmap) and size > len(buffer):
            self._make_room()
            with contextlib.suppress(BufferError):  # a view of it lives on, as in a traceback
                buffer.resize(size)
                return buffer
        other = self.take(size)
        with memoryview(buffer) as old:
            other[:filled] = old[:filled]
        self.give(buffer)
        return other

    def _room(self) -> int:
        """How much may be kept: what is kept and what is held stay within the budget together."""
        return min(POOLED_BUFFERS_SIZE, self.budget.limit - self.budget.held)

    def _make_room(self) -> None:
        if self.kept > self._room():
            self._free.clear()
            self.kept = 0


def rounded(size: int) -> int:
    """Return the size of the buffer to hold so much: up to a quarter more, so that few differ."""
    if size <= SMALLEST_BUFFER:
        return SMALLEST_BUFFER
    step = 1 << ((size - 1).bit_length() - 3)
    return -(-size // step) * step


def _allocate(size: int) -> OwnBuffer:
    if size <= LARGEST_HEAP_BUFFER:
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
