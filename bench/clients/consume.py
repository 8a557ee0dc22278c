"""Reading: record by record against aiokafka and kafka-python, in columns against confluent-kafka.

    python -m bench.clients.consume [records] [rounds]

Every client reads the same partition of the same broker in a process of its own, one after the
other, round by round. Ratios are taken within a round: of the CPU a record costs the process, and
of the rates. confluent-kafka is asked for 10,000 records at a time, its quickest way, and looks at
their values; the columns are `pyarrow.RecordBatch`es.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kafka_harness.kinds import make_broker
from tests.kafka_harness.topics import create_topic, send

from bench.clients.readers import READERS

RECORD_SIZE = 100
RECORDS = 300_000
ROUNDS = 3
PAIRS = (
    ("moldau-async", "aiokafka", 1.0),
    ("moldau-blocking", "kafka-python", 4.0),
    ("moldau-columns", "confluent-kafka", 1.5),
)
"""Ours, theirs, and the ratio to be reached."""


def measured(reader: str, address: str, topic: str, count: int) -> dict[str, float]:
    """Run a reader in its own process."""
    command = [sys.executable, "-m", "bench.clients.readers", reader, address, topic, str(count)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    figures: dict[str, float] = json.loads(told.stdout)
    return figures


def main(count: int = RECORDS, rounds: int = ROUNDS) -> None:
    """Fill a topic, have everybody read it, and print the table."""
    with tempfile.TemporaryDirectory() as folder, make_broker("moldau", Path(folder)) as broker:
        topic = create_topic(broker.address, "consume")
        values = [b"%0*d" % (RECORD_SIZE, number) for number in range(count)]
        for start in range(0, count, 50_000):
            send(broker.address, topic, values[start : start + 50_000])
        runs = [
            {name: measured(name, broker.address, topic, count) for name in READERS}
            for _ in range(rounds)
        ]
    lines = [f"{'client':<16} {'records/s':>10} {'us CPU/record':>14}"]
    for name in READERS:
        rate = statistics.median(run[name]["records_per_s"] for run in runs)
        cost = statistics.median(run[name]["cpu_us"] for run in runs)
        lines.append(f"{name:<16} {rate:>10.0f} {cost:>14.2f}")
    for ours, theirs, bar in PAIRS:
        cheaper = statistics.median(run[theirs]["cpu_us"] / run[ours]["cpu_us"] for run in runs)
        faster = statistics.median(
            run[ours]["records_per_s"] / run[theirs]["records_per_s"] for run in runs
        )
        lines.append(
            f"{ours} against {theirs}: {cheaper:.2f}x less CPU, {faster:.2f}x the rate,"
            f" bar {bar:g}x"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
