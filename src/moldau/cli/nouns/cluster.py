"""`moldau cluster`: what a cluster is, whether it is well, what it speaks; one on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from moldau.cli.clusters.commands import data_option, down, kill, migrate, start, stop, up
from moldau.cli.clusters.layout import open_cluster
from moldau.cli.clusters.local_status import show_local_status
from moldau.cli.frame import client
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import Column, Report, listing
from moldau.cli.frame.session import Session, asking, watching
from moldau.cli.nouns.health import health_report
from moldau.cli.nouns.zookeeper_status import status_with_zookeeper

VERSION_COLUMNS = (
    Column("api", "API"),
    Column("key", "KEY"),
    Column("broker", "BROKER"),
    Column("first", "FROM"),
    Column("last", "TO"),
)
FEATURE_COLUMNS = (
    Column("feature", "FEATURE"),
    Column("finalized", "FINALIZED"),
    Column("first", "FROM"),
    Column("last", "TO"),
)


@click.group()
def cluster() -> None:
    """The cluster: status, health, api-versions, features; on this machine: up, down..."""


for command in (up, down, start, stop, kill, migrate):
    cluster.add_command(command)


@cluster.command()
@data_option(required=False)
@click.option(
    "--zookeeper-connect", metavar="HOST:PORT,...[/CHROOT]",
    help="ZooKeeper that knows the controller [the one that brokers use].",
)  # fmt: skip
@watching
def status(session: Session, data: Path | None, zookeeper_connect: str | None) -> None:
    """Show brokers, controller and under-replicated partitions; with --data also processes."""
    if data is None:
        session.show(lambda admin: status_with_zookeeper(admin, zookeeper_connect))
    elif zookeeper_connect is not None:
        raise click.UsageError(
            "--data has its own ZooKeeper: do not use --zookeeper-connect with it"
        )
    else:
        show_local_status(session, open_cluster(data))


@cluster.command()
@watching
def health(session: Session) -> None:
    """Check that the metadata and every partition have a leader and all replicas; 1 if not."""
    session.show(health_report)


@cluster.command("api-versions")
@click.argument("brokers", nargs=-1, type=click.IntRange(min=0), metavar="[BROKER]...")
@asking
async def api_versions(admin: client.AsyncAdmin, brokers: tuple[int, ...]) -> Report:
    """Show the API versions that brokers serve."""
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
    """Show the finalized features and the levels that brokers support."""
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
