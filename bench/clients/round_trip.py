"""One request and its answer: Moldau's client against aiokafka.

The same request (Metadata 5, no topics) goes to the same broker, from a process for each client,
in turns.

    python -m bench.clients.round_trip CLIENT ADDRESS
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.metadata import MetadataRequest as TheirRequest

from bench.clients.bars import ROUND_TRIP, once
from bench.report import Figures
from moldau.engine.cluster import Cluster, Node
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.metadata import MetadataRequest

CALLS, LEFT_OUT = 4000, 500
"""The first ones are not counted: code becomes quick while it runs."""
VERSION = 5

Call = Callable[[], Awaitable[Any]]


def run(address: str, *, backwards: bool) -> Figures:
    """Have each ask so many times, one call after the other."""
    order = list(reversed(CALLERS) if backwards else CALLERS)
    return {once(client, ROUND_TRIP): measured(client, address) for client in order}


def measured(client: str, address: str) -> float:
    """Return the median time of a call in microseconds, taken in a process of its own."""
    words = [sys.executable, "-m", "bench.clients.round_trip", client, address]
    told = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return float(told.stdout)


@asynccontextmanager
async def moldau(address: str) -> AsyncIterator[Call]:
    """Ask with our client."""
    settings = ConnectionSettings(bootstrap_servers=address)
    cluster = Cluster(settings, system_ports(settings))
    await cluster.start()
    request = MetadataRequest([], allow_auto_topic_creation=False)
    try:
        yield lambda: cluster.call(Node.ANY, request, version=VERSION)
    finally:
        await cluster.close()


@asynccontextmanager
async def aiokafka(address: str) -> AsyncIterator[Call]:
    """Ask with aiokafka."""
    client = AIOKafkaClient(bootstrap_servers=address)
    await client.bootstrap()
    (node,) = (broker.nodeId for broker in client.cluster.brokers())
    request = TheirRequest([], False)
    try:
        yield lambda: client.send(node, request)
    finally:
        await client.close()


CALLERS = {"moldau": moldau, "aiokafka": aiokafka}


async def median_us(client: str, address: str) -> float:
    """Return the median time of a call, one after the other."""
    times = []
    async with CALLERS[client](address) as call:
        for _ in range(CALLS):
            began = time.perf_counter()
            await call()
            times.append(time.perf_counter() - began)
    return statistics.median(times[LEFT_OUT:]) * 1e6


if __name__ == "__main__":
    print(asyncio.run(median_us(*sys.argv[1:])))
