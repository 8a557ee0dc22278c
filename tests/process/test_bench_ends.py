"""A bench that is told to end takes its brokers with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


def children(pid: int) -> dict[int, bytes]:
    """Return the processes that a process has started from its main thread, and their commands."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child): command_of(child) for child in found}


def command_of(pid: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("module", "count"),
    [("bench.run", 1), pytest.param("bench.cluster", 3, marks=pytest.mark.long)],
)
def test_sigterm_ends_the_brokers_of_a_bench(tmp_path, module, count):
    command = [
        sys.executable, "-m", module, "--quick", "--works", "latency", "--baseline", "moldau",
        "--candidate", "moldau", "--directory", str(tmp_path), "--output", str(tmp_path / "page"),
    ]  # fmt: skip
    bench = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    started: dict[int, bytes] = {}
    try:
        deadline = time.monotonic() + PATIENCE_S
        # A load runs once all brokers serve.
        while not any(b"bench.load" in command for command in started.values()):
            assert bench.poll() is None
            assert time.monotonic() < deadline, "no load was started"
            started = children(bench.pid)
        brokers = [pid for pid, command in started.items() if b"serve" in command]
        assert len(brokers) == count
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(PATIENCE_S) == 128 + signal.SIGTERM
        assert all(map(is_gone, brokers))
    finally:
        bench.kill()
        bench.wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
