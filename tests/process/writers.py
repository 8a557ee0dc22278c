"""Producers with a memory: what was acknowledged where, and what may or may not have happened.

Each writes numbered records to one partition until its broker is gone, and knows afterwards which
of them the broker has promised to keep. A plain one never sends anything twice; an idempotent one
repeats what was left without an answer under its old sequence numbers, as a client's library does.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import InitProducerIdRequest
from process.raw_client import RawClient, batch_of

RECORDS_MAX = 12
RECORD_SIZE_MAX = 8000
"""A segment of the smallest size Kafka allows, 1 MiB, is full after some twenty batches."""


class Sent(NamedTuple):
    """A batch on its way."""

    values: list[bytes]
    batch: bytes


class Writer:
    """One producer of one partition, over all lives of its broker."""

    def __init__(self, topic: str, partition: int, *, idempotent: bool, seed: int) -> None:
        self.topic = topic
        self.partition = partition
        self.acknowledged: dict[int, bytes] = {}
        self.doubtful: set[bytes] = set()
        """Sent, never acknowledged, never sent again: there or not, but not twice."""
        self.refusals: list[str] = []
        self._idempotent = idempotent
        self._producer: tuple[int, int] | None = None
        self._next_sequence = 0
        self._next_number = 0
        self._unanswered: Sent | None = None
        self._dice = random.Random(seed)

    def write(self, address: tuple[str, int], enough: threading.Event) -> None:
        """Write until it is enough or the broker is gone."""
        try:
            with RawClient(address) as client:
                if self._idempotent and self._producer is None:
                    answer = client.call(InitProducerIdRequest(None, 0), 1)
                    assert answer.error_code == 0, ErrorCode(answer.error_code).name
                    self._producer = (answer.producer_id, answer.producer_epoch)
                while not enough.is_set() and not self.refusals:
                    self._send(client)
        except OSError:
            if not self._idempotent and self._unanswered is not None:
                self.doubtful.update(self._unanswered.values)
                self._unanswered = None

    def _send(self, client: RawClient) -> None:
        sent = self._unanswered = self._unanswered or self._next()
        answer = client.produce(self.topic, sent.batch, self.partition)
        if answer.error_code:
            self.refusals.append(f"{self}: {ErrorCode(answer.error_code).name}")
            return
        for place, value in enumerate(sent.values, answer.base_offset):
            assert place not in self.acknowledged, f"{self}: offset {place} was given twice"
            self.acknowledged[place] = value
        self._unanswered = None

    def _next(self) -> Sent:
        dice = self._dice
        values = []
        for _ in range(dice.randint(1, RECORDS_MAX)):
            values.append(b"%s %d " % (str(self).encode(), self._next_number))
            values[-1] += dice.randbytes(dice.randint(1, RECORD_SIZE_MAX))
            self._next_number += 1
        producer = (-1, -1, -1)
        if self._producer is not None:
            producer = (*self._producer, self._next_sequence)
            self._next_sequence += len(values)
        return Sent(values, batch_of(values, producer=producer))

    def check(self, address: tuple[str, int]) -> None:
        """Read the partition back and compare it with what was promised."""
        assert not self.refusals, self.refusals
        with RawClient(address) as client:
            records = client.read_all(self.topic, self.partition)
        assert [record.offset for record in records] == list(range(len(records)))
        stored = {record.offset: record.value for record in records}
        lost = [
            offset for offset, value in self.acknowledged.items() if stored.get(offset) != value
        ]
        assert not lost, f"{self}: lost or changed at {lost[:10]} of {len(records)}"
        uncertain = self.doubtful | set(self._unanswered.values if self._unanswered else ())
        surplus = [value for offset, value in stored.items() if offset not in self.acknowledged]
        assert len(set(surplus)) == len(surplus), f"{self}: written twice"
        assert set(surplus) <= uncertain, f"{self}: {len(surplus)} records nobody sent"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def make_writers(partitions: int, seed: int) -> list[Writer]:
    """Return a plain and an idempotent writer for each partition of two topics."""
    return [
        Writer(topic, partition, idempotent=topic == "exact", seed=seed * 100 + partition)
        for topic in ("plain", "exact")
        for partition in range(partitions)
    ]


class Load:
    """Writers at work, each in its thread."""

    def __init__(self, writers: Sequence[Writer], address: tuple[str, int]) -> None:
        self._writers = writers
        self._enough = threading.Event()
        self._threads = [
            threading.Thread(target=writer.write, args=(address, self._enough))
            for writer in writers
        ]
        for thread in self._threads:
            thread.start()

    def acknowledged_count(self) -> int:
        """Return how many records all writers have been promised so far."""
        return sum(len(writer.acknowledged) for writer in self._writers)

    def working(self) -> bool:
        """Tell whether a writer still has a broker to talk to."""
        return any(thread.is_alive() for thread in self._threads)

    def finish(self) -> None:
        """Let every writer come to its end."""
        self._enough.set()
        for thread in self._threads:
            thread.join()


def check_all(writers: Iterable[Writer], address: tuple[str, int]) -> None:
    """Check every writer's partition."""
    for writer in writers:
        writer.check(address)
