"""`moldau group`: consumer groups, how far they are, and setting them elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.change import Change, nothing_done, outcome_report
from moldau.cli.frame.completion import complete_groups, complete_topics
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import DOUBTFUL, GOOD, Column, Report, listing
from moldau.cli.frame.selection import (
    chosen_partitions,
    matching,
    partitions_argument,
    regex_option,
)
from moldau.cli.frame.session import Session, changing, watching
from moldau.cli.nouns.group_report import groups_report
from moldau.cli.nouns.seeking import SeekTo, seek_plan
from moldau.client.records import TopicPartition

GROUP = Column("group", "GROUP")
STATES = {"Stable": GOOD, "PreparingRebalance": DOUBTFUL, "CompletingRebalance": DOUBTFUL}

LIST_COLUMNS = (
    GROUP,
    Column("state", "STATE", style=STATES.get),
    Column("type", "TYPE"),
    Column("protocol_type", "PROTOCOL", wide=True),
)
MEMBER_COLUMNS = (
    GROUP,
    Column("member_id", "MEMBER"),
    Column("instance_id", "INSTANCE"),
    Column("client_id", "CLIENT"),
    Column("host", "HOST"),
    Column("partition_count", "PARTITIONS"),
    Column("topics", "TOPICS", wide=True),
    Column("assignment", "ASSIGNMENT", wide=True),
)

groups_argument = click.argument("groups", nargs=-1, required=True, shell_complete=complete_groups)
group_argument = click.argument("group", shell_complete=complete_groups)


@click.group()
def group() -> None:
    """Consumer groups: list, describe, members, seek, offset-delete, delete."""


async def chosen_groups(
    admin: client.AsyncAdmin, given: tuple[str, ...], *, regex: bool
) -> list[str]:
    """Return the groups that are meant; UserError if patterns match none."""
    if not regex:
        return list(dict.fromkeys(given))
    found = matching((one.group_id for one in await admin.list_groups()), given)
    if not found:
        raise UserError(f"no group matches {' or '.join(map(repr, given))}")
    return found


# Looking


@group.command("list")
@click.option("--state", "states", multiple=True, help="Only groups in this state; repeatable.")
@click.option(
    "--type",
    "types",
    multiple=True,
    help="Only groups of this type: classic, consumer, ...; repeatable.",
)
@watching
async def list_(
    admin: client.AsyncAdmin, states: tuple[str, ...], types: tuple[str, ...]
) -> Report:
    """List groups."""
    rows = [
        {
            "group": one.group_id,
            "state": one.state,
            "type": one.type,
            "protocol_type": one.protocol_type,
        }
        for one in await admin.list_groups(states=states, types=types)
    ]
    return listing(LIST_COLUMNS, rows)


@group.command()
@groups_argument
@regex_option
@watching
async def describe(admin: client.AsyncAdmin, groups: tuple[str, ...], regex: bool) -> Report:
    """Show committed offsets, end offsets, lag and assignments of groups."""
    return await groups_report(admin, await chosen_groups(admin, groups, regex=regex))


@group.command()
@groups_argument
@regex_option
@watching
async def members(admin: client.AsyncAdmin, groups: tuple[str, ...], regex: bool) -> Report:
    """Show the members of groups and their assignments."""
    described = await admin.describe_groups(await chosen_groups(admin, groups, regex=regex))
    rows = [
        {
            "group": name,
            "member_id": one.member_id,
            "instance_id": one.instance_id,
            "client_id": one.client_id,
            "host": one.host,
            "partition_count": len(one.assignment),
            "topics": sorted(one.topics),
            "assignment": [str(partition) for partition in sorted(one.assignment)],
        }
        for name, group in described.ok.items()
        for one in group.members
    ]
    errors = [about(name, error) for name, error in described.errors.items()]
    return listing(MEMBER_COLUMNS, rows, errors=errors)


# Changing


@group.command()
@group_argument
@click.option(
    "--to",
    metavar="POSITION",
    help="earliest, latest, current, an offset, +N, -N, @TIME or an age (90m, 1d12h).",
)
@click.option(
    "--to-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Lines of topic,partition,offset, as `-o csv` prints them.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    shell_complete=complete_topics,
    help="Only these, as in orders:0,2-4 [all committed partitions]; repeatable.",
)
@changing
def seek(
    session: Session,
    change: Change,
    group: str,
    to: str | None,
    to_file: Path | None,
    topics: tuple[str, ...],
) -> None:
    r"""Reset the offsets of a group without members.

    Shows what would change; applies it only with --yes.

    \b
    moldau group seek billing --to earliest --topic orders
    moldau group seek billing --to @2026-01-31T12:00Z --yes
    """
    place = SeekTo.read(to, to_file)
    columns = (
        Column("topic", "TOPIC"),
        Column("partition", "PARTITION"),
        Column("current", "CURRENT"),
        Column("offset", "NEW OFFSET"),
    )

    async def work(admin: client.AsyncAdmin) -> Report:
        plan = await seek_plan(admin, group, place, topics)
        rows = {
            one: {
                "topic": one.topic,
                "partition": one.partition,
                "current": move.current,
                "offset": move.offset,
            }
            for one, move in plan.items()
        }
        acts = change.yes and not change.dry_run
        results: client.Results[TopicPartition, None] = nothing_done(plan)
        if acts:
            results = await admin.alter_group_offsets(
                group, {one: move.offset for one, move in plan.items()}
            )
        if acts:
            return outcome_report(columns, rows, results, "set")
        note = "nothing was changed: use --yes to do it."
        return outcome_report(columns, rows, results, "would be set", note=note)

    session.show(work)


@group.command("offset-delete")
@group_argument
@partitions_argument
@changing
async def offset_delete(
    admin: client.AsyncAdmin, change: Change, group: str, topics: tuple[str, ...]
) -> Report:
    """Delete committed offsets of a group."""
    partitions = await chosen_partitions(admin, topics)
    committed = await admin.list_group_offsets(group, partitions)
    chosen = [one for one in partitions if one in committed]
    if not chosen:
        raise UserError(f"group {group!r} has no committed offsets there")
    change.confirm(f"delete {len(chosen)} offsets of group {group}")
    results = nothing_done(chosen)
    if not change.dry_run:
        results = await admin.delete_group_offsets(group, chosen)
    rows = {
        one: {"topic": one.topic, "partition": one.partition, "offset": committed[one].offset}
        for one in chosen
    }
    columns = (
        Column("topic", "TOPIC"),
        Column("partition", "PARTITION"),
        Column("offset", "OFFSET"),
    )
    word = "would be deleted" if change.dry_run else "deleted"
    return outcome_report(columns, rows, results, word)


@group.command()
@groups_argument
@regex_option
@changing
async def delete(
    admin: client.AsyncAdmin, change: Change, groups: tuple[str, ...], regex: bool
) -> Report:
    """Delete groups without members, with their offsets."""
    names = await chosen_groups(admin, groups, regex=regex)
    described = await admin.describe_groups(names)
    there = list(described.ok)
    what = f"group {there[0]}" if len(there) == 1 else f"{len(there)} groups"
    if there:
        change.confirm(f"delete {what} with all offsets")
    results = nothing_done(there)
    if there and not change.dry_run:
        results = await admin.delete_groups(there)
    results.errors.update(described.errors)
    rows = {name: {"group": name, "state": one.state} for name, one in described.ok.items()}
    columns = (GROUP, Column("state", "STATE"))
    word = "would be deleted" if change.dry_run else "deleted"
    return outcome_report(columns, rows, results, word)
