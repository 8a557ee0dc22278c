"""The commands of a cluster on one machine: up, stop, kill, start, down, migrate."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import (
    BASE_PORT_MAX,
    BROKERS_MAX,
    DEFAULT_CONTROLLERS,
    ClusterFolder,
    LocalNode,
    Member,
    ZooKeeperChoice,
    open_cluster,
)
from moldau.cli.clusters.properties import refuse_comma, refuse_fixed_keys
from moldau.cli.frame.arguments import assignments, check_texts
from moldau.cli.frame.failures import REFUSED
from moldau.cli.frame.texts import safe

Command = TypeVar("Command", bound=Callable[..., Any])

SIGNALLED = 128
"""Added to the number of a signal: the status a shell shows for it."""


def data_option(*, required: bool = True) -> Callable[[Command], Command]:
    """Give a command `--data`."""
    return click.option(
        "--data", type=click.Path(path_type=Path), metavar="DIR", required=required,
        help="Folder of the cluster on this machine.",
    )  # fmt: skip


ZOOKEEPER = "zookeeper"
"""The word that names the ZooKeeper where others are named by numbers."""


class MemberName(click.ParamType[int | str]):
    """The number of a broker or a controller, or `zookeeper`."""

    name = "member"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """Return the number, or the word."""
        if value == ZOOKEEPER:
            return value
        if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
            self.fail(f"{value!r} is neither a node id nor {ZOOKEEPER!r}", param, ctx)
        return int(value)


_RUNS_ALREADY: Final = (
    ": `moldau cluster status` shows the cluster, `moldau cluster start` starts one process,"
    " and `moldau cluster down` stops all"
)

member_argument = click.argument("name", metavar="NODE|zookeeper", type=MemberName())


@click.command()
@data_option()
@click.option(
    "--brokers", type=click.IntRange(1, BROKERS_MAX), help="Number of brokers [3, or as in DIR]."
)
@click.option(
    "--controllers", type=click.IntRange(1, BROKERS_MAX),
    help="Number of dedicated controllers; a majority must run"
    f" [none: the first {DEFAULT_CONTROLLERS} brokers are controllers, or as in DIR].",
)  # fmt: skip
@click.option(
    "--base-port", type=click.IntRange(1, BASE_PORT_MAX), metavar="PORT",
    help="Port of the first broker [9092, or as in DIR]; controllers begin at PORT + 10, ZooKeeper"
    " uses PORT + 20.",
)  # fmt: skip
@click.option(
    "--zookeeper", is_flag=True, help="Keep the metadata in ZooKeeper, and start ZooKeeper too."
)
@click.option(
    "--zookeeper-connect", metavar="HOST:PORT,...[/CHROOT]",
    help="Keep the metadata in this running ZooKeeper.",
)  # fmt: skip
@click.option(
    "--override", multiple=True, metavar="KEY=VALUE",
    help="Override one setting of all nodes; repeatable. moldau.metrics.listen names the port of"
    " broker 1: node N uses the (N-1)th port after it.",
)  # fmt: skip
@click.option("--detach", is_flag=True, help="Return once all brokers are up.")
def up(
    data: Path,
    brokers: int | None,
    controllers: int | None,
    base_port: int | None,
    zookeeper: bool,
    zookeeper_connect: str | None,
    override: tuple[str, ...],
    detach: bool,
) -> None:
    r"""Start a cluster on this machine and run it until SIGTERM or Ctrl-C.

    Prints `BOOTSTRAP=HOST:PORT,...` once all brokers accept requests. A second signal kills them.
    Data stays in DIR for the next start.

    \b
    moldau cluster up --data ./cluster
    moldau cluster up --data ./cluster --brokers 5 --base-port 19092 --detach
    moldau cluster up --data ./cluster --brokers 5 --controllers 3
    moldau cluster up --data ./cluster --zookeeper
    """
    from moldau.cli.clusters import preparing, processes  # noqa: PLC0415 - help needs no broker
    from moldau.cli.clusters.foreground import (  # noqa: PLC0415 - as above
        run_in_foreground,
        tell_addresses,
    )
    from moldau.cli.clusters.starting import bring_up  # noqa: PLC0415 - as above
    from moldau.cli.clusters.stop_signals import Interrupted, StopSignals  # noqa: PLC0415

    check_texts((str(data), zookeeper_connect or "", override))
    choice = _zookeeper_choice(zookeeper, zookeeper_connect)
    if choice is not None and controllers is not None:
        raise click.UsageError("--controllers: with ZooKeeper any broker can be elected controller")
    overrides = assignments(override, "--override")
    refuse_fixed_keys(overrides)
    refuse_comma(data)
    with StopSignals() as signals:
        try:
            with preparing.starting(data):
                cluster = preparing.claim(data, brokers, base_port, choice, controllers)
                processes.refuse_running(cluster.members, _RUNS_ALREADY)
                preparing.refuse_taken_ports(cluster, overrides)
                for warning in preparing.check_settings(cluster, overrides):
                    _say(warning)
                preparing.check_zookeeper(cluster)
                preparing.prepare(cluster, overrides)
                started = bring_up(cluster.members, signals, _say)
            if detach:
                tell_addresses(cluster)
                return
            is_in_order = run_in_foreground(cluster, started, signals, _say)
        except Interrupted:
            raise click.exceptions.Exit(SIGNALLED + signals.last) from None
    if not is_in_order:
        raise click.exceptions.Exit(REFUSED)


@click.command()
@member_argument
@data_option()
def stop(name: int | str, data: Path) -> None:
    """Stop a broker, controller or ZooKeeper of a cluster on this machine cleanly."""
    from moldau.cli.clusters import stopping  # noqa: PLC0415 - help needs no processes

    member = _member(open_cluster(data), name)
    _tell_end(stopping.stop([member]), member, "has stopped")


@click.command()
@member_argument
@data_option()
def kill(name: int | str, data: Path) -> None:
    """Kill a broker, controller or ZooKeeper of a cluster on this machine (SIGKILL)."""
    from moldau.cli.clusters import stopping  # noqa: PLC0415 - help needs no processes

    member = _member(open_cluster(data), name)
    _tell_end(stopping.kill([member]), member, "was killed")


@click.command()
@click.argument("names", metavar="NODE|zookeeper...", type=MemberName(), nargs=-1, required=True)
@data_option()
def start(names: tuple[int | str, ...], data: Path) -> None:
    """Start nodes or ZooKeeper of a cluster on this machine; return once they are up.

    Brokers need a majority of the controllers, so several may have to be started together.
    ZooKeeper is started too if brokers need it.
    """
    from moldau.cli.clusters import preparing, processes  # noqa: PLC0415 - help needs no broker
    from moldau.cli.clusters.starting import (  # noqa: PLC0415 - as above
        bring_up,
        refuse_too_few_controllers,
    )
    from moldau.cli.clusters.stop_signals import Interrupted, StopSignals  # noqa: PLC0415

    cluster = open_cluster(data)
    members = list(dict.fromkeys(_member(cluster, name) for name in names))
    with StopSignals() as signals, preparing.starting(data):
        processes.refuse_running(members)
        refuse_too_few_controllers(cluster, members)
        zookeeper = cluster.zookeeper
        if zookeeper is not None and processes.running_id(zookeeper) is None:
            members = list(dict.fromkeys([zookeeper, *members]))
        nodes = [member for member in members if isinstance(member, LocalNode)]
        preparing.refuse_lost_votes(cluster, nodes)
        for node in nodes:
            preparing.format_directory(cluster, node)
        try:
            bring_up(members, signals, click.echo)
        except Interrupted:
            raise click.exceptions.Exit(SIGNALLED + signals.last) from None


@click.command()
@data_option()
def down(data: Path) -> None:
    """Stop all brokers of a cluster on this machine cleanly; data is kept."""
    from moldau.cli.clusters import stopping  # noqa: PLC0415 - help needs no processes

    cluster = open_cluster(data)
    stopped = stopping.stop(cluster.members)
    for member in stopped:
        click.echo(f"{member.name} has stopped")
    if not stopped:
        _say(f"no broker of {cluster.path} is running")


@click.command()
@data_option(required=False)
@click.option(
    "--controllers", type=click.IntRange(1, BROKERS_MAX),
    help=f"How many brokers of DIR become controllers [{DEFAULT_CONTROLLERS}, or 1 of fewer].",
)  # fmt: skip
@click.option(
    "--zookeeper", metavar="HOST:PORT,...[/CHROOT]",
    help="ZooKeeper of a cluster that has no DIR.",
)  # fmt: skip
@click.option(
    "--config", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="New settings of a node, with process.roles and controller.quorum.voters; one file per"
    " node.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Check and compare; write nothing.")
def migrate(
    data: Path | None,
    controllers: int | None,
    zookeeper: str | None,
    config: tuple[Path, ...],
    dry_run: bool,
) -> None:
    r"""Move the metadata of a stopped cluster from ZooKeeper to a quorum of its brokers.

    The command compares what it has written before it switches. Until then the brokers can start
    on ZooKeeper again; afterwards they refuse to. An interrupted command can be run again.

    \b
    moldau cluster migrate --data ./cluster
    moldau cluster migrate --zookeeper zk1:2181/kafka --config n1.properties --config n2.properties
    """
    from moldau.cli.clusters.migrating import (  # noqa: PLC0415 - help needs no broker
        migrate_cluster,
        migrate_folder,
    )

    check_texts((str(data), zookeeper or "", tuple(map(str, config))))
    if data is not None:
        if zookeeper is not None or config:
            raise click.UsageError(
                "--data has its ZooKeeper and settings: use it without --zookeeper and --config"
            )
        migrate_folder(data, controllers, click.echo, is_dry_run=dry_run)
        return
    if zookeeper is None or not config:
        raise click.UsageError("use --data, or --zookeeper and one --config per node")
    if controllers is not None:
        raise click.UsageError("--controllers: the --config files name the voters")
    migrate_cluster(zookeeper, config, click.echo, is_dry_run=dry_run)


def _zookeeper_choice(has_own: bool, connect: str | None) -> ZooKeeperChoice | None:
    if has_own and connect is not None:
        raise click.UsageError(
            "--zookeeper starts a ZooKeeper, --zookeeper-connect uses a running one: choose one"
        )
    if connect is not None:
        from moldau.cli.zookeeper.connection import check_servers  # noqa: PLC0415 - as above

        check_servers(connect)
    return ZooKeeperChoice(connect) if has_own or connect is not None else None


def _member(cluster: ClusterFolder, name: int | str) -> Member:
    if isinstance(name, int):
        return cluster.node(name)
    if cluster.zookeeper is None:
        raise UserError(f"{cluster.path} has no ZooKeeper of its own")
    return cluster.zookeeper


def _tell_end(ended: list[Member], member: Member, how: str) -> None:
    if not ended:
        raise UserError(f"{member.name} is not running")
    click.echo(f"{member.name} {how}")


def _say(text: str) -> None:
    """Say something beside the output. Where nobody reads it any more, brokers still matter."""
    try:
        click.echo(safe(text), err=True)
    except OSError:
        # Else Python tries again at the end to write what is left, and makes the status 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
