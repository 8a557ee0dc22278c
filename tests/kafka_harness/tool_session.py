"""Many runs of Kafka's command line tools in one virtual machine, one after the other.

A tool takes a second or two to start and a tenth of that to do its work. So tests share a session
for each version of Kafka. Each run still has its own output, status and deadline; after one that
missed it the next begins with a new machine.
"""

from __future__ import annotations

import base64
import contextlib
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .distribution import CHECKOUT, jars, require
from .java import QUICK_START, QUIET, JavaError, Output, compiled

SOURCE = CHECKOUT / "tests" / "java" / "ToolSession.java"

_RUN_TIMEOUT_S = 60
_END_TIMEOUT_S = 10


class ToolSession:
    """Tools of one version of Kafka; a context manager that leaves no process behind.

    The virtual machine starts with the first run.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        classes: Path = compiled(self._version, SOURCE)
        command = [
            require("java"), *QUICK_START, QUIET,
            "-cp", f"{jars(self._version)}/*:{classes}", SOURCE.stem,
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._received = b""
        return self._process

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _close_pipes(process)
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _kill(process)

    def run(
        self,
        main_class: str,
        *arguments: object,
        check: bool = True,
        timeout_s: float = _RUN_TIMEOUT_S,
    ) -> Output:
        """Run a main class; with `check` anything but status 0 is an error."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        words = [main_class, *(str(argument) for argument in arguments)]
        process.stdin.write(
            b" ".join(b"=" + base64.b64encode(one.encode()) for one in words) + b"\n"
        )
        process.stdin.flush()
        status, *said = self._line(process.stdout, words, timeout_s).split(b" ")
        stdout, stderr = (base64.b64decode(one[1:]).decode() for one in said)
        output = Output(stdout, stderr, int(status))
        if check and output.status:
            raise JavaError(f"{' '.join(words)}: status {output.status}\n{stdout}{stderr}")
        return output

    def _line(self, pipe: IO[bytes], words: list[str], timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._received:
            ready, _, _ = select.select([pipe], [], [], max(0, deadline - time.monotonic()))
            chunk = pipe.read1(1 << 20) if ready else b""  # type: ignore[attr-defined]
            if not chunk:
                process, self._process = self._process, None
                assert process is not None
                _close_pipes(process)
                _kill(process)
                raise JavaError(f"{' '.join(words)}: no answer within {timeout_s} s")
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(_END_TIMEOUT_S)
