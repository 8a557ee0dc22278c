"""`moldau topic`: topics from their making to their end."""

from __future__ import annotations

from typing import Any

import click

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.base.ids import uuid_text
from moldau.cli.frame import client
from moldau.cli.frame.arguments import assignments, config_texts, parse_changes
from moldau.cli.frame.change import Change, nothing_done, outcome_report
from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.offset_words import parse_position
from moldau.cli.frame.report import Column, Report, listing
from moldau.cli.frame.selection import (
    chosen_partitions,
    chosen_topics,
    matching,
    partitions_argument,
    regex_option,
)
from moldau.cli.frame.session import Session, changing, watching
from moldau.cli.nouns.topic_report import topics_report
from moldau.cli.operations.positions import (
    Position,
    PositionKind,
    ends_of,
    find_targets,
    offsets_at,
)
from moldau.client.records import TopicPartition

TOPIC = Column("topic", "TOPIC")
PARTITION = Column("partition", "PARTITION")

LIST_COLUMNS = (
    Column("name", "NAME"),
    Column("partitions", "PARTITIONS"),
    Column("internal", "INTERNAL", wide=True),
    Column("topic_id", "ID", wide=True),
)
OFFSET_COLUMNS = (
    TOPIC,
    PARTITION,
    Column("earliest", "EARLIEST"),
    Column("latest", "LATEST"),
    Column("count", "OFFSETS"),
    Column("last_stable", "LAST STABLE", wide=True),
)

topics_argument = click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)


@click.group()
def topic() -> None:
    """Topics: list, describe, create, alter, delete, trim, offsets."""


# Looking


@topic.command("list")
@click.argument("patterns", nargs=-1, shell_complete=complete_topics)
@regex_option
@click.option("-i", "--internal", is_flag=True, help="Show internal topics too.")
@watching
async def list_(
    admin: client.AsyncAdmin, patterns: tuple[str, ...], regex: bool, internal: bool
) -> Report:
    """List all topics, those named, or with -r those that match."""
    listed = await admin.list_topics(include_internal=internal or bool(patterns))
    names = list(listed)
    missing: list[str] = []
    if patterns and regex:
        names = matching(listed, patterns)
    elif patterns:
        names = [one for one in names if one in patterns]
        missing = [one for one in dict.fromkeys(patterns) if one not in listed]
    rows = [
        {
            "name": name,
            "partitions": listed[name].partition_count,
            "internal": listed[name].is_internal,
            "topic_id": _id(listed[name].topic_id),
        }
        for name in names
    ]
    errors = [UserError(f"there is no topic {name}") for name in missing]
    return listing(LIST_COLUMNS, rows, errors=errors)


@topic.command()
@topics_argument
@regex_option
@watching
async def describe(admin: client.AsyncAdmin, topics: tuple[str, ...], regex: bool) -> Report:
    """Show partitions, replicas, offsets and changed configs of topics."""
    return await topics_report(admin, await chosen_topics(admin, topics, regex=regex))


@topic.command()
@partitions_argument
@regex_option
@click.option(
    "--at", metavar="TIME", help="Also show the first offset at or after this time (or 90m ago)."
)
@watching
def offsets(session: Session, topics: tuple[str, ...], regex: bool, at: str | None) -> None:
    """Show the earliest and latest offsets of partitions: orders, or orders:0,2-4."""
    word = None if at is None else _time(at)

    async def look(admin: client.AsyncAdmin) -> Report:
        partitions = await chosen_partitions(admin, topics, regex=regex)
        ends = await ends_of(admin, partitions)
        stable = await admin.list_offsets(
            dict.fromkeys(partitions, client.OffsetSpec.LATEST), isolation_level="read_committed"
        )
        rows: list[dict[str, Any]] = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "earliest": ends[one].earliest,
                "latest": ends[one].latest,
                "count": ends[one].latest - ends[one].earliest,
                "last_stable": stable[one].offset,
            }
            for one in partitions
        ]
        if word is None:
            return listing(OFFSET_COLUMNS, rows)
        found = await offsets_at(admin, dict.fromkeys(partitions, word.value))
        for row, one in zip(rows, partitions, strict=True):
            row["at"] = found[one]
        return listing((*OFFSET_COLUMNS, Column("at", "AT")), rows)

    session.show(look)


def _time(text: str) -> Position:
    word = parse_position(text if not text[:4].isdecimal() else f"@{text}", _now_ms())
    if word.kind is not PositionKind.TIME:
        raise UserError(f"--at {text}: expected a time (2026-01-31T12:00) or an age (90m)")
    return word


def _now_ms() -> int:
    return SystemClock().wall_ms()


