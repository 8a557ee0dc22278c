"""`moldau cluster`: what the cluster is, whether it is well, and what it speaks."""

from __future__ import annotations

import click

from moldau.cli.frame import client
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import Column, Report, View, listing
from moldau.cli.frame.session import Session, asking, watching
from moldau.cli.nouns.broker import COLUMNS as BROKER_COLUMNS
from moldau.cli.nouns.broker import broker_rows
from moldau.cli.nouns.health import health_report

INFO_COLUMNS = (
    Column("cluster_id", "CLUSTER"),
    Column("controller", "CONTROLLER"),
    Column("broker_count", "BROKERS"),
    Column("topic_count", "TOPICS"),
    Column("partition_count", "PARTITIONS"),
)
VERSION_COLUMNS = (
    Column("api", "API"),
    Column("key", "KEY"),
    Column("broker", "BROKER"),
    Column("first", "FROM"),
    Column("last", "TO"),
)
FEATURE_COLUMNS = (
    Column("feature", "FEATURE"),
    Column("finalized", "IN FORCE"),
    Column("first", "FROM"),
    Column("last", "TO"),
)


@click.group()
def cluster() -> None:
    """The cluster: info, health, api-versions, features."""


@cluster.command()
@watching
async def info(admin: client.AsyncAdmin) -> Report:
    """Show the cluster and its brokers."""
    described = await admin.describe_cluster()
    topics = await admin.list_topics(include_internal=True)
    brokers = await broker_rows(admin, described)
    summary = {
        "cluster_id": described.cluster_id,
        "controller": described.controller_id,
        "broker_count": len(described.brokers),
        "topic_count": len(topics),
        "partition_count": sum(one.partition_count for one in topics.values()),
    }
    main = View(INFO_COLUMNS, [summary])
    data = {**summary, "brokers": brokers}
    return Report(data, main, "cluster_id", (main, View(BROKER_COLUMNS, brokers)))


@cluster.command()
@watching
def health(session: Session) -> None:
    """Tell whether every partition is led and replicated; the status is 1 if not."""
    session.show(health_report)


@cluster.command("api-versions")
@click.argument("brokers", nargs=-1, type=click.IntRange(min=0), metavar="[BROKER]...")
@asking
async def api_versions(admin: client.AsyncAdmin, brokers: tuple[int, ...]) -> Report:
    """Show which versions of which APIs brokers serve."""
    results = await admin.describe_api_versions(brokers or None)
    rows = [
        {"api": one.name, "key": key, "broker": broker, "first": one.first, "last": one.last}
        for broker, found in sorted(results.ok.items())
        for key, one in sorted(found.items())
    ]
    errors = [about(f"broker {one}", error) for one, error in results.errors.items()]
    return listing(VERSION_COLUMNS, rows, errors=errors)


@cluster.command()
@asking
async def features(admin: client.AsyncAdmin) -> Report:
    """Show which features are in force, and which levels the brokers can run at."""
    found = await admin.describe_features()
    rows = [
        {
            "feature": name,
            "finalized": found.finalized[name].last if name in found.finalized else None,
            "first": levels.first,
            "last": levels.last,
        }
        for name, levels in sorted(found.supported.items())
    ]
    return listing(FEATURE_COLUMNS, rows)
