"""Small answers as one piece of bytes, what they have of files included.

Records go from the page cache to the socket by `sendfile`, without a copy. For a few of them the
calls that avoid the copy cost more than the copy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Protocol, cast

from moldau.base.files import Buffer, FileRegion, check_intact
from moldau.base.network import Part

PIECE_SIZE_MAX: Final = 16 * 1024
PIECE_PARTS_MAX: Final = 16
"""An answer up to these is sent in one call, its file regions copied. Sent in parts, a region takes
five calls of the kernel, and the peer wakes up once for the region and once for what follows it.
A follower that is level, and a consumer, get answers of a few records all day.

The size is a cautious one: nobody has measured from which size on the copy costs more than the
calls. With 32 KB, batches of 16 KB cost the brokers 1.06 times the CPU, in one comparison.
`python -m bench.file_sending` compares copies and `sendfile` for large reads."""


class Descriptor(Protocol):
    """A file that lives on a real disk, as `storage.disk` opens them."""

    def fileno(self) -> int: ...

    def read_ahead_from(self, position: int) -> int | None: ...

    def read_ahead(self, start: int) -> None: ...


def one_piece(parts: Sequence[Part]) -> bytes | None:
    """Return the bytes of a small answer; None if it has to be sent in parts."""
    if len(parts) == 1 and type(parts[0]) is bytes:
        return parts[0]
    if len(parts) > PIECE_PARTS_MAX:
        return None
    size = 0
    for part in parts:
        size += part.size if type(part) is FileRegion else len(part)
        if size > PIECE_SIZE_MAX:
            return None
    if not size:
        return None
    pieces: list[Buffer] = []
    for part in parts:
        if type(part) is FileRegion:
            data = _read_resident(part)
            if data is None:
                return None
            pieces.append(data)
        else:
            pieces.append(cast("Buffer", part))
    return b"".join(pieces)


def _read_resident(region: FileRegion) -> bytearray | None:
    """Read a region that is in memory; None where it is not, and where nobody can tell."""
    data = bytearray(region.size)
    try:
        check_intact(region)
        descriptor = cast("Descriptor", region.file).fileno()
        count = os.preadv(descriptor, [data], region.position, os.RWF_NOWAIT)
    except OSError:
        return None  # who sends it in parts finds out what it is
    return data if count == region.size else None
