"""Whether a change of the voters makes sense, before the leader is asked for it.

The leader takes any change that is one of a single voter. Some of those nobody wants: a removal
after which the voters that are left cannot agree ends the quorum, and no command brings it back.
"""

from __future__ import annotations

from typing import Final

from moldau.base.errors import UserError
from moldau.base.ids import uuid_text
from moldau.cli.frame import client

SILENT_MS: Final = 1_500
"""Nodes fetch twice a second. To take a slow one for gone costs a wait, the other way a quorum."""


def require_dynamic(quorum: client.MetadataQuorum) -> None:
    """Refuse to change voters that the settings name."""
    if not quorum.is_dynamic:
        raise UserError(
            "controller.quorum.voters sets the voters of this cluster (kraft.version 0): change it"
            " on all nodes and restart them. To change voters with this command, first run"
            " `kafka-features --bootstrap-server HOST:PORT upgrade --feature kraft.version=1`"
        )


def the_voter(quorum: client.MetadataQuorum, node_id: int) -> client.QuorumReplica:
    """Return a voter; UserError if the node has no vote."""
    found = quorum.voter(node_id)
    if found is None:
        known = ", ".join(str(one.node_id) for one in quorum.voters)
        raise UserError(f"node {node_id} is not a voter (voters: {known})")
    return found


def directory_of(replica: client.QuorumReplica) -> str:
    """Name the directory of a voter that the log names."""
    return uuid_text(replica.directory_id or bytes(16))


def is_heard(quorum: client.MetadataQuorum, replica: client.QuorumReplica) -> bool:
    """Tell whether the leader has just heard of a node, by the leader's own clock."""
    leader = quorum.leader
    if replica.last_fetch_ms is None or leader is None or leader.last_fetch_ms is None:
        return replica is leader
    return leader.last_fetch_ms - replica.last_fetch_ms <= SILENT_MS


def check_removal(quorum: client.MetadataQuorum, voter: client.QuorumReplica) -> None:
    """Refuse a removal after which the voters that are left could not agree on anything."""
    left = [one for one in quorum.voters if one is not voter]
    if not left:
        raise UserError(f"node {voter.node_id} is the only voter: add another one first")
    silent = [one for one in left if not is_heard(quorum, one)]
    majority = len(left) // 2 + 1
    if len(left) - len(silent) < majority:
        names = ", ".join(str(one.node_id) for one in silent)
        raise UserError(
            f"without node {voter.node_id} there would be no majority: node {names} does not"
            " answer. Start it, or remove it first"
        )
