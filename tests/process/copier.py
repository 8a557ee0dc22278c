"""A copier that does everything exactly once, and the processes and threads around it.

Run as a program it is one instance: a member of a group that reads a topic, changes each record,
and writes it to the same partition of another topic, with the place behind it in one transaction.
It goes on after what can be undone, and ends at what cannot, or when it is stuck; then somebody
starts it again.

The rest is for the test: a `Feeder` of numbered records, `Instances` of the program, and a `Reader`
that watches the output. Because every partition is copied in order, the numbers of an output
partition say it all: whatever is read at any moment must be 0, 1, 2, ... without a gap.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

INPUT, OUTPUT, GROUP = "input", "output", "copiers"
RECORDS_MAX = 200
"""In one transaction."""
SESSION_MS = 2_000
"""A member that was killed is missed after this long; the broker must allow so little."""
TRANSACTION_MS = 10_000
POLL_S = 0.2
TIMEOUT_S = 30
QUIET = 2
"""Critical and worse: to be without a broker for a while is what they are made for."""
STUCK_S = 12
"""An instance that takes longer for one transaction ends itself. After its broker was away,
librdkafka 2.16 may stay in `send_offsets_to_transaction` for ever, whatever the time-out: it has
the answer to AddOffsetsToTxn and sends nothing more (its issues 5456 and 5511)."""


def copied(value: bytes) -> bytes:
    """Make a record of the output from one of the input."""
    return b"copy-of-" + value


class Copier:
    """One instance of the program."""

    def __init__(self, address: str, transactional_id: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": SESSION_MS // 4,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_MS,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
            }
        )

    def run(self) -> None:
        """Copy for ever; raises what cannot be undone."""
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        self._producer.init_transactions(TIMEOUT_S)
        self._consumer.subscribe([INPUT])
        while True:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            messages = self._consumer.consume(RECORDS_MAX, POLL_S)
            usable = [message for message in messages if message.error() is None]
            if usable:
                self._copy(usable)

    def _copy(self, messages: Sequence[Message]) -> None:
        self._producer.begin_transaction()
        try:
            for message in messages:
                self._producer.produce(
                    OUTPUT, copied(message.value()), partition=message.partition()
                )
            behind = {message.partition(): message.offset() + 1 for message in messages}
            self._producer.send_offsets_to_transaction(
                [TopicPartition(INPUT, index, offset) for index, offset in behind.items()],
                self._consumer.consumer_group_metadata(),
                TIMEOUT_S,
            )
            self._commit()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(TIMEOUT_S)
            self._go_back({message.partition(): message.offset() for message in reversed(messages)})

    def _commit(self) -> None:
        """Commit; as long as the outcome is unknown it is asked for again."""
        while True:
            try:
                self._producer.commit_transaction(TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def _go_back(self, firsts: dict[int, int]) -> None:
        """Read again what was not copied, of the partitions that are still this member's."""
        mine = {one.partition for one in self._consumer.assignment()}
        for index, offset in firsts.items():
            if index in mine:
                # One that is taken away this very moment begins where it was committed anyway.
                with contextlib.suppress(KafkaException):
                    self._consumer.seek(TopicPartition(INPUT, index, offset))


class Instances:
    """Copiers in processes of their own; a slot keeps its transactional id over all its lives."""

    def __init__(self, address: str, count: int, directory: Path) -> None:
        self._address = address
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        self.start_count = 0

    def __len__(self) -> int:
        return len(self._processes)

    def start_missing(self) -> None:
        """Start every instance that has ended, or was never there."""
        for slot, process in enumerate(self._processes):
            if process is None or process.poll() is not None:
                self._processes[slot] = self._start(slot)

    def _start(self, slot: int) -> subprocess.Popen[bytes]:
        self.start_count += 1
        with (self._directory / f"copier-{slot}.txt").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, __file__, self._address, f"copier-{slot}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self, slot: int) -> None:
        """End an instance without a word (-9)."""
        process = self._processes[slot]
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def said(self) -> str:
        """What the instances have printed, for a failure."""
        files = sorted(self._directory.glob("copier-*.txt"))
        return "\n".join(f"{file.name}: {file.read_text()[-2000:]}" for file in files)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for slot in range(len(self._processes)):
            self.kill(slot)


class Feeder:
    """Writes 0, 1, 2, ... to each partition of the input, with idempotence, until it is enough."""

    def __init__(self, address: str, partitions: int, pause_s: float) -> None:
        self.counts = [0] * partitions
        """How many were sent; all are acknowledged once `finish` has returned."""
        self._pause_s = pause_s
        self._enough = threading.Event()
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": QUIET,
            }
        )
        self._thread = threading.Thread(target=self._feed, name="feeder")
        self._thread.start()

    def _feed(self) -> None:
        while not self._enough.wait(self._pause_s):
            for index in range(len(self.counts)):
                with contextlib.suppress(BufferError):
                    self._producer.produce(
                        INPUT, b"%d" % self.counts[index], partition=index, on_delivery=self._heard
                    )
                    self.counts[index] += 1
            self._producer.poll(0)

    def _heard(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def finish(self) -> None:
        """Stop, and wait until everything is acknowledged."""
        self._enough.set()
        self._thread.join()
        left = self._producer.flush(TIMEOUT_S)
        assert not left, f"{left} records were not acknowledged"
        assert not self._failures, self._failures[:3]

    def close(self) -> None:
        """Finish, and leave the broker alone."""
        self.finish()
        self._producer.close()


class Reader:
    """Reads the output as it is committed, all the time, and stops at the first wrong record."""

    def __init__(self, address: str, partitions: int) -> None:
        self.counts = [0] * partitions
        """How many records were read, all of them right."""
        self.wrong: list[str] = []
        self._enough = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 500,
                "log_level": QUIET,
            }
        )
        self._consumer.assign([TopicPartition(OUTPUT, index, 0) for index in range(partitions)])
        self._thread = threading.Thread(target=self._read, name="reader")
        self._thread.start()

    def _read(self) -> None:
        while not self._enough.is_set() and not self.wrong:
            for message in self._consumer.consume(500, POLL_S):
                if message.error() is None:
                    self.take(message.partition(), message.offset(), message.value())
                elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                    self.wrong.append(f"what was read is gone: {message.error()}")

    def take(self, partition: int, offset: int, value: bytes) -> None:
        """Compare a record with the one that must come next."""
        expected = copied(b"%d" % self.counts[partition])
        if value != expected:
            self.wrong.append(f"{partition}@{offset}: {value!r} instead of {expected!r}")
        else:
            self.counts[partition] += 1

    def check(self) -> None:
        """Raise if something was wrong so far."""
        assert not self.wrong, self.wrong

    def close(self) -> None:
        self._enough.set()
        self._thread.join()
        self._consumer.close()


if __name__ == "__main__":
    Copier(*sys.argv[1:]).run()
