"""What processes and their children have used, as the kernel counts it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STOLEN = 7
"""Its place among the times of all processors."""


def family(pid: int) -> list[int]:
    """Return a process and all its living descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def cpu_seconds(*pids: int) -> float:
    """Return user and kernel time of processes, their living descendants and dead children."""
    ticks = 0
    for each in (each for pid in pids for each in family(pid)):
        if fields := _stat(each):
            # utime, stime; and of children that were waited for, cutime, cstime
            ticks += sum(int(value) for value in fields[11:15])
    return ticks / _TICKS_PER_SECOND


def running_seconds(pid: int) -> float:
    """Return how long the main thread of a process has run, finer than `cpu_seconds` can tell."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


class Stolen:
    """How much of the processors' time other guests of the machine took, from here on."""

    def __init__(self) -> None:
        self._began, self._before_s = time.perf_counter(), _stolen_seconds()

    def share(self) -> float:
        """Return it as a part of all the time that the processors had."""
        processors_s = (time.perf_counter() - self._began) * (os.cpu_count() or 1)
        return (_stolen_seconds() - self._before_s) / processors_s


def peak_memory_mb(*pids: int) -> float:
    """Return the largest resident size so far, summed over processes and their descendants."""
    return sum(_status_kb(each, "VmHWM") for pid in pids for each in family(pid)) * 1024 / 1e6


def disk_read_bytes(pid: int) -> int:
    """Return what a process has made the disk read, as opposed to the page cache."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "read_bytes":
            return int(value)
    raise OSError(f"/proc/{pid}/io has no read_bytes")


def _stolen_seconds() -> float:
    _, *ticks = Path("/proc/stat").read_text().split(maxsplit=10)
    return int(ticks[_STOLEN]) / _TICKS_PER_SECOND


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the command name, which may itself hold spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it ended while we looked
        return None
    return text.rpartition(")")[2].split()


def _status_kb(pid: int, wanted: str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == wanted:
            return int(value.split()[0])
    return 0
