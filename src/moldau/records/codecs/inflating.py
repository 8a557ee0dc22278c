"""What every codec does alike: inflating step by step up to a limit, and refusing."""

from __future__ import annotations

from typing import Final

from moldau.base.errors import BatchTooLarge, CorruptRecords

_FIRST_STEP: Final = 64 * 1024
"""Room for a usual batch in one step; a bomb gets no more before it has shown itself."""
_USUAL_RATIO: Final = 8
"""Records rarely shrink further, so the first step is mostly the only one."""


class Inflated:
    """What came out so far, and how much more may come in the next step."""

    __slots__ = ("_label", "_limit", "_parts", "_size", "step")

    def __init__(self, label: str, compressed_size: int, limit: int) -> None:
        self._label = label
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.step = min(limit + 1, max(_FIRST_STEP, compressed_size * _USUAL_RATIO))

    def add(self, part: bytes) -> None:
        """Take what one step made; BatchTooLarge once it is too much."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            raise too_large(self._label, self._limit)
        self.step = min(self._limit + 1 - self._size, self.step * 2)

    def joined(self) -> bytes:
        """Return all of it."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def too_large(label: str, limit: int) -> BatchTooLarge:
    """Refuse data that becomes more than it may."""
    return BatchTooLarge(f"{label} data grows beyond {limit} bytes")


def garbage(label: str, reason: object) -> CorruptRecords:
    """Refuse what the codec cannot have written."""
    return CorruptRecords(f"not {label} data: {reason}")
