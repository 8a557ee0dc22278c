"""Writing record by record: Moldau's client against aiokafka and kafka-python.

    python -m bench.clients.produce [records] [rounds]

Every client writes to the same broker in a process of its own, one after the other, round by round,
records of 100 bytes and of 1 KB. A ratio is taken within a round and says how much less CPU a
record costs; the rates are beside it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kafka_harness.kinds import make_broker
from tests.kafka_harness.topics import create_topic

from bench.clients.writers import WRITERS

RECORDS = 100_000
ROUNDS = 3
SIZES = (100, 1000)
PAIRS = (
    (100, "moldau-async", "aiokafka", 2.5),
    (100, "moldau-blocking", "kafka-python", 4.0),
    (1000, "moldau-async", "aiokafka", 2.5),
)
"""Size of a record, ours, theirs, and the ratio to be reached."""

Run = dict[tuple[str, int], dict[str, float]]


def measured(writer: str, address: str, topic: str, count: int, size: int) -> dict[str, float]:
    """Run a writer in its own process."""
    command = [sys.executable, "-m", "bench.clients.writers", writer, address, topic]
    told = subprocess.run(
        [*command, str(count), str(size)],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    figures: dict[str, float] = json.loads(told.stdout)
    return figures


def main(count: int = RECORDS, rounds: int = ROUNDS) -> None:
    """Have everybody write, and print the table."""
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder, make_broker("moldau", Path(folder)) as broker:
        for number in range(rounds):
            run: Run = {}
            for size in SIZES:
                for name in WRITERS:
                    topic = create_topic(broker.address, f"{name}-{size}-{number}")
                    run[name, size] = measured(name, broker.address, topic, count, size)
            runs.append(run)
    lines = [f"{'client':<16} {'bytes':>6} {'records/s':>10} {'us CPU/record':>14}"]
    for name, size in runs[0]:
        rate = statistics.median(run[name, size]["records_per_s"] for run in runs)
        cost = statistics.median(run[name, size]["cpu_us"] for run in runs)
        lines.append(f"{name:<16} {size:>6} {rate:>10.0f} {cost:>14.2f}")
    for size, ours, theirs, bar in PAIRS:
        cheaper = statistics.median(
            run[theirs, size]["cpu_us"] / run[ours, size]["cpu_us"] for run in runs
        )
        faster = statistics.median(
            run[ours, size]["records_per_s"] / run[theirs, size]["records_per_s"] for run in runs
        )
        lines.append(
            f"{size} B, {ours} against {theirs}: {cheaper:.2f}x less CPU, {faster:.2f}x the rate,"
            f" bar {bar:g}x"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
