"""Coming back with many offsets: process start until every group has been told all of its own."""

from __future__ import annotations

import time

from bench import commit_load
from bench.stage import Stage, data_topic, load

PARTITIONS = 100


def run(stage: Stage) -> dict[str, float]:
    groups = stage.scale.offset_groups
    with stage.broker() as broker:
        topic = data_topic(broker, "offsets", PARTITIONS)
        load(
            "write_offsets",
            address=broker.address,
            topic=topic,
            partitions=PARTITIONS,
            groups=groups,
        )
        broker.stop()
        broker.prepare()
        began = time.perf_counter()
        broker.launch()
        answered = commit_load.read(broker.address, PARTITIONS, groups)
    return {"restart": answered - began}
