"""`moldau collect` as a process, and what it has sent, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.client.consumer import Consumer
from moldau.client.records import Record
from process.serving import MOLDAU, STOP_TIMEOUT_S


class Collecting:
    """One run of `moldau collect`; also a context manager that leaves no process behind."""

    def __init__(self, directory: Path, *arguments: object) -> None:
        self._errors = directory / f"collecting-{time.monotonic_ns()}.txt"
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [str(MOLDAU), "collect", *map(str, arguments)],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, "MOLDAU_CONFIG": os.devnull},
            )

    @property
    def said(self) -> str:
        """Everything it has written."""
        return self._errors.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> int:
        """Ask it to stop and return its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it without a word, as a crash would."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def records_of(address: str, topic: str) -> list[Record[bytes, bytes]]:
    """Read all there is in a topic, partition by partition."""
    found: list[Record[bytes, bytes]] = []
    with Consumer(address, auto_offset_reset="earliest", fetch_max_wait_ms=10) as consumer:
        ends = consumer.end_offsets(consumer.partitions_for(topic))
        consumer.assign(ends)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += consumer.poll(timeout_ms=1_000)
    return sorted(found, key=lambda record: (record.partition, record.offset))
