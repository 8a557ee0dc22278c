"""A leader that is not the controller is killed: how long a writer waits for the next one."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
from tests.kafka_harness.topics import end_offset
from tests.kafka_harness.waiting import eventually

from bench.background_writer import BackgroundWriter
from bench.stage import Stage, placed_topic

VICTIM, OTHERS = 2, (3, 1)
_WRITTEN_BEFORE = 200
_TIMEOUT_S = 60


def run(stage: Stage) -> dict[str, float]:
    with stage.cluster() as cluster:
        topic = placed_topic(cluster, "killed", [VICTIM, *OTHERS])
        warm_up = _WRITTEN_BEFORE // 2
        with BackgroundWriter(stage.directory, cluster.address, topic, warm_up=warm_up) as writer:
            eventually(
                lambda: end_offset(cluster.address, topic) > _WRITTEN_BEFORE, "the writer writes"
            )
            cluster.nodes[VICTIM].kill()
            survivors = ",".join(cluster.nodes[each].address for each in OTHERS)
            admin = AdminClient({"bootstrap.servers": survivors})
            eventually(lambda: _leader(admin, topic) in OTHERS, "there is a new leader")
        gap = writer.result()["greatest"] / 1e6
    return {"gap": gap}


def _leader(admin: AdminClient, topic: str) -> int:
    leader: int = admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions[0].leader
    return leader
