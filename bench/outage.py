"""How long nobody can write while something happens to the leader of a partition.

Writers of three kinds, each in its own process, write to the partition all the time.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka.admin import AdminClient, PartitionMetadata
from tests.kafka_harness.cluster import BrokerCluster
from tests.kafka_harness.waiting import eventually

from bench.stage import Client, Stage, placed_topic
from bench.steady_writers import CLIENTS, REQUEST_TIMEOUT_MS

_TOPIC = "outage"
_TIMEOUT_S = 60

Choice = Callable[[BrokerCluster], int]
Event = Callable[[BrokerCluster, int], None]


def controller(cluster: BrokerCluster) -> int:
    """Choose the controller."""
    return cluster.controller()


def no_controller(cluster: BrokerCluster) -> int:
    """Choose a broker that is not the controller."""
    return others(cluster, cluster.controller())[0]


def others(cluster: BrokerCluster, broker_id: int) -> list[int]:
    """Return all brokers but one."""
    return [each for each in cluster.nodes if each != broker_id]


def longest_waits(
    stage: Stage,
    choose_leader: Choice,
    event: Event,
    request_timeout_ms: int = REQUEST_TIMEOUT_MS,
) -> dict[str, float]:
    """Return the longest wait of each client for an acknowledgement, in seconds.

    The event happens to the leader while they write, and returns when it is over.
    """
    with stage.cluster() as cluster:
        leader = choose_leader(cluster)
        placed_topic(cluster, _TOPIC, [leader, *others(cluster, leader)])
        stop = stage.directory / "stop"
        ready = {client: stage.directory / f"ready-{client}" for client in CLIENTS}
        writers = {
            client: Client(
                "write_steadily", client=client, address=cluster.address, topic=_TOPIC,
                request_timeout_ms=request_timeout_ms, ready=str(ready[client]), stop=str(stop),
            )
            for client in CLIENTS
        }  # fmt: skip
        try:
            eventually(lambda: all(file.exists() for file in ready.values()), "all clients write")
            event(cluster, leader)
            stop.touch()
            return {client: writer.result()["gap"] for client, writer in writers.items()}
        finally:
            for writer in writers.values():
                writer.kill()


def wait_for_new_leader(cluster: BrokerCluster, lost: int) -> None:
    """Wait until the other brokers name one of them as the leader."""
    survivors = others(cluster, lost)
    _wait(cluster, survivors, lambda state: state.leader in survivors, "there is a new leader")


def wait_until_in_sync(cluster: BrokerCluster) -> None:
    """Wait until all replicas are in sync."""
    everyone = list(cluster.nodes)
    _wait(cluster, everyone, lambda state: set(state.isrs) == set(everyone), "all are in sync")


def _wait(
    cluster: BrokerCluster,
    asked: list[int],
    is_so: Callable[[PartitionMetadata], bool],
    what: str,
) -> None:
    address = ",".join(cluster.nodes[each].address for each in asked)
    admin = AdminClient({"bootstrap.servers": address})
    eventually(
        lambda: is_so(admin.list_topics(_TOPIC, _TIMEOUT_S).topics[_TOPIC].partitions[0]), what
    )
