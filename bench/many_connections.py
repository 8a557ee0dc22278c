"""Thousands of connections from one event loop, each sending one small Produce a second.

A client library per connection would cost more than the broker under test, so the request is
built once, as bytes, and sent as it is; only its correlation id and the answer's error are looked
at. Produce 7 is the newest version every broker here takes in its plain, inflexible form.
"""

from __future__ import annotations

import asyncio
import resource
import struct
import time

from aiokafka.record.default_records import DefaultRecordBatchBuilder

_CONNECTING_AT_ONCE = 100
"""Below the usual listen backlog, so that no connection waits for a retransmitted SYN."""


def run(
    address: str, topic: str, partitions: int, connections: int, seconds: int
) -> dict[str, float]:
    """Connect all, then send at one request a second each; times in milliseconds."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return asyncio.run(_run(address, topic, partitions, connections, seconds))


async def _run(
    address: str, topic: str, partitions: int, connections: int, seconds: int
) -> dict[str, float]:
    host, _, port = address.rpartition(":")
    gate = asyncio.Semaphore(_CONNECTING_AT_ONCE)

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with gate:
            return await asyncio.open_connection(host, int(port))

    streams = await asyncio.gather(*(connect() for _ in range(connections)))
    times_ms: list[float] = []
    began = time.monotonic()
    await asyncio.gather(
        *(
            _send_every_second(
                reader,
                writer,
                produce_request(topic, number % partitions),
                began + number / connections,
                seconds,
                times_ms,
            )
            for number, (reader, writer) in enumerate(streams)
        )
    )
    took = time.monotonic() - began
    for _, writer in streams:
        writer.close()
    ordered = sorted(times_ms)
    return {
        "requests": len(ordered),
        "seconds": took,
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[len(ordered) * 99 // 100],
    }


async def _send_every_second(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    request: bytes,
    first_at: float,
    count: int,
    times_ms: list[float],
) -> None:
    for number in range(count):
        await asyncio.sleep(first_at + number - time.monotonic())
        began = time.perf_counter()
        writer.write(request)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        answer = await reader.readexactly(size)
        times_ms.append((time.perf_counter() - began) * 1e3)
        check_answer(answer)


def produce_request(topic: str, partition: int) -> bytes:
    """Return a framed Produce v7 with acks=all and one record of 100 bytes."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 14,
    )  # fmt: skip
    builder.append(0, timestamp=int(time.time() * 1000), key=None, value=b"x" * 100, headers=[])
    batch = bytes(builder.build())
    name = topic.encode()
    body = struct.pack(">hhih", 0, 7, 1, -1)  # Produce, version 7, correlation 1, no client id
    body += struct.pack(">hhi", -1, -1, 30_000)  # no transaction, acks=all, timeout
    body += struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


def check_answer(answer: bytes) -> None:
    """Raise unless the only partition of the answer has no error."""
    correlation, topics, length = struct.unpack_from(">iih", answer)
    partitions, _, error = struct.unpack_from(">iih", answer, 10 + length)
    if (correlation, topics, partitions, error) != (1, 1, 1, 0):
        raise RuntimeError(f"Produce was answered with error {error} ({answer[:40].hex()})")
