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
import time
from pathlib import Path
from typing import IO, Any, Final

from moldau.base.errors import UserError
from moldau.spark.pipelines.running.signals import Stop

LOCK: Final = "lock"
STATUS: Final = "status.json"
STOP: Final = "stop"
"""The note: a byte for each time that somebody has asked for the end."""
LOOK_S: Final = 0.2
PATIENCE_S: Final = 0.5
"""How long a start tries for the lock: who asks for its owner holds it for a moment."""
ENDED: Final = frozenset({"stopped", "failed"})
"""The states in which a pipeline has no process any more."""


class Desk:
    """The lock, held from `__init__` to `close`, and the status beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder / LOCK)
            (folder / STOP).unlink(missing_ok=True)  # it was meant for somebody else
        except OSError as error:
            raise UserError(f"cannot use {folder}: {error.strerror or error}") from error
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


def _locked(path: Path) -> IO[bytes]:
    """Lock the file, and write into it whose it is; UserError if it is somebody else's."""
    lock = path.open("a+b", buffering=0)  # nothing is left to be written when it is closed
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not _is_taken(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline_s:
                raise UserError(
                    f"a pipeline writes to this folder already (process {_number(lock)}): stop it,"
                    " or name another --out"
                )
            time.sleep(PATIENCE_S / 20)
        lock.truncate(0)
        lock.write(b"%d\n" % os.getpid())
    except BaseException:
        lock.close()
        raise
    return lock


def _is_taken(lock: IO[bytes], kind: int) -> bool:
    """Take a lock, and tell whether that was possible."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_status(folder: Path) -> dict[str, Any]:
    """Return the status of a pipeline; UserError if none has run here.

    `state` is what is the case now: a pipeline that was killed cannot have said so.
    """
    try:
        told = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"no pipeline has run here yet: there is no {folder / STATUS}") from None
    except OSError as error:
        raise UserError(f"cannot read {folder / STATUS}: {error.strerror or error}") from error
    except ValueError as error:
        raise UserError(f"cannot read {folder / STATUS}: {error}") from error
    if not isinstance(told, dict):
        raise UserError(f"cannot read {folder / STATUS}: it is no status")
    if told.get("state") not in ENDED and owner(folder) is None:
        told["state"] = "died"
    return told


def owner(folder: Path) -> int | None:
    """Return the process that holds the lock; None if nobody does."""
    try:
        with (folder / LOCK).open("rb", buffering=0) as lock:
            return None if _is_taken(lock, fcntl.LOCK_SH) else _number(lock)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot read {folder / LOCK}: {error.strerror or error}") from error


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


def _number(lock: IO[bytes]) -> int:
    lock.seek(0)
    text = lock.read().strip()
    return int(text) if text.isdigit() else 0
