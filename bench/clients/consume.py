"""Reading: record by record, in lists and in columns, against what other clients do at their best.

Every client reads the same partition of the same broker in a process of its own, one after the
other. confluent-kafka is asked for 10,000 records at a time, its quickest way; our lists are as
long as `max_poll_records` allows by default, 500. The columns are `pyarrow.RecordBatch`es.

The partition is long enough that quick clients read for half a second at least. Those that take
several times as long per record read its beginning only.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.kafka_harness.topics import create_topic, send

from bench.clients.bars import reading
from bench.clients.readers import READERS
from bench.report import Figures

RECORD_SIZE = 100
RECORDS = 2_000_000
BEGINNING = 300_000
READ_THE_BEGINNING = frozenset({"aiokafka", "kafka-python"})
FILLED_AT_ONCE = 50_000
TOPIC = "read"


def prepare(address: str) -> None:
    """Fill the partition that everybody reads."""
    create_topic(address, TOPIC)
    values = [b"%0*d" % (RECORD_SIZE, number) for number in range(RECORDS)]
    for start in range(0, RECORDS, FILLED_AT_ONCE):
        send(address, TOPIC, values[start : start + FILLED_AT_ONCE])


def run(address: str, *, backwards: bool) -> Figures:
    """Have everybody read once; who is compared stands side by side in `READERS`."""
    figures: Figures = {}
    for client in reversed(READERS) if backwards else READERS:
        for figure, value in measured(client, address).items():
            figures[reading(client, figure)] = value
    return figures


def measured(reader: str, address: str) -> dict[str, float]:
    """Run a reader in its own process."""
    count = BEGINNING if reader in READ_THE_BEGINNING else RECORDS
    command = [sys.executable, "-m", "bench.clients.readers", reader, address, TOPIC, str(count)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    figures: dict[str, float] = json.loads(told.stdout)
    return figures
