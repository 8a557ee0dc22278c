"""Load on a running cluster: sending records, reading them, and round trips.

Owns the loops and their timing. Does not know which latencies a command keeps, when it stops
reading, nor how it prints figures.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.cli.frame import client

if TYPE_CHECKING:
    from moldau.base.clock import Clock

POLL_MS: Final = 500
LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Load(NamedTuple):
    """Records to send."""

    topic: str
    values: Iterator[bytes]
    record_count: int
    rate: float | None = None
    """Records a second at most."""
    transaction_s: float | None = None
    """How long each transaction is open; None sends without transactions."""


async def send_load(
    producer: client.AsyncProducer[Any, Any],
    load: Load,
    on_sent: Callable[[client.AsyncDelivery, bytes], None],
    clock: Clock,
) -> None:
    """Send records as fast as allowed, and wait until all of them are settled.

    `on_sent` is called with each delivery and value; it learns of errors from the deliveries.
    """
    began = opened = clock.monotonic()
    for number, value in enumerate(islice(load.values, load.record_count)):
        if load.transaction_s is not None and not producer.in_transaction:
            producer.begin_transaction()
            opened = clock.monotonic()
        on_sent(producer.send(load.topic, value), value)
        await producer.drain()
        if load.transaction_s is not None and clock.monotonic() - opened >= load.transaction_s:
            await producer.commit_transaction()
        if (
            load.rate is not None
            and (ahead_s := began + number / load.rate - clock.monotonic()) > 0
        ):
            await asyncio.sleep(ahead_s)
    if producer.in_transaction:
        await producer.commit_transaction()
    await producer.flush()


class Polled(NamedTuple):
    """The records of one poll."""

    record_count: int
    size: int
    """Bytes of keys and values."""
    asked_s: float
    answered_s: float


async def poll_once(
    consumer: client.AsyncConsumer[Any, Any], poll_ms: float, record_count_max: int, clock: Clock
) -> Polled:
    """Poll, and count what came."""
    asked_s = clock.monotonic()
    records = await consumer.poll(timeout_ms=poll_ms, max_records=record_count_max)
    answered_s = clock.monotonic()
    size = sum(len(one.key or b"") + len(one.value or b"") for one in records)
    return Polled(len(records), size, asked_s, answered_s)


class RoundTrip(NamedTuple):
    """One record from a producer to a consumer."""

    offset: int
    acknowledged_s: float
    consumed_s: float
    records: list[client.Record[Any, Any]]
    """What the consumer read until the record came; records of others may be among them."""
    arrived: bool
    """Whether the record came in time."""


async def round_trip(
    producer: client.AsyncProducer[Any, Any],
    consumer: client.AsyncConsumer[Any, Any],
    record: tuple[str, bytes, int | None],
    patience_s: float,
    clock: Clock,
) -> RoundTrip:
    """Send a record (topic, value, partition), and wait until it is acknowledged and consumed."""
    topic, value, partition = record
    began = clock.monotonic()
    sent = await producer.send(topic, value, partition=partition)
    acknowledged_s = clock.monotonic() - began
    records: list[client.Record[Any, Any]] = []
    arrived = False
    try:
        async with asyncio.timeout(patience_s):
            while not arrived:
                polled = await consumer.poll(timeout_ms=POLL_MS)
                records += polled
                arrived = any(
                    one.partition == sent.partition and one.offset >= sent.offset for one in polled
                )
    except TimeoutError:
        pass
    return RoundTrip(sent.offset, acknowledged_s, clock.monotonic() - began, records, arrived)


def random_letters(size: int) -> Iterator[bytes]:
    """Draw values of letters, the same in every run."""
    drawn = random.Random(0)
    while True:
        yield bytes(drawn.choices(LETTERS, k=size))


def half_random_hex(size: int, draw: Callable[[int], bytes]) -> list[bytes]:
    """Make values of hexadecimal digits: they compress to half, as much JSON does."""
    return [draw((size + 1) // 2).hex().encode()[:size] for _ in range(64)]
