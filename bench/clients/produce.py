"""Writing record by record: Moldau's client against aiokafka, kafka-python and confluent-kafka.

Every client writes to the same broker in a process of its own, one after the other, and looks at
every result. Quick clients write for half a second at least; those that take several times as long
per record write fewer.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

from tests.kafka_harness.topics import create_topic

from bench.clients.bars import writing
from bench.report import Figures

RECORDS = 300_000
FEWER = 100_000
WRITE_FEWER = frozenset({"aiokafka", "aiokafka-gather", "kafka-python"})
CONTESTS = (
    (100, "moldau-async"),
    (100, "aiokafka"),
    (100, "moldau-gather"),
    (100, "aiokafka-gather"),
    (100, "confluent-kafka"),
    (100, "moldau-blocking"),
    (100, "kafka-python"),
    (100, "confluent-large"),
    (100, "moldau-large"),
    (1000, "moldau-async"),
    (1000, "aiokafka"),
    (1000, "moldau-gather"),
    (1000, "aiokafka-gather"),
)
"""Size of a record and writer; who is compared stands side by side."""

_numbers = itertools.count()


def run(address: str, *, backwards: bool) -> Figures:
    """Have everybody write once, each to a topic of its own."""
    figures: Figures = {}
    for size, client in reversed(CONTESTS) if backwards else CONTESTS:
        topic = create_topic(address, f"written-{next(_numbers)}")
        for figure, value in measured(client, address, topic, size).items():
            figures[writing(client, size, figure)] = value
    return figures


def measured(writer: str, address: str, topic: str, size: int) -> dict[str, float]:
    """Run a writer in its own process."""
    command = [sys.executable, "-m", "bench.clients.writers", writer, address, topic]
    count = FEWER if writer in WRITE_FEWER else RECORDS
    told = subprocess.run(
        [*command, str(count), str(size)],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    figures: dict[str, float] = json.loads(told.stdout)
    return figures
