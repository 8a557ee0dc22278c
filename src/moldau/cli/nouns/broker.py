"""`moldau broker`: the brokers of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.report import BAD, Column, Report, View, listing
from moldau.cli.frame.session import asking, watching
from moldau.cli.nouns.config import configs_report
from moldau.cli.nouns.log import DIR_COLUMNS, dir_rows

COLUMNS = (
    Column("broker", "BROKER"),
    Column("host", "HOST"),
    Column("port", "PORT"),
    Column("rack", "RACK"),
    Column("controller", "CONTROLLER"),
    Column("leaders", "LEADERS", wide=True),
    Column("replicas", "REPLICAS", wide=True),
    Column("out_of_sync", "OUT OF SYNC", wide=True, style=lambda count: BAD if count else None),
)

broker_argument = click.argument("broker_id", metavar="BROKER", type=click.IntRange(min=0))


@click.group()
def broker() -> None:
    """Brokers: list, describe, config."""


@broker.command("list")
@watching
async def list_(admin: client.AsyncAdmin) -> Report:
    """List brokers; -o wide also counts their leaders and replicas."""
    return listing(COLUMNS, await broker_rows(admin, await admin.describe_cluster()))


@broker.command()
@broker_argument
@watching
async def describe(admin: client.AsyncAdmin, broker_id: int) -> Report:
    """Show a broker, its partitions and its log directories."""
    rows = await broker_rows(admin, await _known(admin, broker_id))
    (row,) = (row for row in rows if row["broker"] == broker_id)
    dirs = dir_rows((await admin.describe_log_dirs([broker_id])).or_raise())
    main = View([Column(one.key, one.title) for one in COLUMNS], [row])
    data = {**row, "log_dirs": dirs}
    return Report(data, main, "broker", (main, View(DIR_COLUMNS, dirs)))


@broker.command()
@broker_argument
@click.argument("keys", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Show defaults too.")
@asking
async def config(
    admin: client.AsyncAdmin, broker_id: int, keys: tuple[str, ...], everything: bool
) -> Report:
    """Show the configs of a broker: those that were changed, those named, or all."""
    await _known(admin, broker_id)
    resource = client.ConfigResource.broker(broker_id)
    return await configs_report(admin, resource, keys, everything=everything)


async def _known(admin: client.AsyncAdmin, broker_id: int) -> client.ClusterDescription:
    cluster = await admin.describe_cluster()
    ids = [one.broker_id for one in cluster.brokers]
    if broker_id not in ids:
        raise UserError(f"there is no broker {broker_id} (brokers: {', '.join(map(str, ids))})")
    return cluster


async def broker_rows(
    admin: client.AsyncAdmin, cluster: client.ClusterDescription
) -> list[dict[str, Any]]:
    """Ask how many partitions each broker leads and holds."""
    names = await admin.list_topics(include_internal=True)
    return rows_of(cluster, (await admin.describe_topics(names)).ok.values())


def rows_of(
    cluster: client.ClusterDescription, topics: Iterable[client.TopicDescription]
) -> list[dict[str, Any]]:
    """Tell of each broker how many partitions it leads and holds."""
    partitions = [one for topic in topics for one in topic.partitions]
    return [
        {
            "broker": one.broker_id,
            "host": one.host,
            "port": one.port,
            "rack": one.rack,
            "controller": one.broker_id == cluster.controller_id,
            "leaders": sum(part.leader == one.broker_id for part in partitions),
            "replicas": sum(one.broker_id in part.replicas for part in partitions),
            "out_of_sync": sum(
                one.broker_id in part.replicas and one.broker_id not in part.isr
                for part in partitions
            ),
        }
        for one in cluster.brokers
    ]
