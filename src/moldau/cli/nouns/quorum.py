"""`moldau quorum`: the voters that keep the cluster's metadata, and changing them (KIP-853)."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import click

from moldau.base.errors import UserError
from moldau.base.ids import uuid_text
from moldau.cli.frame import client
from moldau.cli.frame.change import Change, nothing_done, outcome_report
from moldau.cli.frame.connection import read_properties
from moldau.cli.frame.durations import Seconds
from moldau.cli.frame.report import Report
from moldau.cli.frame.session import changing, watching
from moldau.cli.nouns.quorum_report import DIRECTORY, ENDPOINTS, NODE, ask_quorum, quorum_report
from moldau.cli.operations.new_voter import (
    NewVoter,
    parse_directory_id,
    parse_endpoint,
    read_new_voter,
)
from moldau.cli.operations.voter_changes import (
    check_removal,
    directory_of,
    require_dynamic,
    the_voter,
)
from moldau.cli.operations.voter_replacement import carry_out, plan_replacement, replaceable

Endpoints = tuple[str, ...]

node_argument = click.argument("node_id", metavar="NODE", type=click.IntRange(min=0))
endpoint_option = click.option(
    "--endpoint", "endpoints", multiple=True, metavar="[LISTENER://]HOST:PORT",
    help="Its address for other controllers; repeatable.",
)  # fmt: skip


@click.group()
def quorum() -> None:
    """The metadata quorum: status; voters: add, remove, replace."""


@quorum.command()
@watching
async def status(admin: client.AsyncAdmin) -> Report:
    """Show the leader, voters and observers, and the progress of each node."""
    return quorum_report(await ask_quorum(admin))


@quorum.command()
@click.argument("node_id", metavar="[NODE]", type=click.IntRange(min=0), required=False)
@click.option("--directory-id", metavar="ID", help="Id of its metadata directory [the one in use].")
@endpoint_option
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE",
    help="server.properties of the node, with its id, directory and endpoints.",
)  # fmt: skip
@changing
async def add(
    admin: client.AsyncAdmin,
    change: Change,
    node_id: int | None,
    directory_id: str | None,
    endpoints: Endpoints,
    config: Path | None,
) -> Report:
    """Make an observer a voter."""
    found = await _dynamic(admin)
    if config is not None:
        if node_id is not None or directory_id is not None or endpoints:
            raise click.UsageError(
                "--config names the node: use it without other options for the node"
            )
        new = read_new_voter(read_properties(config))
    elif node_id is None:
        raise click.UsageError("name a NODE, or its file with --config")
    else:
        new = _named(found, node_id, directory_id, endpoints)
    voter = found.voter(new.node_id)
    if voter is not None and voter.directory_id != new.directory_id:
        raise UserError(
            f"node {new.node_id} is already a voter with directory {directory_of(voter)}: use"
            f" moldau quorum replace {new.node_id}"
        )
    if voter is None and not change.dry_run:
        await _carried_out(admin.add_raft_voter(*new))
    word = "would be added" if change.dry_run else "added"
    return _report(new, word if voter is None else "already a voter")


@quorum.command()
@node_argument
@click.option("--directory-id", metavar="ID", help="Only if the voter has this directory.")
@changing
async def remove(
    admin: client.AsyncAdmin, change: Change, node_id: int, directory_id: str | None
) -> Report:
    """Remove a voter; the node may be down, or stay as an observer."""
    found = await _dynamic(admin)
    voter = the_voter(found, node_id)
    wanted = _directory(directory_id)
    if wanted not in (None, voter.directory_id):
        raise UserError(f"node {node_id} is a voter with directory {directory_of(voter)}")
    check_removal(found, voter)
    assert voter.directory_id is not None  # the log names the voters
    change.confirm(f"remove voter {node_id} with directory {directory_of(voter)}")
    if not change.dry_run:
        await _carried_out(admin.remove_raft_voter(node_id, voter.directory_id))
    gone = NewVoter(node_id, voter.directory_id, voter.endpoints)
    return _report(gone, "would be removed" if change.dry_run else "removed")


@quorum.command()
@node_argument
@click.option("--directory-id", metavar="ID", help="Id of the new directory [the one in use].")
@endpoint_option
@click.option(
    "--wait", type=Seconds(), default="60s", show_default=True,
    help="How long to wait until the node has caught up.",
)  # fmt: skip
@changing
async def replace(
    admin: client.AsyncAdmin,
    change: Change,
    node_id: int,
    directory_id: str | None,
    endpoints: Endpoints,
    wait: float,
) -> Report:
    """Replace a voter that has lost its disk.

    Format the new disk with `kafka-storage format --no-initial-controllers`, and start the node.
    Once it has caught up, the lost directory is removed from the voters and the new one added. If
    the command was interrupted, run it again.
    """
    found = await _dynamic(admin)
    wanted, places = _directory(directory_id), _endpoints(found, endpoints)
    plan = await replaceable(
        admin, lambda now: plan_replacement(now, node_id, wanted, places), wait
    )
    if plan is None:
        voter = the_voter(await ask_quorum(admin), node_id)
        return _report(
            NewVoter(node_id, voter.directory_id or b"", voter.endpoints), "already a voter"
        )
    assert plan.new.directory_id is not None  # else it could not be told from the lost one
    lost = "" if plan.lost is None else f" in place of {directory_of(plan.lost)}"
    change.confirm(
        f"make node {node_id} a voter with directory {uuid_text(plan.new.directory_id)}{lost}"
    )
    if not change.dry_run:
        steps = carry_out(admin, plan, lambda step: click.echo(f"moldau: {step}", err=True))
        await _carried_out(steps)
    new = NewVoter(node_id, plan.new.directory_id, plan.endpoints)
    return _report(new, "would be replaced" if change.dry_run else "replaced")


async def _dynamic(admin: client.AsyncAdmin) -> client.MetadataQuorum:
    found = await ask_quorum(admin)
    require_dynamic(found)
    return found


async def _carried_out(change: Awaitable[None]) -> None:
    """Wait for a change; what the leader says against it is the whole line, with its advice."""
    try:
        await change
    except client.BrokerError as error:
        raise UserError(error.what) from error


def _named(
    found: client.MetadataQuorum, node_id: int, directory_id: str | None, endpoints: Endpoints
) -> NewVoter:
    """Put together what was typed and what the leader knows of a node that follows."""
    directory, voter = _directory(directory_id), found.voter(node_id)
    if voter is not None and voter.directory_id is not None:
        return NewVoter(node_id, directory or voter.directory_id, voter.endpoints)
    if directory is None:
        ids = {one.directory_id for one in found.observers if one.node_id == node_id}
        if len(ids) != 1:
            problem = "is not an observer" if not ids else "has several directories"
            raise UserError(f"node {node_id} {problem}: name its directory with --directory-id")
        (directory,) = ids
    if directory is None or not endpoints:
        raise UserError(
            f"the address of node {node_id} is missing: use --endpoint HOST:PORT, or --config FILE"
        )
    return NewVoter(node_id, directory, _endpoints(found, endpoints))


def _endpoints(
    found: client.MetadataQuorum, texts: Endpoints
) -> tuple[client.ControllerEndpoint, ...]:
    """Read endpoints; without a name they are of the listener that the voters have."""
    names = [endpoint.listener for one in found.voters for endpoint in one.endpoints]
    return tuple(parse_endpoint(text, names[0] if names else "CONTROLLER") for text in texts)


def _directory(text: str | None) -> bytes | None:
    try:
        return None if text is None else parse_directory_id(text)
    except ValueError as error:
        raise UserError(f"--directory-id: {error}") from None


def _report(voter: NewVoter, word: str) -> Report:
    row: dict[str, Any] = {
        "node": voter.node_id,
        "directory_id": uuid_text(voter.directory_id),
        "endpoints": [str(one) for one in voter.endpoints],
    }
    results = nothing_done([voter.node_id])
    return outcome_report((NODE, DIRECTORY, ENDPOINTS), {voter.node_id: row}, results, word)
