"""What a machine tells about itself, as counters and levels; the port of the metrics collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class ProcessReading(NamedTuple):
    """One process."""

    pid: int
    started_s: float
    """With the id it tells a process from one that had its id before."""
    name: str
    cpu_s: float
    """Seconds on a core so far."""
    memory_size: int
    """Bytes of memory it occupies."""
    thread_count: int


@dataclass(frozen=True, slots=True)
class HostReading:
    """A whole machine; counters count from its start."""

    cpu_s: Mapping[str, float]
    """Seconds of all cores together by what they were spent on: user, system, idle, iowait..."""
    load: float
    memory_size: int
    memory_available_size: int
    swap_used_size: int
    disks: Mapping[str, Mapping[str, float]]
    """Per device: read_bytes, write_bytes, read_count, write_count, busy_s where it is told."""
    networks: Mapping[str, Mapping[str, float]]
    """Per interface: bytes_recv, bytes_sent, errors, drops."""


class Machine(Protocol):
    """A machine that can be measured."""

    def host(self) -> HostReading:
        """Read the whole of it."""
        ...

    def processes(self) -> Sequence[ProcessReading]:
        """Read every process that may be looked at."""
        ...
