"""Who runs a pipeline and how it goes: a lock and a status file, on the machine of the driver.

The lock is the operating system's: it ends with its holder, however that ends. Its file holds the
number of the process, for who wants to know. The status is replaced as a whole after batches, so
that anybody may read it at any time, without Spark and without asking the pipeline. Who wants the
pipeline to end leaves a note: a signal would end all that run in the process.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import IO, Any, Final

from moldau.base.errors import UserError
from moldau.spark.pipelines.running.signals import Stop

LOCK: Final = "lock"
STATUS: Final = "status.json"
STOP: Final = "stop"
"""The note: a byte for each time that somebody has asked for the end."""
LOOK_S: Final = 0.2
ENDED: Final = frozenset({"stopped", "failed"})
"""The states in which a pipeline has no process any more."""


class Desk:
    """The lock, held from `__init__` to `close`, and the status beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("a+", encoding="ascii")
        except OSError as error:
            raise UserError(f"cannot use {folder}: {error.strerror or error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _number(self._lock)
            self._lock.close()
            raise UserError(
                f"a pipeline writes to this folder already (process {holder}): stop it, or name"
                " another --out"
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        (folder / STOP).unlink(missing_ok=True)  # it was meant for somebody else
        self._closed = threading.Event()
        self._listener: threading.Thread | None = None

    def tell(self, status: dict[str, Any]) -> None:
        """Replace the status."""
        beside = self._folder / f".{STATUS}.tmp"
        beside.write_text(json.dumps(status, indent=1), encoding="utf-8")
        beside.replace(self._folder / STATUS)

    def listen(self, stop: Stop) -> None:
        """Call `stop`, in a thread of its own, whenever somebody asks for the end."""
        self._listener = threading.Thread(target=self._listen, args=(stop,), daemon=True)
        self._listener.start()

    def _listen(self, stop: Stop) -> None:
        heard = 0
        while not self._closed.wait(LOOK_S):
            asked = _asked(self._folder)
            if asked > heard:
                heard = asked
                stop(urgent=asked > 1)

    def close(self) -> None:
        """Let another one in."""
        self._closed.set()
        if self._listener is not None:
            self._listener.join()
        self._lock.close()


def read_status(folder: Path) -> dict[str, Any]:
    """Return the status of a pipeline; UserError if none has run here.

    `state` is what is the case now: a pipeline that was killed cannot have said so.
    """
    try:
        told = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"no pipeline has run here yet: there is no {folder / STATUS}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {folder / STATUS}: {error}") from error
    if not isinstance(told, dict):
        raise UserError(f"cannot read {folder / STATUS}: it is no status")
    if told.get("state") not in ENDED and owner(folder) is None:
        told["state"] = "died"
    return told


def owner(folder: Path) -> int | None:
    """Return the process that holds the lock; None if nobody does."""
    try:
        with (folder / LOCK).open("r", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _number(lock)
    except FileNotFoundError:
        pass
    return None


def ask_to_stop(folder: Path) -> int | None:
    """Ask the pipeline to end after its running batch; return its process, None without one.

    Asked once more it does not wait for the batch.
    """
    process = owner(folder)
    if process is not None:
        try:
            with (folder / STOP).open("ab") as note:
                note.write(b".")
        except OSError as error:
            raise UserError(f"cannot write {folder / STOP}: {error.strerror or error}") from error
    return process


def _asked(folder: Path) -> int:
    try:
        return (folder / STOP).stat().st_size
    except FileNotFoundError:
        return 0


def _number(lock: IO[str]) -> int:
    lock.seek(0)
    text = lock.read().strip()
    return int(text) if text.isdecimal() else 0
