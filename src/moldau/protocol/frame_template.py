"""A frame that is sent again and again, and differs in its correlation id and one field only.

Encoding a message from its fields costs many times as much as joining a few byte strings. So a
template is cut once from what the codec makes of the message, with a mark in the place of the
field. What comes out is what the codec would have made; tests say so.

Both sides use it: a broker for the answers of its fast paths, a producer for its requests and for
recognising the answers to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

SIZE_SIZE: Final = 4
"""The int32 before every frame."""
CORRELATION_ID_SIZE: Final = 4


class FrameTemplate:
    """One frame without its size, its correlation id and one field."""

    __slots__ = ("_after", "_before", "_fixed_size", "_head", "_size")

    def __init__(self, parts: Sequence[Any], mark: bytes = b"", head_size: int = 0) -> None:
        """Cut up an encoded frame around the last place where the mark stands, or at its end.

        Names that clients choose come before that place, and may look like the mark. The
        correlation id is the first thing in an answer; in a request a head stands before it.
        """
        frame = b"".join(map(bytes, parts))
        head_end = SIZE_SIZE + head_size
        body = frame[head_end + CORRELATION_ID_SIZE :]
        position = body.rindex(mark)
        self._head = frame[SIZE_SIZE:head_end]
        self._before = body[:position]
        self._after = body[position + len(mark) :]
        self._fixed_size = len(frame) - SIZE_SIZE - len(mark)
        self._size = self._fixed_size.to_bytes(SIZE_SIZE)
        """Of a frame whose field is empty."""

    def render(self, correlation_id: bytes, field: bytes = b"") -> bytes:
        """Make the frame with this correlation id and field."""
        size = (self._fixed_size + len(field)).to_bytes(SIZE_SIZE) if field else self._size
        return b"".join((size, self._head, correlation_id, self._before, field, self._after))

    def render_around(self, correlation_id: bytes, field_size: int) -> tuple[bytes, bytes]:
        """Make what stands before and behind a field, which is too large to be copied."""
        size = (self._fixed_size + field_size).to_bytes(SIZE_SIZE)
        return b"".join((size, self._head, correlation_id, self._before)), self._after

    def field_position(self, frame: bytes, field_size: int) -> int | None:
        """Find a field of this size in a frame that came without its size.

        None if the frame differs from the template in more than its correlation id and the field.
        """
        start = len(self._head) + CORRELATION_ID_SIZE
        if (
            len(frame) != self._fixed_size + field_size
            or not frame.startswith(self._head)
            or not frame.startswith(self._before, start)
            or not frame.endswith(self._after)
        ):
            return None
        return start + len(self._before)
