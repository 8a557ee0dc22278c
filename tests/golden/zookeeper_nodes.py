"""Write `zookeeper_nodes.tsv` again: `python -m tests.golden.zookeeper_nodes` from the checkout.

It holds nodes as Kafka's own encoders write them: those of 3.9.1, the last that runs with
ZooKeeper, and those of 1.1.1 whose form was another. It is committed, so that the comparison needs
no Java. Brokers put the time of encoding into their nodes; here it is always the same.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.kafka_harness.distribution import OLDEST, ZOOKEEPER_ERA, jars
from tests.kafka_harness.java import run_source

SOURCES = {ZOOKEEPER_ERA: "ZooKeeperNodes.java", OLDEST: "OldZooKeeperNodes.java"}
NODES = Path(__file__).with_name("zookeeper_nodes.tsv")


def generate() -> str:
    """Return the table: which Kafka, kind of node, content."""
    rows = ["# kafka\tkind\tcontent"]
    for kafka, name in SOURCES.items():
        source = Path(__file__).with_name(name)
        for line in run_source(kafka, source, jars(kafka), timeout_s=60).lines:
            kind, content = line.split("\t", 1)
            if kind == "broker":
                content = re.sub(r'"timestamp":"\d+"', '"timestamp":"1700000000000"', content)
            rows.append(f"{kafka}\t{kind}\t{content}")
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    NODES.write_text(generate())
