"""The way of collectors to a topic: a producer that waits for brokers as long as it takes.

A record is given up by nobody but the brokers: then its collector sends it again, or ends. So order
holds, and an outage costs no record, however long it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from moldau.client.errors import BufferFull, ClientError
from moldau.client.producer import AsyncProducer
from moldau.collect.complaints import Complaints
from moldau.engine.settings import INT32_MAX

SETTINGS: Final[Mapping[str, Any]] = {
    "delivery.timeout.ms": INT32_MAX,
    "max.block.ms": 10_000,
    "bootstrap.timeout.ms": 0,
    "batch.size": 131_072,
    "linger.ms": 50,
}
"""What a collector's producer has unless the user says otherwise: it waits for weeks, but says
after ten seconds that there is no such topic, and at once that there is no broker. Nobody waits for
a single line, so batches may be large."""

RETRY_S: Final = 1.0
"""How often brokers are looked for that cannot be reached at the beginning."""

BROKERS: Final = "brokers"
"""What complaints about reaching brokers are kept under; it is no path."""

Producer = AsyncProducer[bytes, bytes]


async def connect(producer: Producer, complaints: Complaints) -> None:
    """Start a producer, however long it takes until a broker can be reached.

    Raises what waiting does not help against. Cancelled, nothing is left.
    """
    while True:
        try:
            await producer.start()
        except ClientError as error:
            if not error.retriable:
                raise
            complaints.say(BROKERS, f"{error.what}: waiting for a broker")
            await asyncio.sleep(RETRY_S)
        else:
            complaints.withdraw(BROKERS, "a broker has been reached")
            return


async def wait_for_room(producer: Producer) -> None:
    """Wait while the producer's buffer is more than half full, however long that takes."""
    while True:
        try:
            await producer.drain()
        except BufferFull:
            continue
        return


async def flush_within(producer: Producer, timeout_s: float) -> bool:
    """Send what is buffered and wait for it; tell whether that could be done in time."""
    try:
        async with asyncio.timeout(timeout_s):
            await producer.flush()
    except TimeoutError:
        return False
    return True
