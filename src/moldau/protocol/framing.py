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
from typing import Final

from moldau.base.errors import ProtocolError
from moldau.base.files import Buffer
from moldau.base.limits import PLAIN_REQUEST_BYTES
from moldau.protocol.messages import API_MESSAGES

PREFIX_BYTES: Final = 4
"""The size in front of a frame, which does not count itself."""

KEY_BYTES: Final = 2
"""Behind the size of a request stands the key of its API."""

PRODUCE_KEY: Final = 0
"""The one request that carries records."""

_read_size: Final = struct.Struct(">i").unpack_from
_read_key: Final = struct.Struct(">h").unpack_from


def frame_end(view: Buffer, position: int, limit: int) -> int:
    """Tell where the frame that begins at `position` ends; beyond the view if it is not all there.

    While not even its size has arrived, that is where the size ends. A size below zero or above
    `limit` raises ProtocolError before a byte of the frame has been waited for.
    """
    start = position + PREFIX_BYTES
    if start > len(view):
        return start
    size: int
    (size,) = _read_size(view, position)
    if 0 <= size <= limit:
        return start + size
    if size < 0:
        raise ProtocolError(f"a frame of {size} bytes is announced")
    raise ProtocolError(f"a frame of {size} bytes is announced, the limit is {limit}")


def check_announced(view: Buffer, position: int, end: int) -> None:
    """Refuse a request that is not all there yet, and too large for one that carries no records.

    It is called whenever the rest of a frame has to be waited for, and looks once the key is there.
    """
    size = end - position - PREFIX_BYTES
    if size <= PLAIN_REQUEST_BYTES or position + PREFIX_BYTES + KEY_BYTES > len(view):
        return
    (key,) = _read_key(view, position + PREFIX_BYTES)
    if key != PRODUCE_KEY:
        name = API_MESSAGES[key][1] if key in API_MESSAGES else f"API {key}"
        raise ProtocolError(
            f"a {name} request of {size} bytes is announced, the limit is {PLAIN_REQUEST_BYTES}"
        )
