"""Which brokers `kafka-server-start` has started and `kafka-server-stop` may therefore stop.

Kafka's script looks for any process whose command line mentions Kafka. Here each broker holds a
lock on a file of its own that bears its process id: who holds the lock lives, and a number that the
system has given to another process since stops nobody.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDER_VARIABLE: Final = "MOLDAU_RUN_DIR"
PRIVATE: Final = 0o700


def folder() -> Path:
    """Return where the files are: the user's run-time folder, or one beside the temporary files."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    own = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(own) / f"moldau-{os.getuid()}"


@contextmanager
def registered() -> Iterator[None]:
    """Be known as a running broker, as long as the block lasts or the process lives."""
    place = folder()
    place.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    file = place / str(os.getpid())
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def running() -> list[int]:
    """Return the process ids of the brokers that run; files of dead ones are taken away."""
    found = []
    for file in sorted(folder().glob("[0-9]*")):
        with file.open("r") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(int(file.name))
            else:
                file.unlink(missing_ok=True)
    return found
