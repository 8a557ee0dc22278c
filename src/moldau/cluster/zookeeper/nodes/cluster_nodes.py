"""The nodes of the whole cluster: /cluster/id, /feature and /latest_producer_id_block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.base.ids import BrokerId
from moldau.base.tuples import NamedTuple
from moldau.cluster.zookeeper.nodes.node_content import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    decode_object,
    encode_object,
)
from moldau.cluster.zookeeper.nodes.paths import CLUSTER_ID, FEATURE, PRODUCER_ID_BLOCK


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode the id of the cluster. Its version is a text, as nowhere else."""
    return encode_object({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """Decode the id of the cluster."""
    fields = decode_object(CLUSTER_ID, data)
    cluster_id = fields.text("id")
    if not cluster_id or len(cluster_id) > 100 or not cluster_id.isprintable():
        raise fields.refuse("id is no id of a cluster")
    return cluster_id


class ProducerIdBlock(NamedTuple):
    """The newest block of producer ids, and the broker that got it."""

    broker_id: BrokerId
    first: int
    last: int


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """Encode a block of producer ids."""
    return encode_object(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_ids(data: bytes | None) -> ProducerIdBlock | None:
    """Decode the newest block; None if the node is as it was created, without one."""
    if not data:
        return None
    fields = decode_object(PRODUCER_ID_BLOCK, data)
    broker_id = BrokerId(fields.number("broker", least=-1))
    # Half of all, because the blocks that follow have to fit into 64 bits.
    first = fields.decimal_text("block_start", most=INT64_MAX // 2)
    last = fields.decimal_text("block_end", most=INT64_MAX // 2)
    if not 0 <= last - first < INT32_MAX:
        raise fields.refuse("block_end is before block_start, or too far from it")
    return ProducerIdBlock(broker_id, first, last)


@dataclass(frozen=True, slots=True)
class FeatureNode:
    """The levels of features in force; version 1 is that of Kafka 2.7 to 3.2."""

    levels: Mapping[str, int]
    enabled: bool = True
    """Whether the cluster has features; Kafka turns them off for brokers before 2.7."""
    version: int = 2


def encode_features(node: FeatureNode) -> bytes:
    """Encode version 1 or 2."""
    features: dict[str, Any] = {
        name: {"max_version_level": level, "min_version_level": level}
        if node.version == 1
        else {"max_version_level": level}
        for name, level in node.levels.items()
    }
    return encode_object(
        {"features": features, "version": node.version, "status": int(node.enabled)}
    )


def decode_features(data: bytes | None) -> FeatureNode:
    """Decode any version from 1 on; the levels in force are the highest allowed ones."""
    fields = decode_object(FEATURE, data)
    version = fields.number("version", least=1)
    enabled = fields.number("status", most=1) == 1
    features = fields.object("features")
    levels = {
        name: features.object(name).number("max_version_level", least=1, most=INT16_MAX)
        for name in features
    }
    return FeatureNode(levels, enabled, version)
