"""Puts the new directory of a node in the place of the one that is lost with its disk.

A node that comes back with an empty disk is another replica: it follows, and does not vote. First
it catches up, then the entry of the lost directory is removed, then the new one is added. Nothing
is remembered between the steps, each begins with what the leader says. So a replacement that was
interrupted goes on where it was when it is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.base.ids import uuid_text
from moldau.cli.frame import client
from moldau.cli.operations.voter_changes import check_removal, directory_of, is_heard

PAUSE_S: Final = 0.2
"""Between two looks at a node that is not ready."""


class Replacement(NamedTuple):
    """What is to be done."""

    lost: client.QuorumReplica | None
    """The voter to remove; None if that is done."""
    new: client.QuorumReplica
    """The node as it follows now."""
    endpoints: tuple[client.ControllerEndpoint, ...]


def plan_replacement(
    quorum: client.MetadataQuorum,
    node_id: int,
    directory_id: bytes | None,
    endpoints: tuple[client.ControllerEndpoint, ...],
) -> Replacement | None:
    """Find what is to be done; None for nothing, UserError for what is not possible now.

    `directory_id` names the new directory, where the node follows with several; `endpoints` are
    where the node is reached, if that is not where the lost voter was.
    """
    voter = quorum.voter(node_id)
    new = _follower(quorum, node_id, directory_id)
    if voter is not None and _is_right(quorum, voter, new, directory_id):
        return None
    if new is None:
        raise UserError(
            f"node {node_id} is not an observer with a new directory: format one with"
            " kafka-storage format --no-initial-controllers, and start the node"
        )
    if voter is not None and (voter.last_fetch_ms or -1) > (new.last_fetch_ms or -1):
        raise UserError(
            f"node {node_id} still fetches as a voter with directory {directory_of(voter)}:"
            " it has not lost its disk"
        )
    places = endpoints or (new if voter is None else voter).endpoints
    if not places:
        raise UserError(
            f"node {node_id} is not a voter any more, so its address is unknown: use"
            " --endpoint HOST:PORT"
        )
    if voter is not None:
        check_removal(quorum, voter)
    return Replacement(voter, new, places)


async def replaceable(
    admin: client.AsyncAdmin,
    find: Callable[[client.MetadataQuorum], Replacement | None],
    patience_s: float,
) -> Replacement | None:
    """Return what is to be done once the node has caught up; UserError if it has not in time."""
    import asyncio  # noqa: PLC0415 - help runs no loop

    clock = SystemClock()
    end_s = clock.monotonic() + patience_s
    while True:
        quorum = await admin.describe_metadata_quorum()
        try:
            plan = find(quorum)
            if plan is None or (plan.new.log_end_offset or 0) >= quorum.high_watermark:
                return plan
            problem = UserError(
                f"node {plan.new.node_id} has not caught up: it is at offset"
                f" {plan.new.log_end_offset} of {quorum.high_watermark}"
            )
        except UserError as error:
            problem = error
        if clock.monotonic() + PAUSE_S > end_s:
            raise problem
        await asyncio.sleep(PAUSE_S)


async def carry_out(
    admin: client.AsyncAdmin, plan: Replacement, say: Callable[[str], None]
) -> None:
    """Remove the lost voter and add the new one, and say so."""
    lost, new = plan.lost, plan.new
    assert new.directory_id is not None  # a follower with another directory was looked for
    directory = uuid_text(new.directory_id)
    if lost is not None and lost.directory_id is not None:
        await admin.remove_raft_voter(lost.node_id, lost.directory_id)
        say(f"removed voter {lost.node_id} with directory {directory_of(lost)}")
    try:
        await admin.add_raft_voter(new.node_id, new.directory_id, plan.endpoints)
    except client.ClientError as error:
        raise UserError(
            f"node {new.node_id} is not a voter now: {error.what} To continue: moldau quorum add"
            f" {new.node_id} --directory-id {directory} --endpoint {plan.endpoints[0]}"
        ) from error
    say(f"added voter {new.node_id} with directory {directory}")


def _follower(
    quorum: client.MetadataQuorum, node_id: int, directory_id: bytes | None
) -> client.QuorumReplica | None:
    """Return the node as it follows with another directory: the one that has fetched last."""
    found = [
        one
        for one in quorum.observers
        if one.node_id == node_id
        and one.directory_id is not None
        and is_heard(quorum, one)
        and directory_id in (None, one.directory_id)
    ]
    return max(found, key=lambda one: one.last_fetch_ms or -1, default=None)


def _is_right(
    quorum: client.MetadataQuorum,
    voter: client.QuorumReplica,
    new: client.QuorumReplica | None,
    directory_id: bytes | None,
) -> bool:
    """Tell whether a node votes with the directory that it has."""
    if directory_id is not None:
        return voter.directory_id == directory_id
    return new is None and is_heard(quorum, voter)
