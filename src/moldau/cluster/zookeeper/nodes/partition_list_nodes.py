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
    decode_object_in_steps,
    encode_object,
    printable,
)
from moldau.cluster.zookeeper.nodes.paths import REASSIGN_PARTITIONS
from moldau.cluster.zookeeper.nodes.steps import Pace, Steps


def encode_reassignment(wanted: Iterable[WantedReplicas]) -> Steps[bytes]:
    """Encode the wanted replicas of partitions."""
    return (
        yield from _encode(
            {"topic": one.topic, "partition": one.index, "replicas": one.replicas} for one in wanted
        )
    )


def decode_reassignment(data: bytes | None) -> Steps[tuple[WantedReplicas, ...]]:
    """Decode the wanted replicas of partitions; each is named once and has replicas."""
    fields = yield from decode_object_in_steps(REASSIGN_PARTITIONS, data)
    wanted: dict[PartitionKey, WantedReplicas] = {}
    pace = Pace()
    for one in fields.objects("partitions"):
        key = _key(one)
        replicas = one.brokers("replicas")
        if not replicas:
            raise fields.refuse(f"{printable(str(key))} is to have no replicas")
        if key in wanted:
            raise fields.refuse(f"{printable(str(key))} is there twice")
        wanted[key] = WantedReplicas(key.topic, key.partition, replicas)
        if pace.is_due(1 + len(replicas)):
            yield
    return tuple(wanted.values())


def encode_partitions(partitions: Iterable[PartitionKey]) -> Steps[bytes]:
    """Encode partitions for an election or a notification."""
    return (
        yield from _encode({"topic": key.topic, "partition": key.partition} for key in partitions)
    )


def decode_partitions(path: str, data: bytes | None) -> Steps[tuple[PartitionKey, ...]]:
    """Decode partitions of an election or a notification; each is returned once."""
    fields = yield from decode_object_in_steps(path, data)
    keys: dict[PartitionKey, None] = {}
    pace = Pace()
    for one in fields.objects("partitions"):
        keys[_key(one)] = None
        if pace.is_due(3):
            yield
    return tuple(keys)


def _encode(partitions: Iterable[dict[str, object]]) -> Steps[bytes]:
    pieces = []
    pace = Pace()
    for one in partitions:
        pieces.append(encode_object(one))
        if pace.is_due(3):
            yield
    return b'{"version":1,"partitions":[%b]}' % b",".join(pieces)


def _key(fields: NodeObject) -> PartitionKey:
    return PartitionKey(fields.text("topic"), fields.number("partition"))
