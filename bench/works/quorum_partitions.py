"""Many partitions with three replicas each, on a quorum: also the restart of one of its nodes.

All nodes are brokers and voters. The restart comes last, when the controller has been lost and its
node has come back. It is that of another node, which leads about half of all partitions by then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.kafka_harness.cluster import BrokerCluster
from tests.kafka_harness.waiting import eventually
from tests.kafka_harness.wire import known_isrs

from bench.outage import others
from bench.stage import Stage
from bench.works.replicated_partitions import TIMEOUT_S, many_topics, measure


def run(stage: Stage) -> dict[str, float]:
    topics = many_topics(stage.scale.partitions)
    with stage.cluster() as cluster:
        measured = measure(cluster, topics)
        (lost,) = (node_id for node_id, node in cluster.nodes.items() if not node.running)
        cluster.nodes[lost].start(TIMEOUT_S)
        _wait_until_in_sync(cluster, lost, topics)
        controller = cluster.controller()
        restarted = next(each for each in others(cluster, lost) if each != controller)
        return {**measured, "restart": _restart(cluster, restarted, topics)}


def _restart(cluster: BrokerCluster, node_id: int, topics: Iterable[str]) -> float:
    """Stop a node in good order; return the seconds until it is in sync everywhere again."""
    began = time.perf_counter()
    cluster.nodes[node_id].stop()
    # So that what is seen below is that it has come back, and not that nobody missed it.
    eventually(
        lambda: not any(node_id in isr for isr in _isrs(cluster, node_id, topics)),
        f"node {node_id} has left every ISR",
    )
    cluster.nodes[node_id].start(TIMEOUT_S)
    _wait_until_in_sync(cluster, node_id, topics)
    return time.perf_counter() - began


def _wait_until_in_sync(cluster: BrokerCluster, node_id: int, topics: Iterable[str]) -> None:
    eventually(
        lambda: all(node_id in isr for isr in _isrs(cluster, node_id, topics)),
        f"node {node_id} is in every ISR",
        TIMEOUT_S,
    )


def _isrs(cluster: BrokerCluster, node_id: int, topics: Iterable[str]) -> list[set[int]]:
    """Return the ISRs of all partitions, as each node but one knows them."""
    asked = [cluster.nodes[each] for each in others(cluster, node_id)]
    return [isr for node in asked for isr in known_isrs(node.host, node.port, topics).values()]