# Changing


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="[the broker's default]")
@click.option(
    "--replicas",
    "--replication-factor",
    "replicas",
    type=click.IntRange(min=1),
    help="[the broker's default]",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one config; repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Do not fail if a topic exists.")
@changing
def create(
    session: Session,
    change: Change,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create topics. With --dry-run the broker only validates the request."""
    wanted = assignments(configs, "-c")
    new = [client.NewTopic(name, partitions, replicas, wanted) for name in dict.fromkeys(names)]
    columns = (
        Column("name", "NAME"),
        Column("partitions", "PARTITIONS"),
        Column("replicas", "REPLICAS"),
        Column("topic_id", "ID", wide=True),
    )

    async def make(admin: client.AsyncAdmin) -> Report:
        there = await admin.list_topics(include_internal=True) if if_not_exists else {}
        results = await admin.create_topics(
            [one for one in new if one.name not in there], validate_only=change.dry_run
        )
        rows = {
            name: {
                "name": name,
                "partitions": made.partitions,
                "replicas": made.replication_factor,
                "topic_id": _id(made.topic_id),
            }
            for name, made in results.ok.items()
        }
        word = "would be created" if change.dry_run else "created"
        return outcome_report(columns, rows, results, word)

    session.show(make)


@topic.command()
@topics_argument
@regex_option
@click.option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@changing
async def delete(
    admin: client.AsyncAdmin, change: Change, topics: tuple[str, ...], regex: bool, if_exists: bool
) -> Report:
    """Delete topics with all their records."""
    names = await chosen_topics(admin, topics, regex=regex)
    described = await admin.describe_topics(names)
    there = [str(name) for name in described.ok]
    rows = {
        name: {"name": name, "partitions": len(one.partitions)}
        for name, one in described.ok.items()
    }
    if there:
        change.confirm(f"delete {_counted(there)} with all records")
    results: client.Results[Any, None] = nothing_done(there)
    if there and not change.dry_run:
        results = await admin.delete_topics(there)
    if not if_exists:
        for error in described.errors.values():
            error.advice = "Nothing was deleted: check the name, or use --if-exists."
        results.errors.update(described.errors)
    columns = (Column("name", "NAME"), Column("partitions", "PARTITIONS"))
    word = "would be deleted" if change.dry_run else "deleted"
    return outcome_report(columns, rows, results, word)


@topic.command()
@topics_argument
@regex_option
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    help="New number of partitions; it can only grow.",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a config; KEY+=VALUE and KEY-=VALUE change lists.",
)
@click.option(
    "-d", "--delete-config", "deleted", multiple=True, metavar="KEY", help="Reset one config."
)
@changing
def alter(
    session: Session,
    change: Change,
    topics: tuple[str, ...],
    regex: bool,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Change configs of topics, or add partitions to them."""
    changes = parse_changes(configs, deleted)
    if partitions is None and not changes:
        raise UserError("nothing to change: use -p, -c or -d")

    async def work(admin: client.AsyncAdmin) -> Report:
        names = await chosen_topics(admin, topics, regex=regex)
        parts = [f"{partitions} partitions"] if partitions else []
        what = " and ".join([*parts, *([config_texts(changes)] if changes else [])])
        change.confirm(f"change {_counted(names)} to {what}")
        results = nothing_done(names)
        if partitions is not None:
            enlarged = await admin.create_partitions_of(
                dict.fromkeys(names, partitions), validate_only=change.dry_run
            )
            results = client.Results(enlarged.ok, enlarged.errors)
        if changes and results.ok:
            resources = {client.ConfigResource.topic(name): changes for name in results.ok}
            altered = await admin.alter_configs(resources, validate_only=change.dry_run)
            results = client.Results(
                {one.name: None for one in altered.ok},
                {**results.errors, **{one.name: error for one, error in altered.errors.items()}},
            )
        rows = {name: {"name": name, "change": what} for name in names}
        columns = (Column("name", "NAME"), Column("change", "CHANGE"))
        word = "would be changed" if change.dry_run else "changed"
        return outcome_report(columns, rows, results, word)

    session.show(work)


@topic.command()
@partitions_argument
@regex_option
@click.option(
    "--before",
    required=True,
    metavar="POSITION",
    help="Delete the records before: an offset, latest (everything), @TIME or an age (90m).",
)
@changing
def trim(
    session: Session, change: Change, topics: tuple[str, ...], regex: bool, before: str
) -> None:
    """Delete the oldest records of partitions: orders, or orders:0,2-4."""
    word = parse_position(before, _now_ms())
    if word.kind in (PositionKind.CURRENT, PositionKind.SHIFT):
        raise UserError(f"--before {before}: expected an offset, latest, @TIME or an age (90m)")
    columns = (
        TOPIC,
        PARTITION,
        Column("earliest", "EARLIEST"),
        Column("new_earliest", "NEW EARLIEST"),
        Column("deleted", "DELETED"),
    )

    async def cut(admin: client.AsyncAdmin) -> Report:
        partitions = await chosen_partitions(admin, topics, regex=regex)
        ends = await ends_of(admin, partitions)
        found = await find_targets(admin, dict.fromkeys(partitions, word), {})
        targets = {one: target.offset for one, target in found.items()}
        deleted_count = sum(targets[one] - ends[one].earliest for one in partitions)
        change.confirm(f"delete {deleted_count} offsets of {len(partitions)} partitions")
        results: client.Results[TopicPartition, Any] = client.Results(targets, {})
        if not change.dry_run:
            results = await admin.delete_records(dict(targets.items()))
        rows = {
            one: {
                "topic": one.topic,
                "partition": one.partition,
                "earliest": ends[one].earliest,
                "new_earliest": start,
                "deleted": start - ends[one].earliest,
            }
            for one, start in results.ok.items()
        }
        word_ = "would be trimmed" if change.dry_run else "trimmed"
        return outcome_report(columns, rows, results, word_)

    session.show(cut)


def _counted(names: list[str]) -> str:
    """Name a few topics, count many."""
    return f"topic {names[0]}" if len(names) == 1 else f"{len(names)} topics"


def _id(topic_id: bytes | None) -> str | None:
    return None if topic_id is None else uuid_text(topic_id)
