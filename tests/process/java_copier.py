"""Kafka's own client as a copier: the protocol of transaction version 2, under the same fire.

The Java process is told step by step what to do, by a thread here. What it cannot go on with ends
the client, and the next one takes over its transactional id.
"""

from __future__ import annotations

import itertools
import threading

from kafka_harness.distribution import CURRENT
from kits.transactional_clients import Java, JavaMachine, Refused
from process.copier import GROUP, INPUT, OUTPUT, copied

TRANSACTION_MS = 10_000


class JavaCopier:
    """One member that copies partition by partition, over all its lives."""

    def __init__(self, address: str) -> None:
        self.failures: list[str] = []
        """Why clients were given up."""
        self.broken: Exception | None = None
        self._machine = JavaMachine(CURRENT, address)
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="java copier")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._enough.is_set():
                self._live()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.broken = error

    def _live(self) -> None:
        """Copy until it is enough, or until something cannot be undone."""
        client = Java(self._machine, "java-copier", TRANSACTION_MS)
        try:
            client.init()
            client.join(GROUP, INPUT)
            while not self._enough.is_set():
                self._copy(client, client.poll_records())
        except Refused as refused:
            self.failures.append(str(refused))
        finally:
            client.close()

    def _copy(self, client: Java, records: list[tuple[int, str]]) -> None:
        if not records:
            return
        client.begin()
        for partition, values in itertools.groupby(records, key=lambda record: record[0]):
            together = [copied(value.encode()).decode() for _, value in values]
            client.send_all(OUTPUT, partition, together)
        client.send_offsets_and_commit()

    def start_missing(self) -> None:
        """Raise what has ended the thread; clients start themselves."""
        if self.broken is not None:
            raise self.broken

    def said(self) -> str:
        """Why clients were given up, for a failure."""
        return "\n".join(self.failures[-5:])

    def close(self) -> None:
        self._enough.set()
        self._thread.join()
        self._machine.close()
