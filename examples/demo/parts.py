"""Processes: each is started with a log of its own, watched, and ended by its id.

They live in sessions of their own, so that Ctrl-C reaches the demonstration alone, which then ends
them in order. A part that ends before its time has failed; its log is kept where it can be read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil
from examples.demo.ending import Ending

PATIENCE_S: Final = 60.0
"""How long a part may take to end: a pipeline ends its running batch first. Then it is asked once
more, which a pipeline takes as a wish to leave the batch."""
HASTE_S: Final = 3.0
"""The same when somebody has pressed Ctrl-C: he wants his machine back."""
OFFSPRING_PATIENCE_S: Final = 20.0
"""How much longer what a part has started may live: Spark's virtual machine clears up."""
_LOOK_S: Final = 0.05


class PartFailed(Exception):  # noqa: N818 - it names the event
    """A part has ended before its time; the text says which, why, and where its log is kept."""


@dataclass(frozen=True, slots=True)
class Part:
    """One running process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> list[str]:
        """Return the lines it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()

    def offspring(self) -> list[psutil.Process]:
        """Return the processes that it has started, and those that these have."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.process.pid).children(recursive=True))
        return []


class Parts:
    """All processes of the demonstration; none of them outlives this."""

    def __init__(self, folder: Path, ending: Ending) -> None:
        self._folder = folder
        self._ending = ending
        self._running: list[Part] = []
        (folder / "tmp").mkdir()
        (folder / "logs").mkdir()
        ending.in_haste = self.kill

    def start(self, name: str, command: Sequence[str]) -> Part:
        """Start a process; what it says goes to its log, and what it leaves in `tmp` with us."""
        log = self._folder / "logs" / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own command lines
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(self._folder / "tmp")},
                start_new_session=True,
            )
        part = Part(name, process, log)
        self._running.append(part)
        return part

    @property
    def running(self) -> list[Part]:
        """Those that have not been ended."""
        return list(self._running)

    def check(self) -> None:
        """Raise PartFailed if a part has ended, unless all shall."""
        for part in self._running:
            status = part.process.poll()
            if status is not None and not self._ending.is_asked_for:
                raise self._failure(part, f"has ended with status {status}")

    def end(self, parts: Sequence[Part]) -> None:
        """End some parts, all at once, and wait until they have; PartFailed if one ends badly."""
        offspring = [process for part in parts for process in part.offspring()]
        for _ in range(2):
            for part in parts:
                part.process.terminate()
            if self._have_ended(parts):
                break
        for part in parts:
            if (status := part.process.poll()) != 0 and not self._ending.is_asked_for:
                how = "does not end" if status is None else f"ends with status {status}"
                raise self._failure(part, how)
            part.process.kill()
            part.process.wait()
            self._running.remove(part)
        _bury(offspring)

    def kill(self) -> None:
        """Wait for nobody any more but the first part, the broker, which is quick."""
        for part in self._running[1:]:
            for process in part.offspring():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            part.process.kill()

    def _have_ended(self, parts: Sequence[Part]) -> bool:
        """Wait until parts have ended; tell whether they have."""
        began_s = time.monotonic()
        while any(part.process.poll() is None for part in parts):
            patience_s = HASTE_S if self._ending.is_asked_for else PATIENCE_S
            if time.monotonic() - began_s > patience_s:
                return False
            time.sleep(_LOOK_S)
        return True

    def _failure(self, part: Part, how: str) -> PartFailed:
        """Keep the log of a part, and say where."""
        handle, kept = tempfile.mkstemp(prefix=f"moldau-demo-{part.name}-", suffix=".log")
        os.close(handle)
        shutil.copyfile(part.log, kept)
        last = next((line for line in reversed(part.said()) if line.strip()), "it said nothing")
        return PartFailed(f"{part.name} {how}: {last.strip()} (its log: {kept})")

    def __enter__(self) -> Self:
        """Begin without any."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End whatever still runs, the first part last, as the others talk to it."""
        self._ending.ask()
        for parts in (self._running[1:], self._running[:1]):
            self.end(parts)


def _bury(processes: Sequence[psutil.Process]) -> None:
    """Wait until processes that are not our children have ended, and kill those that do not."""
    deadline = time.monotonic() + OFFSPRING_PATIENCE_S
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                if time.monotonic() > deadline:
                    process.kill()
                    break
                time.sleep(_LOOK_S)
