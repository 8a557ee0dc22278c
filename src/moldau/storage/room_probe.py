"""Whether a disk that was full has room again: only a write can tell.

Free space does not show quotas or blocks that are reserved for root.
"""

from __future__ import annotations

from typing import Final

from moldau.base.files import Files

ROOM_PROBE: Final = ".moldau_room"
ROOM_PROBE_BYTES: Final = 1024 * 1024
"""This much must fit before a full directory takes appends again; less would be full at once."""


def probe_room(files: Files, directory: str) -> bool:
    """Test with a write whether there is room; OSError if the disk refuses it. It may block."""
    if 0 <= files.space(directory)[1] < ROOM_PROBE_BYTES:
        return False
    path = f"{directory}/{ROOM_PROBE}"
    try:
        file = files.open(path, create=True)
        try:
            file.append([bytes(ROOM_PROBE_BYTES)])
        finally:
            file.close()
    finally:
        files.remove(path)
    return True
