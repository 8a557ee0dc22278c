"""The longest stall of a broker that comes back and has to truncate a large segment.

The leader alone takes the records and is killed. The other replica, which has none of them, is
elected uncleanly and takes a few. Only Moldau tells of its event loop, so only it is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka.admin import AdminClient, PartitionMetadata
from tests.kafka_harness.cluster import BrokerCluster
from tests.kafka_harness.kinds import release_of
from tests.kafka_harness.ports import free_port
from tests.kafka_harness.waiting import eventually

from bench.stage import BenchError, Stage, load, placed_topic

LEADER, OTHER = 2, 3
_RECORD_SIZE = 1_000
_TIMEOUT_S = 60
_LONGEST = re.compile(r'^moldau_event_loop_lag_max_seconds\{since="start"\} (\S+)$', re.MULTILINE)


def run(stage: Stage) -> dict[str, float]:
    if release_of(stage.kind) is not None:
        return {}
    with stage.cluster() as cluster:
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        topic = placed_topic(cluster, "cut", [LEADER, OTHER], config)
        _let_them_diverge(cluster, topic, stage.scale.missed_bytes // _RECORD_SIZE)
        leader = cluster.nodes[LEADER]
        log = leader.data / f"{topic}-0"
        before = _stored_bytes(log)
        page = f"{leader.host}:{free_port()}"
        leader.settings["moldau.metrics.listen"] = page
        leader.start()
        _wait_for(cluster, topic, lambda partition: LEADER in partition.isrs, "it is in sync")
        if _stored_bytes(log) > before / 2:
            raise BenchError("nothing was truncated")
        return {"stall": _longest_stall_ms(page)}


def _let_them_diverge(cluster: BrokerCluster, topic: str, count: int) -> None:
    leader, other = cluster.nodes[LEADER], cluster.nodes[OTHER]
    other.stop()
    load("produce", address=cluster.address, topic=topic, partitions=1, size=_RECORD_SIZE,
         count=count)  # fmt: skip
    leader.kill()
    other.start()
    _wait_for(cluster, topic, lambda partition: partition.leader == OTHER, "the other one leads")
    load("one_at_a_time", address=cluster.address, topic=topic, size=100, warm_up=0, count=10)


def _wait_for(
    cluster: BrokerCluster, topic: str, is_so: Callable[[PartitionMetadata], bool], what: str
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    eventually(
        lambda: is_so(admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions[0]), what
    )


def _stored_bytes(log: Path) -> int:
    return sum(file.stat().st_size for file in log.glob("*.log"))


def _longest_stall_ms(page: str) -> float:
    """Read it from the page of metrics; the first tick may be still to come."""

    def told() -> list[str]:
        with urlopen(f"http://{page}/metrics", timeout=_TIMEOUT_S) as answer:
            return _LONGEST.findall(answer.read().decode())

    return float(eventually(told, "the longest stall is told")[0]) * 1_000
