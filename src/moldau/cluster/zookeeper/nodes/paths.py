"""The paths of all nodes, below the chroot of the cluster.

Paths are put together and taken apart here only. What a node contains is in the module of its kind.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.base.ids import PartitionKey

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
BROKER_SEQUENCE: Final = "/brokers/seqid"
"""Its version gives ids to brokers that have none: each set raises it by one."""
BROKER_EPOCHS: Final = "/brokers/epochs"
"""Ours: its children tell which life of a broker id was the last one, also when it is over."""

DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"

CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"

CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
"""ZooKeeper appends ten digits to the path of a sequential node."""

CONSUMERS: Final = "/consumers"

CREATED_AT_START: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    BROKER_EPOCHS,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    f"{CONFIG}/topics",
    f"{CONFIG}/clients",
    f"{CONFIG}/users",
    f"{CONFIG}/brokers",
    f"{CONFIG}/ips",
)
"""Every broker creates these without content, and their parents, unless they exist."""

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_INT32_MAX: Final = 2**31 - 1


def broker(broker_id: int) -> str:
    """Return the node that a broker holds while it lives."""
    return f"{BROKER_IDS}/{broker_id}"


def broker_epoch(broker_id: int) -> str:
    """Return the node that every registration of a broker id sets, in the same transaction."""
    return f"{BROKER_EPOCHS}/{broker_id}"


def topic(name: str) -> str:
    """Return the node with the replicas of a topic."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Return the parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    """Return the parent of a partition's state."""
    return f"{TOPICS}/{name}/partitions/{index}"


def state(name: str, index: int) -> str:
    """Return the node with the leader and the ISR of a partition."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def delete_topic(name: str) -> str:
    """Return the node whose existence asks for the deletion of a topic."""
    return f"{DELETE_TOPICS}/{name}"


def consumer_ids(group: str) -> str:
    """Return the parent of the members of an old consumer group."""
    return f"{CONSUMERS}/{group}/ids"


def consumer_owner(group: str, name: str, index: int) -> str:
    """Return the node with the consumer thread of an old group that owns a partition."""
    return f"{CONSUMERS}/{group}/owners/{name}/{index}"


def consumer_offset(group: str, name: str, index: int) -> str:
    """Return the node with the committed offset of an old group."""
    return f"{CONSUMERS}/{group}/offsets/{name}/{index}"


def child(parent: str, path: str) -> str | None:
    """Return the name of a direct child of this parent; None if the path is anything else."""
    if not path.startswith(parent + "/"):
        return None
    name = path[len(parent) + 1 :]
    return name if name and "/" not in name else None


def number(name: str) -> int | None:
    """Return the number that a node or a partition is called by; None if the name is none."""
    if not _NUMBER.fullmatch(name):
        return None
    value = int(name)
    return value if value <= _INT32_MAX else None


def topic_of(path: str) -> str | None:
    """Return the topic that the node of a topic, or one below it, belongs to; None for others."""
    parent, name = f"{TOPICS}/", path.removeprefix(f"{TOPICS}/")
    return name.partition("/")[0] if path.startswith(parent) else None


def state_owner(path: str) -> PartitionKey | None:
    """Return the partition whose state this is; None if the path is anything else."""
    parts = path.split("/")
    if len(parts) != 7 or "/".join(parts[:3]) != TOPICS:
        return None
    name, middle, last, index = parts[3], parts[4], parts[6], number(parts[5])
    if not name or middle != "partitions" or last != "state" or index is None:
        return None
    return PartitionKey(name, index)
