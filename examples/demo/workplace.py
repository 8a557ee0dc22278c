"""The folder in which everything happens, and of which nothing is left."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TRIES: Final = 50
PAUSE_S: Final = 0.1


@contextmanager
def workplace() -> Iterator[Path]:
    """Give a new folder, and remove it.

    A process that was killed may still be on its way out and clear up beside us, which makes a
    removal fail half-way; then it is tried again.
    """
    folder = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
    try:
        yield folder
    finally:
        for _ in range(TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(PAUSE_S)
