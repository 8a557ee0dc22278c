"""`moldau serve` as a process, seen from outside: its two outputs, its status, its memory.

Unlike the harness of the compatibility suite this one keeps the outputs apart and knows of every
way to end, because here they are the subject. It leaves no process behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

MOLDAU = Path(sys.executable).with_name("moldau")
START_TIMEOUT_S = 60
"""A start takes under a second on two idle cores; others may use them."""
STOP_TIMEOUT_S = 60
CRASHED = 137
"""The status of a broker that came to its crash point; see `cli.serve`."""


class Serving:
    """One run of `moldau serve`; also a context manager."""

    def __init__(
        self,
        directory: Path,
        *options: str,
        overrides: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        data: Path | None = None,
        file_size_max: int | None = None,
    ) -> None:
        self.directory = directory
        self.data = data or directory / "data"
        self.options: list[str] = list(options) or [
            "--data", str(self.data), "--listen", "127.0.0.1:0",
        ]  # fmt: skip
        for key, value in (overrides or {}).items():
            self.options += ["--override", f"{key}={value}"]
        self._environ = {**os.environ, "PYTHONUNBUFFERED": "1", **(environ or {})}
        self._errors = directory / f"errors-{time.monotonic_ns()}.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""
        self._file_size_max = file_size_max
        self.host, self.port = "", 0

    # Starting

    def launch(self) -> Self:
        """Start without waiting for anything."""
        limits = []
        if self._file_size_max is not None:
            limits = ["prlimit", f"--fsize={self._file_size_max}"]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*limits, str(MOLDAU), "serve", *self.options],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environ,
                start_new_session=True,
            )
        return self

    def start(self) -> Self:
        """Start and return at the ready line."""
        return self.launch().wait_until_ready()

    def wait_until_ready(self) -> Self:
        """Read the ready line of a broker that was launched."""
        line = self.read_line()
        word, _, address = line.partition(" ")
        if word != "ready":
            self.kill()
            raise AssertionError(f"no ready line but {line!r}; it said:\n{self.errors}")
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)
        return self

    def read_line(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Return the next line of its standard output, without the newline; '' at the end."""
        stdout = self.process.stdout
        assert stdout is not None
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise AssertionError(f"no line within {timeout_s} s; it said:\n{self.errors}")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                break
            self._said += chunk
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()

    def __enter__(self) -> Self:
        return self.start() if self._process is None else self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.kill()
            return
        status = self.stop()
        assert status == 0, f"stopped with status {status}:\n{self.errors}"
        assert "Traceback" not in self.errors, self.errors

    # What is seen of it

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not launched"
        return self._process

    @property
    def errors(self) -> str:
        """Everything it has written to its standard error."""
        return self._errors.read_text(errors="replace")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def resident_size(self) -> int:
        """Return the bytes of memory that the broker and its worker processes occupy now."""
        return sum(_resident_size(pid) for pid in (self.process.pid, *self.children()))

    def resident_peak(self) -> int:
        """Return the most bytes of memory the broker itself has occupied so far."""
        return _status_size(self.process.pid, "VmHWM")

    def children(self) -> Sequence[int]:
        """Return the processes that it has started, from whichever of its threads."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for children in threads for pid in children.read_text().split()]

    def cpu_seconds(self) -> float:
        """Return the time the broker has spent on a core so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # Ending

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Return its status once it has ended of itself."""
        if not self._ended(timeout_s):
            self.kill()
            raise AssertionError(f"it did not end; it said:\n{self.errors}")
        return self._bury()

    def _ended(self, timeout_s: float) -> bool:
        if self.process.returncode is not None:
            return True
        descriptor = os.pidfd_open(self.process.pid)
        try:
            return bool(select.select([descriptor], [], [], timeout_s)[0])
        finally:
            os.close(descriptor)

    def _bury(self) -> int:
        """Take its status, after ending what is left of its group while the number is still its."""
        process = self.process
        if process.returncode is None:
            # Only worker processes are left, and they end with it of themselves.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()
        return process.wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """Ask it to stop, unless it has ended already, and return its status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it without a word (-9), as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._bury()


def refused(directory: Path, *options: str, **more: object) -> str:
    """Run a start that must fail; return the one line it says."""
    serving = Serving(directory, *options, **more).launch()  # type: ignore[arg-type]
    status = serving.wait()
    lines = serving.errors.splitlines()
    assert status > 0, f"status {status}: {serving.errors}"
    assert len(lines) == 1, f"not one line:\n{serving.errors}"
    return lines[0]


def snapshot(folder: Path) -> dict[str, tuple[str, int]]:
    """Describe everything below a folder: what a refused start must leave as it was."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder",
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }


def _resident_size(pid: int) -> int:
    try:
        return _status_size(pid, "VmRSS")
    except (FileNotFoundError, StopIteration):
        return 0


def _status_size(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])
