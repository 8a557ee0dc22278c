"""Write `api_ranges.tsv` again: `python -m tests.golden.api_ranges` from the root of the checkout.

It holds the versions of every API that brokers serve to clients, as the newest released Kafka has
them. It is committed, so that the comparison needs no Java.
"""

from __future__ import annotations

from pathlib import Path

from tests.kafka_harness.distribution import NEWEST_CLIENT, jars
from tests.kafka_harness.java import run_source

SOURCE = Path(__file__).with_name("ApiRanges.java")
RANGES = Path(__file__).with_name("api_ranges.tsv")


def generate() -> str:
    """Return the table, by key."""
    output = run_source(NEWEST_CLIENT, SOURCE, jars(NEWEST_CLIENT), timeout_s=60)
    rows = sorted(output.lines, key=lambda line: int(line.split("\t")[0]))
    return "".join(f"{row}\n" for row in ("# key\tname\toldest\tnewest", *rows))


if __name__ == "__main__":
    RANGES.write_text(generate())
