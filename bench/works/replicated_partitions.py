"""Many partitions with three replicas each: making them, holding them, losing the controller.

All that runs for the cluster is counted, its ZooKeeper too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka_harness.broker import BrokerProcess
from tests.kafka_harness.cluster import REPLICAS, BrokerCluster
from tests.kafka_harness.topics import led_partitions
from tests.kafka_harness.waiting import eventually
from tests.kafka_harness.wire import unserved_partitions

from bench.stage import BenchError, Stage
from bench.usage import cpu_seconds, peak_memory_mb

TIMEOUT_S = 300
_TOPIC_PARTITIONS_MAX = 2_000
"""What Kafka creates for one request is bounded: some less than 10,000 partitions."""
_PAUSE_S = 0.05
_SETTLE_S = 10
_IDLE_S = 20


def run(stage: Stage) -> dict[str, float]:
    with stage.cluster() as cluster:
        return measure(cluster, many_topics(stage.scale.partitions))


def many_topics(partitions: int) -> dict[str, int]:
    """Return as few topics as hold so many partitions, and how many each has."""
    firsts = range(0, partitions, _TOPIC_PARTITIONS_MAX)
    return {f"many-{first}": min(_TOPIC_PARTITIONS_MAX, partitions - first) for first in firsts}


def measure(cluster: BrokerCluster, topics: Mapping[str, int]) -> dict[str, float]:
    """Return what the topics cost; afterwards the broker that was the controller is dead."""
    created = _create(cluster, topics)
    time.sleep(_SETTLE_S)
    before_s = cpu_seconds(*cluster.all_pids)
    time.sleep(_IDLE_S)
    idle = (cpu_seconds(*cluster.all_pids) - before_s) / _IDLE_S
    memory = peak_memory_mb(*cluster.all_pids)
    failover = _lose_controller(cluster, topics)
    return {"create": created, "idle": idle * 1e3, "memory": memory, "failover": failover}


def _create(cluster: BrokerCluster, topics: Mapping[str, int]) -> float:
    """Create the topics, one by one, and return the seconds until all their leaders serve."""
    # Kafka answers when it has created all partitions, and that takes more than the default.
    patient = {"socket.timeout.ms": TIMEOUT_S * 1000}
    admin = AdminClient({"bootstrap.servers": cluster.address, **patient})
    admin.list_topics(timeout=30)  # the client's own start is not the cluster's time
    began = time.perf_counter()
    for name, partitions in topics.items():
        new = [NewTopic(name, partitions, REPLICAS)]
        created = admin.create_topics(new, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)
        created[name].result(TIMEOUT_S)
    _wait_until_served(cluster.nodes.values(), topics)
    took_s = time.perf_counter() - began
    eventually(
        lambda: all(led_partitions(admin, name) == count for name, count in topics.items()),
        "all leaders are known",
    )
    return took_s


def _lose_controller(cluster: BrokerCluster, topics: Mapping[str, int]) -> float:
    """Kill the controller and return the seconds until the others serve all partitions."""
    controller = cluster.controller()
    began = time.perf_counter()
    cluster.nodes[controller].kill()
    survivors = [node for node_id, node in cluster.nodes.items() if node_id != controller]
    _wait_until_served(survivors, topics)
    return time.perf_counter() - began


def _wait_until_served(brokers: Iterable[BrokerProcess], topics: Mapping[str, int]) -> None:
    """Return once each partition tells its end offset on one of the brokers."""
    among = list(brokers)
    deadline = time.monotonic() + TIMEOUT_S
    while unserved := set.intersection(
        *(set(unserved_partitions(broker.host, broker.port, topics)) for broker in among)
    ):
        if time.monotonic() > deadline:
            raise BenchError(f"{len(unserved)} partitions not served in {TIMEOUT_S} s")
        time.sleep(_PAUSE_S)
