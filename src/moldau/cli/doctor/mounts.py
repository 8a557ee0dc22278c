"""Which file system a folder lies on, by the kernel's table of mounts (`man 5 proc`)."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_MOUNT_POINT: Final = 4
UNKNOWN: Final = "unknown"


def file_system_of(path: str, mounts: str) -> str:
    """Return the type of the file system that a path without links lies on."""
    found, depth = UNKNOWN, -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, types = before.split(), after.split()
        if len(fields) <= _MOUNT_POINT or not types:
            continue
        point = PurePosixPath(_OCTAL.sub(_character, fields[_MOUNT_POINT]))
        # Of several mounts in one place the last one is seen.
        if PurePosixPath(path).is_relative_to(point) and len(point.parts) >= depth:
            found, depth = types[0], len(point.parts)
    return found


def _character(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 8))
