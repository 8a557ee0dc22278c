"""The node of a partition's state: /brokers/topics/T/partitions/P/state, leader and ISR.

The version of the node is the partition's epoch, so it is not in it. Beside Kafka's fields we write
two of our own, which Kafka's tools ignore: the eligible leaders and the last known leader of
KIP-966, named as in KRaft's records. They are written only if they are not empty, so that in the
usual case the bytes are Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from moldau.base.ids import BrokerId, LeaderEpoch
from moldau.cluster.model import NO_LEADER, Partition
from moldau.cluster.zookeeper.nodes.node_content import decode_object, encode_object
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment

_VERSION: Final = 1
_RECOVERED: Final = 0
_RECOVERING: Final = 1


@dataclass(frozen=True, slots=True)
class StateNode:
    """Leader and ISR of a partition, and the epoch of the controller that wrote them."""

    controller_epoch: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    recovering: bool = False
    eligible_leaders: tuple[BrokerId, ...] = ()
    last_known_leaders: tuple[BrokerId, ...] = ()

    def partition(self, index: int, assignment: Assignment, epoch: int) -> Partition:
        """Return the partition in this state, with these replicas."""
        return Partition(
            index,
            assignment.replicas,
            self.isr,
            self.leader,
            self.leader_epoch,
            epoch,
            assignment.adding,
            assignment.removing,
            self.eligible_leaders,
            self.last_known_leaders,
            self.recovering,
        )


def state_of(partition: Partition, controller_epoch: int) -> StateNode:
    """Return the state of a partition."""
    return StateNode(
        controller_epoch,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.recovering,
        partition.eligible_leaders,
        partition.last_known_leaders,
    )


def encode_state(node: StateNode) -> bytes:
    """Encode version 1, the only one."""
    fields: dict[str, Any] = {
        "controller_epoch": node.controller_epoch,
        "leader": node.leader,
        "version": _VERSION,
    }
    if node.recovering:
        fields["leader_recovery_state"] = _RECOVERING
    fields["leader_epoch"] = node.leader_epoch
    fields["isr"] = node.isr
    if node.eligible_leaders:
        fields["eligible_leader_replicas"] = node.eligible_leaders
    if node.last_known_leaders:
        fields["last_known_elr"] = node.last_known_leaders
    return encode_object(fields)


def decode_state(path: str, data: bytes | None) -> StateNode:
    """Decode the state of a partition, without a look at its replicas."""
    fields = decode_object(path, data)
    recovery = fields.number("leader_recovery_state", _RECOVERED, most=_RECOVERING)
    fields.number("version", _VERSION, least=_VERSION)
    return StateNode(
        fields.number("controller_epoch"),
        BrokerId(fields.number("leader", least=NO_LEADER)),
        LeaderEpoch(fields.number("leader_epoch")),
        fields.brokers("isr"),
        recovery == _RECOVERING,
        fields.brokers("eligible_leader_replicas", []),
        fields.brokers("last_known_elr", []),
    )
