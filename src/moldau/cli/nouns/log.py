"""`moldau log`: what lies on the disks of brokers, and in files."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import click

from moldau.cli.frame import client
from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import BAD, Column, Report, listing
from moldau.cli.frame.selection import parse_partitions
from moldau.cli.frame.session import Session, watching
from moldau.client.records import TopicPartition

DIR_COLUMNS = (
    Column("path", "DIRECTORY"),
    Column("broker", "BROKER"),
    Column("replicas", "REPLICAS"),
    Column("size", "SIZE"),
    Column("usable_bytes", "USABLE"),
    Column("total_bytes", "TOTAL", wide=True),
    Column("error", "ERROR", style=lambda error: BAD if error else None),
)
REPLICA_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("broker", "BROKER"),
    Column("size", "SIZE"),
    Column("offset_lag", "LAG"),
    Column("is_future", "MOVING IN", wide=True),
    Column("path", "DIRECTORY"),
)

Dirs: TypeAlias = "Mapping[int, Sequence[client.LogDirDescription]]"


class _LogGroup(click.Group):
    """Holds `dump`, which reads files and needs no client, without importing it for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "dump"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "dump":
            command: click.Command = importlib.import_module("moldau.cli.dump_log").dump_log
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=_LogGroup)
def log() -> None:
    """Log directories of brokers, and log files: dirs, dump."""


@log.command()
@click.argument("brokers", nargs=-1, type=click.IntRange(min=0), metavar="[BROKER]...")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    shell_complete=complete_topics,
    help="Show the replicas of these; repeatable.",
)
@watching
def dirs(session: Session, brokers: tuple[int, ...], topics: tuple[str, ...]) -> None:
    """Show log directories and their sizes; with -t the replicas of topics."""
    wanted = [parse_partitions(text) for text in topics]

    async def look(admin: client.AsyncAdmin) -> Report:
        results = await admin.describe_log_dirs(brokers or None)
        errors = [about(f"broker {one}", error) for one, error in results.errors.items()]
        if not topics:
            return listing(DIR_COLUMNS, dir_rows(results.ok), errors=errors)

        def meant(replica: TopicPartition) -> bool:
            return any(
                replica.topic == topic and (numbers is None or replica.partition in numbers)
                for topic, numbers in wanted
            )

        rows = [row for row in replica_rows(results.ok) if meant(TopicPartition(*_place(row)))]
        return listing(REPLICA_COLUMNS, rows, errors=errors)

    session.show(look)


def dir_rows(dirs: Dirs) -> list[dict[str, Any]]:
    """One row for each directory."""
    return [
        {
            "path": one.path,
            "broker": broker,
            "replicas": len(one.replicas),
            "size": sum(replica.size for replica in one.replicas.values()),
            "total_bytes": one.total_bytes,
            "usable_bytes": one.usable_bytes,
            "error": None if one.error is None else one.error.what,
        }
        for broker, found in sorted(dirs.items())
        for one in found
    ]


def replica_rows(dirs: Dirs) -> list[dict[str, Any]]:
    """One row for each replica, by topic."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "broker": broker,
            "size": replica.size,
            "offset_lag": replica.offset_lag,
            "is_future": replica.is_future,
            "path": one.path,
        }
        for broker, found in dirs.items()
        for one in found
        for partition, replica in one.replicas.items()
    ]
    return sorted(rows, key=lambda row: (*_place(row), row["broker"]))


def _place(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]
