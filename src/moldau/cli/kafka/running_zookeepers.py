"""From which data directories `zookeeper-server-start` has started ZooKeepers.

Kafka's `zookeeper-server-stop` ends every process whose command line names ZooKeeper. Here a note
for each data directory lies in the folder that also knows the running brokers. Which process it
is says the file in the data directory, so that a note that is left over stops nobody.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from moldau.cli.kafka.running_servers import PRIVATE_FILE, folder, make_folder, opened_folder

PREFIX: Final = "zookeeper-"


def note(data: Path) -> None:
    """Remember a data directory."""
    make_folder()
    with opened_folder() as place:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(_name(data), flags, PRIVATE_FILE, dir_fd=place)
        with os.fdopen(file, "wb") as opened:
            opened.write(os.fsencode(data))


def noted() -> list[Path]:
    """Return the data directories that are remembered."""
    if not os.path.lexists(folder()):
        return []
    with opened_folder() as place:
        names = sorted(os.listdir(place))  # noqa: PTH208 - a descriptor
        return [_read(place, name) for name in names if name.startswith(PREFIX)]


def forget(data: Path) -> None:
    """Forget a data directory."""
    if not os.path.lexists(folder()):
        return
    with opened_folder() as place, suppress(FileNotFoundError):
        os.unlink(_name(data), dir_fd=place)


def _name(data: Path) -> str:
    return PREFIX + hashlib.sha256(os.fsencode(data)).hexdigest()[:16]


def _read(place: int, name: str) -> Path:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    with os.fdopen(file, "rb") as opened:
        return Path(os.fsdecode(opened.read()))
