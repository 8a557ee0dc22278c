"""The status of a cluster on this machine: its processes, and what those that run tell of it.

Processes are shown also when none of them answers: that is when somebody looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from moldau.cli.clusters.layout import ClusterFolder, LocalNode
from moldau.cli.clusters.processes import running_id
from moldau.cli.clusters.properties import metrics_of
from moldau.cli.frame import client
from moldau.cli.frame.connection import Connection
from moldau.cli.frame.report import BAD, GOOD, Column, Report, View
from moldau.cli.frame.session import Session
from moldau.cli.frame.watch import watch
from moldau.cli.nouns.cluster_report import HELD, Status, ask_status, report_of
from moldau.cli.nouns.zookeeper_status import take_over
from moldau.cli.zookeeper.elected_controller import ElectedController, read_controller

PATIENCE_MS = 10_000
"""How long brokers are asked. One that is paused takes connections and does not answer."""

RUNNING, STOPPED = "running", "stopped"
STYLES = {RUNNING: GOOD, STOPPED: BAD}

COLUMNS = (
    Column("id", "BROKER"),
    Column("state", "STATE", style=STYLES.get),
    Column("pid", "PID"),
    Column("port", "PORT"),
    Column("in_cluster", "IN CLUSTER"),
    *HELD,
)
CONTROLLER_COLUMNS = (
    Column("id", "CONTROLLER"),
    Column("state", "STATE", style=STYLES.get),
    Column("pid", "PID"),
    Column("port", "PORT"),
)
"""Of those that are no brokers."""
ZOOKEEPER_COLUMNS = (
    Column("zookeeper", "ZOOKEEPER"),
    Column("zookeeper_state", "STATE", style=STYLES.get),
    Column("zookeeper_pid", "PID"),
    Column("controller_epoch", "CONTROLLER EPOCH"),
)


def show_local_status(session: Session, cluster: ClusterFolder) -> None:
    """Print the status, again and again if so asked."""
    import asyncio  # noqa: PLC0415 - help runs no loop

    if session.connection != Connection():
        raise click.UsageError(
            "--data already names the brokers: do not use other connection options with it"
        )

    async def look_on() -> Report:
        if session.watch_s is not None:
            await watch(lambda: local_report(cluster), session.present, session.watch_s)
        return await local_report(cluster)

    session.conclude(asyncio.run(look_on()))


async def local_report(cluster: ClusterFolder) -> Report:
    """Look at the processes, and ask those that run."""
    import asyncio  # noqa: PLC0415 - as above

    ids = {broker.node_id: running_id(broker) for broker in cluster.brokers}
    running = [one.address for one in cluster.brokers if ids[one.node_id] is not None]
    elected = asyncio.create_task(asyncio.to_thread(_elected_controller, cluster))
    told, note = None, None
    try:
        told = await _ask(",".join(running)) if running else None
    except client.ClientError as error:
        note = str(error)
    known = None if told is None else {row["id"]: row for row in told["brokers"]}
    rows = [_row(broker, ids[broker.node_id], known) for broker in cluster.brokers]
    controllers = [_process_row(one, running_id(one)) for one in cluster.controllers]
    status = {
        **(told or _unknown(cluster)),
        "brokers": rows,
        "controllers": controllers,
        **_of_zookeeper(cluster),
    }
    if (found := await elected) is not None:
        take_over(status, found)
    report = report_of(status, COLUMNS)
    if controllers:
        report = replace(report, views=[*report.views, View(CONTROLLER_COLUMNS, controllers)])
    if cluster.zookeeper_connect is not None:
        report = replace(report, views=[*report.views, View(ZOOKEEPER_COLUMNS, [status])])
    return replace(report, note=note or report.note)


def _of_zookeeper(cluster: ClusterFolder) -> Status:
    """Tell which ZooKeeper there is, and of the cluster's own one, what its process is."""
    own = cluster.zookeeper
    process_id = None if own is None else running_id(own)
    state = None if own is None else _state(process_id)
    return {
        "zookeeper": cluster.zookeeper_connect,
        "zookeeper_state": state,
        "zookeeper_pid": process_id,
        "controller_epoch": None,
    }


def _elected_controller(cluster: ClusterFolder) -> ElectedController | None:
    """Ask ZooKeeper for the controller; None if there is no ZooKeeper, or no answer."""
    own, connect = cluster.zookeeper, cluster.zookeeper_connect
    if connect is None or (own is not None and running_id(own) is None):
        return None
    return read_controller(connect)


def _state(process_id: int | None) -> str:
    return STOPPED if process_id is None else RUNNING


def _row(
    broker: LocalNode, process_id: int | None, known: Mapping[int, Mapping[str, Any]] | None
) -> dict[str, Any]:
    """Tell of a broker what its process is, and what the cluster knows if it was asked."""
    held = (known or {}).get(broker.node_id, {})
    return {
        **_process_row(broker, process_id),
        "in_cluster": None if known is None else broker.node_id in known,
        **{column.key: held.get(column.key) for column in HELD},
    }


def _process_row(node: LocalNode, process_id: int | None) -> dict[str, Any]:
    return {
        "id": node.node_id,
        "state": _state(process_id),
        "pid": process_id,
        "port": node.port,
        "metrics": metrics_of(node),
    }


async def _ask(servers: str) -> Status:
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "bootstrap.timeout.ms": 0,
        "client.id": "moldau-cli",
        "default.api.timeout.ms": PATIENCE_MS,
        "request.timeout.ms": PATIENCE_MS,
    }
    async with client.AsyncAdmin(**settings) as admin:
        return await ask_status(admin)


def _unknown(cluster: ClusterFolder) -> Status:
    """Return the status of a cluster of which no broker answers."""
    return {
        "cluster_id": cluster.shape.cluster_id,
        "controller": None,
        "broker_count": 0,
        "topic_count": None,
        "partition_count": None,
        "under_replicated_count": None,
        "brokers": [],
        "under_replicated": [],
        "quorum": None,
        "quorum_problem": None,
    }
