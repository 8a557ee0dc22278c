"""The nodes that name partitions, by which tools and leaders tell the controller something.

* /admin/reassign_partitions: where replicas are to be. Gone when all are there.
* /admin/preferred_replica_election: partitions that their first replica is to lead.
* /isr_change_notification/isr_change_S: partitions whose leaders have changed the ISR.

What has to be done is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.base.ids import PartitionKey
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.zookeeper.nodes.node_content import (
    NodeObject,
    decode_object,
    encode_object,
    printable,
)
from moldau.cluster.zookeeper.nodes.paths import REASSIGN_PARTITIONS


def encode_reassignment(wanted: Iterable[WantedReplicas]) -> bytes:
    """Encode the wanted replicas of partitions."""
    return _encode(
        {"topic": one.topic, "partition": one.index, "replicas": one.replicas} for one in wanted
    )


def decode_reassignment(data: bytes | None) -> tuple[WantedReplicas, ...]:
    """Decode the wanted replicas of partitions; each is named once and has replicas."""
    fields = decode_object(REASSIGN_PARTITIONS, data)
    wanted: dict[PartitionKey, WantedReplicas] = {}
    for one in fields.objects("partitions"):
        key = _key(one)
        replicas = one.brokers("replicas")
        if not replicas:
            raise fields.refuse(f"{printable(str(key))} is to have no replicas")
        if key in wanted:
            raise fields.refuse(f"{printable(str(key))} is there twice")
        wanted[key] = WantedReplicas(key.topic, key.partition, replicas)
    return tuple(wanted.values())


def encode_partitions(partitions: Iterable[PartitionKey]) -> bytes:
    """Encode partitions for an election or a notification."""
    return _encode({"topic": key.topic, "partition": key.partition} for key in partitions)


def decode_partitions(path: str, data: bytes | None) -> tuple[PartitionKey, ...]:
    """Decode partitions of an election or a notification; each is returned once."""
    fields = decode_object(path, data)
    return tuple(dict.fromkeys(_key(one) for one in fields.objects("partitions")))


def _encode(partitions: Iterable[dict[str, object]]) -> bytes:
    return encode_object({"version": 1, "partitions": list(partitions)})


def _key(fields: NodeObject) -> PartitionKey:
    return PartitionKey(fields.text("topic"), fields.number("partition"))
