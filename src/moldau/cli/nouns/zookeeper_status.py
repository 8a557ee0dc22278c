"""What ZooKeeper adds to `moldau cluster status`: where it is, the controller and its epoch.

Brokers tell in their configs which ZooKeeper they use. From here that address may be another
server's, or nobody's. So what is found there counts only if it is of the same cluster.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.cli.frame import client
from moldau.cli.frame.report import Column, Report, View
from moldau.cli.nouns.cluster_report import BROKERS, Status, ask_status, report_of
from moldau.cli.zookeeper.elected_controller import ElectedController, read_controller

COLUMNS = (
    Column("zookeeper", "ZOOKEEPER"),
    Column("controller_epoch", "CONTROLLER EPOCH"),
)
CONNECT = "zookeeper.connect"


async def status_with_zookeeper(admin: client.AsyncAdmin, connect: str | None) -> Report:
    """Ask a cluster and its ZooKeeper; `connect` takes the place of what brokers tell."""
    import asyncio  # noqa: PLC0415 - help runs no loop

    status = await ask_status(admin)
    has_quorum = status["quorum"] is not None or status["quorum_problem"] is not None
    servers = connect or (None if has_quorum else await _configured(admin, status))
    status |= {"zookeeper": servers, "controller_epoch": None}
    if servers is None:
        return report_of(status, BROKERS)
    elected = await asyncio.to_thread(read_controller, servers)
    note = None
    if elected is None:
        note = f"no controller found in ZooKeeper at {servers}"
    elif elected.cluster_id != status["cluster_id"]:
        note = f"ZooKeeper at {servers} belongs to another cluster"
    else:
        take_over(status, elected)
    report = report_of(status, BROKERS)
    views = [*report.views, View(COLUMNS, [status])]
    return replace(report, views=views, note=note)


def take_over(status: Status, elected: ElectedController) -> None:
    """Put what ZooKeeper knows of the controller in the place of what brokers know."""
    status["controller"] = elected.broker_id
    status["controller_epoch"] = elected.epoch
    for row in status["brokers"]:
        row["controller"] = row["id"] == elected.broker_id


async def _configured(admin: client.AsyncAdmin, status: Status) -> str | None:
    """Return the ZooKeeper that a broker names; None if it names none, or may not be asked."""
    for row in status["brokers"][:1]:
        broker = client.ConfigResource.broker(row["id"])
        told = (await admin.describe_configs([broker], names=[CONNECT])).ok.get(broker, {})
        if CONNECT in told:
            return told[CONNECT].value or None
    return None
