"""One request and its answer: Moldau's client against aiokafka; and what importing either costs.

    python -m bench.clients.round_trip [calls] [rounds]

The same request (Metadata 5, no topics) goes to the same broker, in turns within one process, so
that both see the same machine. Imports are timed in processes of their own.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.metadata import MetadataRequest as TheirRequest
from tests.kafka_harness.kinds import make_broker

from moldau.client.engine.cluster import Cluster, Node
from moldau.client.engine.ports import system_ports
from moldau.client.settings import ConnectionSettings
from moldau.protocol.messages.metadata import MetadataRequest

CALLS = 2000
ROUNDS = 5
VERSION = 5
BAR_ROUND_TRIP, BAR_IMPORT = 0.7, 1.0
IMPORTS = {
    "moldau": "from moldau import AsyncProducer, AsyncConsumer",
    "aiokafka": "import aiokafka",
}


async def median_us(call: Callable[[], Awaitable[Any]], count: int) -> float:
    """Return the median time of a call, one after the other."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


async def round_trips(address: str, count: int, rounds: int) -> list[tuple[float, float]]:
    """Return the medians of ours and theirs, for each round."""
    settings = ConnectionSettings(bootstrap_servers=address)
    ours = Cluster(settings, system_ports(settings))
    theirs = AIOKafkaClient(bootstrap_servers=address)
    await ours.start()
    await theirs.bootstrap()
    (node,) = (broker.nodeId for broker in theirs.cluster.brokers())
    found = []
    try:
        for _ in range(rounds):
            ask = MetadataRequest([], allow_auto_topic_creation=False)
            mine = await median_us(lambda: ours.call(Node.ANY, ask, version=VERSION), count)  # noqa: B023 - used at once
            their = TheirRequest([], False)
            found.append((mine, await median_us(lambda: theirs.send(node, their), count)))  # noqa: B023 - as above
    finally:
        await ours.close()
        await theirs.close()
    return found


def import_s(statement: str) -> float:
    """Return the CPU time of a fresh interpreter that imports something."""
    code = (
        f"import time; began = time.process_time(); {statement}; print(time.process_time() - began)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(told.stdout)


def main(count: int = CALLS, rounds: int = ROUNDS) -> None:
    """Measure both and print the ratios."""
    with tempfile.TemporaryDirectory() as folder, make_broker("moldau", Path(folder)) as broker:
        trips = asyncio.run(round_trips(broker.address, count, rounds))
    for ours, theirs in trips:
        print(f"round trip p50: moldau {ours:.0f} us, aiokafka {theirs:.0f} us")
    ratio = statistics.median(ours / theirs for ours, theirs in trips)
    print(f"round trip p50: {ratio:.2f}x, bar {BAR_ROUND_TRIP:g}x")
    times = {name: [] for name in IMPORTS}  # type: dict[str, list[float]]
    for _ in range(3 * rounds):
        for name, statement in IMPORTS.items():
            times[name].append(import_s(statement))
    lowest = {name: min(each) for name, each in times.items()}
    ratio = lowest["moldau"] / lowest["aiokafka"]
    print(f"import: {lowest} s, {ratio:.2f}x, bar {BAR_IMPORT:g}x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
