"""Frames: every request and response is an int32 size and that many bytes.

Works on whatever has arrived, in place: the receiver keeps the bytes, this only says where the
frame at the head ends, which may be further than what is there.

    while (end := frame_end(view, position, limit)) <= len(view):
        handle(view[position + PREFIX_BYTES : end])
        position = end
    stream.expect(end - position)
    return position
"""

from __future__ import annotations

import struct

from moldau.base.errors import ProtocolError
from moldau.base.files import Buffer

PREFIX_BYTES = 4
"""The size in front of a frame, which does not count itself."""

_read_size = struct.Struct(">i").unpack_from


def frame_end(view: Buffer, position: int, limit: int) -> int:
    """Tell where the frame that begins at `position` ends; beyond the view if it is not all there.

    While not even its size has arrived, that is where the size ends. A size below zero or above
    `limit` raises ProtocolError before a byte of the frame has been waited for.
    """
    start = position + PREFIX_BYTES
    if start > len(view):
        return start
    (size,) = _read_size(view, position)
    if 0 <= size <= limit:
        return start + int(size)
    if size < 0:
        raise ProtocolError(f"a frame of {size} bytes is announced")
    raise ProtocolError(f"a frame of {size} bytes is announced, the limit is {limit}")
