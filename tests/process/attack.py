"""A broker under attack, and the two kinds of client around it.

An `Offender` sends what it likes and can read what the broker has logged about it. Meanwhile a
`Healthy` client writes and reads all the time and must not notice anything.
"""

from __future__ import annotations

import contextlib
import re
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kafka_harness.waiting import eventually
from moldau.protocol.errors import ErrorCode
from moldau.protocol.registry import api_of, encode_request
from moldau.records.batch import HEADER_SIZE, BatchHeader, pack_batch
from process.raw_client import RawClient, batch_of
from process.serving import Serving

MIB = 1 << 20
PLAIN, COMPACTED, UNPACKED = "plain", "compacted", "unpacked"
"""Taken as it comes; keys are looked at; batches are inflated and stored without a codec."""
TARGETS = (PLAIN, COMPACTED, UNPACKED)
BIG_MESSAGE = 32 * MIB
"""Room for a bomb of the codec that packs worst."""

FRAME_LIMIT = 100 * MIB
"""socket.request.max.bytes, Kafka's default."""


@dataclass
class Healthy:
    """A client like any other, at work in a thread of its own."""

    broker: Serving
    topic: str = "healthy"
    record_size: int = 0
    """Records are filled up to this size."""
    rounds: int = 0
    slowest_s: float = 0.0
    trouble: list[BaseException] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        try:
            with RawClient((self.broker.host, self.broker.port)) as client:
                while not self._stop.wait(0.005):
                    start = time.monotonic()
                    value = (b"record %d" % self.rounds).ljust(self.record_size, b".")
                    assert client.produce(self.topic, batch_of([value])).base_offset == self.rounds
                    fetched = client.fetch(self.topic, self.rounds)
                    assert value in bytes(fetched.records)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - start)
                    self.rounds += 1
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            self.trouble.append(error)

    def check(self) -> None:
        """Wait until it has done a whole round since now."""
        goal = self.rounds + 2
        eventually(lambda: self.trouble or self.rounds >= goal, "the healthy client goes on")
        assert not self.trouble

    def stop(self) -> None:
        self._stop.set()


class Offender(RawClient):
    """A client that knows what the broker has logged about it."""

    def __init__(self, broker: Serving, **options: int) -> None:
        # Ports are used again; what was logged before is about somebody else.
        self._broker, self._log_start = broker, len(broker.errors)
        super().__init__((broker.host, broker.port), **options)  # type: ignore[arg-type]

    def lines(self) -> list[str]:
        """Return the log lines that name this client."""
        logged = self._broker.errors[self._log_start :]
        return [line for line in logged.splitlines() if re.search(rf"{self.local}\b", line)]

    def closed_with_one_line(self) -> str:
        """Check that the broker closes this connection and says why, once."""
        assert self.was_closed()
        (line,) = self.lines()
        return line


@contextlib.contextmanager
def broker_under_attack(directory: Path) -> Iterator[Serving]:
    """Run a broker that holds the topics under attack and the healthy client's."""
    with Serving(directory) as running:
        with connect(running) as client:
            room = {"max.message.bytes": str(BIG_MESSAGE)}
            unpacked = {"compression.type": "uncompressed"} | room
            assert client.create_topic("healthy") == 0
            assert client.create_topic(PLAIN) == 0
            assert client.create_topic(COMPACTED, config={"cleanup.policy": "compact"} | room) == 0
            assert client.create_topic(UNPACKED, config=unpacked) == 0
        yield running


@contextlib.contextmanager
def healthy_client(
    broker: Serving, topic: str = "healthy", record_size: int = 0
) -> Iterator[Healthy]:
    """Let a healthy client work on a topic that is empty."""
    client = Healthy(broker, topic, record_size)
    thread = threading.Thread(target=client.work, daemon=True)
    thread.start()
    yield client
    client.stop()
    thread.join()


@contextlib.contextmanager
def nobody_disturbed(broker: Serving, healthy: Healthy) -> Iterator[None]:
    """Check around a test that nobody else noticed it."""
    before = end_offsets(broker)
    yield
    healthy.check()
    assert "Traceback" not in broker.errors, broker.errors
    assert end_offsets(broker) == before, "something was written"
    assert ErrorCode.UNKNOWN_SERVER_ERROR.name not in broker.errors


def end_offsets(broker: Serving) -> list[int]:
    with connect(broker) as client:
        return [client.offset(topic) for topic in TARGETS]


def connect(broker: Serving, **options: int) -> Offender:
    return Offender(broker, **options)


def request_bytes(request: object, version: int) -> bytes:
    """Return a request with its header, without its size."""
    parts = encode_request(api_of(type(request)), version, 1, "raw", request)
    return b"".join(parts)[4:]  # type: ignore[arg-type]


def forged(batch: bytes | None = None, payload: bytes | None = None, **changes: int) -> bytes:
    """Change a valid batch's header, keeping its checksum right."""
    batch = batch or batch_of([b"value"])
    header = BatchHeader._make(struct.unpack_from(">qiiBIhiqqqhii", batch))
    header = header._replace(**changes)  # type: ignore[arg-type]
    return pack_batch(header, batch[HEADER_SIZE:] if payload is None else payload)


def with_byte(batch: bytes, position: int, value: int) -> bytes:
    changed = bytearray(batch)
    changed[position] = value
    return bytes(changed)
