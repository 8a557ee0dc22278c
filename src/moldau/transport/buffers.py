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
"""The most that is kept for reuse, however many were lent at once."""

LEAST_POOLED_SIZE: Final = 4 * 1024 * 1024
"""So much is kept in any case: the frames of a single connection differ in size, too."""

LOOSEST_FIT: Final = 4
"""A kept buffer is used again for what needs at least this part of it."""

OwnBuffer = bytearray | mmap.mmap


class BufferPool:
    """Receive buffers of streams in the middle of a frame, kept for the next one.

    The kernel has to find, clear and map the pages of a new buffer, which costs more than to
    receive into them. So a buffer is used again for a smaller frame too. What is kept hardly adds
    to the peak: lent and kept together stay below the most that was lent at once, or a few
    megabytes.
    """

    __slots__ = ("_free", "_lent", "_lent_at_once", "_whole", "budget", "kept", "shared")

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self._whole = memoryview(bytearray(SHARED_BUFFER_SIZE))
        self.shared = self._whole
        """What streams read into that are not in the middle of a frame."""
        self._free: dict[int, list[OwnBuffer]] = {}
        """By size; the size that was given back last is the last one."""
        self.kept = 0
        """Bytes of buffers that wait to be used again."""
        self._lent = 0
        self._lent_at_once = 0
        budget.changed.append(self._budget_changed)

    def _budget_changed(self) -> None:
        self.shared = self._whole[:SHORT_READ_SIZE] if self.budget.is_short else self._whole

    def fitting(self, size: int) -> int:
        """Return the size of the buffer to take: of a kept one if it has room for so much.

        For a size that `rounded` gave. To ask before the memory is charged, so that all of the
        buffer is.
        """
        found = size
        while found <= size * LOOSEST_FIT:
            if found in self._free:
                return found
            found = rounded(found + 1)
        return size

    def take(self, size: int) -> OwnBuffer:
        """Return a buffer of a size that `rounded` gave; its content is arbitrary."""
        free = self._free.get(size)
        if free:
            self.kept -= size
            self._lend(size)
            buffer = free.pop()
            if not free:
                del self._free[size]
            return buffer
        self._lend(size)
        return _allocate(size)

    def give(self, buffer: OwnBuffer) -> None:
        """Take a buffer back, and keep it unless too much is kept already."""
        size = len(buffer)
        self._lent -= size
        if size <= self._room():
            free = self._free.pop(size, [])
            free.append(buffer)
            self._free[size] = free
            self.kept += size
            self._make_room()

    def grow(self, buffer: OwnBuffer, filled: int, size: int) -> OwnBuffer:
        """Return a buffer of this size that begins with the same bytes; the old one is gone."""
        old_size = len(buffer)
        if isinstance(buffer, mmap.mmap) and size > old_size:
            with contextlib.suppress(BufferError):  # a view of it lives on, as in a traceback
                buffer.resize(size)
                self._lend(size - old_size)
                return buffer
        other = self.take(size)
        with memoryview(buffer) as old:
            other[:filled] = old[:filled]
        self.give(buffer)
        return other

    def _lend(self, size: int) -> None:
        self._lent += size
        self._lent_at_once = max(self._lent_at_once, self._lent)
        self._make_room()

    def _room(self) -> int:
        """How much may be kept: what is kept and what is held stay within the budget together."""
        unused = max(self._lent_at_once, LEAST_POOLED_SIZE) - self._lent
        return max(0, min(POOLED_BUFFERS_SIZE, unused, self.budget.limit - self.budget.held))

    def _make_room(self) -> None:
        """Drop buffers of the sizes that were least recently given back."""
        room = self._room()
        while self.kept > room:
            size, free = next(iter(self._free.items()))
            free.pop()
            self.kept -= size
            if not free:
                del self._free[size]


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
