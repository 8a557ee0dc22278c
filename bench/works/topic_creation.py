"""Small topics, one after the other: how long each request to create one waits for its answer."""

from __future__ import annotations

from tests.kafka_harness.cluster import REPLICAS

from bench.stage import Stage, load

_PARTITIONS = 3


def run(stage: Stage) -> dict[str, float]:
    with stage.cluster() as cluster:
        return load(
            "create_topics",
            address=cluster.address,
            count=stage.scale.created_topics,
            partitions=_PARTITIONS,
            replicas=REPLICAS,
        )
