"""One request and its answer: Moldau's client against aiokafka.

The same request (Metadata 5, no topics) goes to the same broker, in turns within one process, so
that both see the same machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.metadata import MetadataRequest as TheirRequest

from bench.clients.bars import ROUND_TRIP, once
from bench.report import Figures
from moldau.client.engine.cluster import Cluster, Node
from moldau.client.engine.ports import system_ports
from moldau.client.settings import ConnectionSettings
from moldau.protocol.messages.metadata import MetadataRequest

CALLS = 2000
VERSION = 5


def run(address: str, *, backwards: bool) -> Figures:
    """Have both ask so many times, one after the other."""
    return asyncio.run(_run(address, backwards=backwards))


async def _run(address: str, *, backwards: bool) -> Figures:
    settings = ConnectionSettings(bootstrap_servers=address)
    ours = Cluster(settings, system_ports(settings))
    theirs = AIOKafkaClient(bootstrap_servers=address)
    await ours.start()
    await theirs.bootstrap()
    (node,) = (broker.nodeId for broker in theirs.cluster.brokers())
    request = MetadataRequest([], allow_auto_topic_creation=False)
    their_request = TheirRequest([], False)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "moldau": lambda: ours.call(Node.ANY, request, version=VERSION),
        "aiokafka": lambda: theirs.send(node, their_request),
    }
    try:
        return {
            once(client, ROUND_TRIP): await median_us(calls[client])
            for client in (reversed(calls) if backwards else calls)
        }
    finally:
        await ours.close()
        await theirs.close()


async def median_us(call: Callable[[], Awaitable[Any]]) -> float:
    """Return the median time of a call, one after the other."""
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6
