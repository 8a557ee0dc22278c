"""A machine that tells what a test wants, and is ready for a broker otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from moldau.cli.doctor.machine import Folder, Java, Python, WallClock
from moldau.cli.doctor.plan import BrokerPlan, Port

NOW_S = 1_800_000_000.0
GB = 10**9

PYTHON = Python("CPython", (3, 13, 0))
JAVA = Java("/usr/bin/java")
CLOCK = WallClock(NOW_S, NOW_S - 1000, is_synchronized=True)
GOOD_FOLDER = Folder(
    existing="/data",
    is_folder=True,
    is_writable=True,
    file_system="ext4",
    size_bytes=1000 * GB,
    free_bytes=500 * GB,
    free_files=10**6,
    newest_file_s=NOW_S - 60,
    can_send_files=True,
    tells_cached_pages=True,
    is_locked=False,
)

PLAN = BrokerPlan(
    log_dirs=("/data",),
    segment_bytes=GB,
    ports=(Port("listener PLAINTEXT", "", 9092),),
    advertised_hosts=("broker-1",),
    backlog=50,
    request_memory_bytes=GB // 4,
    is_on_zookeeper=False,
)


def folder(**changes: Any) -> Folder:
    """Return a good folder, apart from these values."""
    return replace(GOOD_FOLDER, **changes)


@dataclass
class ToldMachine:
    """A machine of plain values."""

    named_system: str = "linux"
    interpreter: Python = PYTHON
    compiled: bool = True
    crc: bool = True
    missing: tuple[str, ...] = ()
    a_java: Java = JAVA
    a_clock: WallClock = CLOCK
    open_files: int = 1_048_576
    memory: int | None = 16 * GB
    somaxconn: int | None = 4096
    handles: bool = True
    folders: dict[str, Folder] = field(default_factory=dict)
    taken: str | None = None
    known_hosts: bool = True

    def system(self) -> str:
        return self.named_system

    def python(self) -> Python:
        return self.interpreter

    def is_compiled(self) -> bool:
        return self.compiled

    def has_crc_instruction(self) -> bool:
        return self.crc

    def installed_version(self, distribution: str) -> str | None:
        return None if distribution in self.missing else "1.0"

    def java(self) -> Java:
        return self.a_java

    def clock(self) -> WallClock:
        return self.a_clock

    def open_files_max(self) -> int:
        return self.open_files

    def memory_bytes(self) -> int | None:
        return self.memory

    def backlog_max(self) -> int | None:
        return self.somaxconn

    def has_process_handles(self) -> bool:
        return self.handles

    def folder(self, path: str) -> Folder:
        return self.folders.get(path, GOOD_FOLDER)

    def why_not_bound(self, host: str, port: int) -> str | None:
        return self.taken

    def is_known_host(self, host: str) -> bool:
        return self.known_hosts
