"""The commands of a cluster on one machine: up, stop, kill, start, down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import (
    BASE_PORT_MAX,
    BROKERS_MAX,
    VOTER,
    LocalBroker,
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
        help="The folder of a cluster on this machine.",
    )  # fmt: skip


broker_argument = click.argument("number", metavar="BROKER", type=click.IntRange(min=1))


@click.command()
@data_option()
@click.option(
    "--brokers", type=click.IntRange(1, BROKERS_MAX), help="How many [3, or as many as DIR has]."
)
@click.option(
    "--base-port", type=click.IntRange(1, BASE_PORT_MAX), metavar="PORT",
    help="Port of the first broker [9092, or that of DIR]; the controller has the tenth after it.",
)  # fmt: skip
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Set one key; repeatable.")
@click.option("--detach", is_flag=True, help="Return once all brokers are up.")
def up(
    data: Path,
    brokers: int | None,
    base_port: int | None,
    override: tuple[str, ...],
    detach: bool,
) -> None:
    r"""Start a cluster on this machine and run it until SIGTERM or Ctrl-C.

    Prints one line, `BOOTSTRAP=HOST:PORT,...`, once all brokers accept requests. A second signal
    ends them at once. What they hold stays in DIR, and the next start goes on with it.

    \b
    moldau cluster up --data ./cluster
    moldau cluster up --data ./cluster --brokers 5 --base-port 19092 --detach
    """
    from moldau.cli.clusters import preparing, processes  # noqa: PLC0415 - help needs no broker
    from moldau.cli.clusters.foreground import run_in_foreground  # noqa: PLC0415 - as above
    from moldau.cli.clusters.starting import bring_up  # noqa: PLC0415 - as above
    from moldau.cli.clusters.stop_signals import Interrupted, StopSignals  # noqa: PLC0415

    check_texts((str(data), override))
    overrides = assignments(override, "--override")
    refuse_fixed_keys(overrides)
    refuse_comma(data)
    with StopSignals() as signals:
        try:
            with preparing.starting(data):
                cluster = preparing.claim(data, brokers, base_port)
                processes.refuse_running(cluster.brokers)
                preparing.refuse_taken_ports(cluster)
                for warning in preparing.check_settings(cluster, overrides):
                    _say(warning)
                preparing.prepare(cluster, overrides)
                started = bring_up(cluster.brokers, signals, _say)
            if detach:
                click.echo(f"BOOTSTRAP={cluster.bootstrap}")
                return
            is_in_order = run_in_foreground(cluster, started, signals, _say)
        except Interrupted:
            raise click.exceptions.Exit(SIGNALLED + signals.last) from None
    if not is_in_order:
        raise click.exceptions.Exit(REFUSED)


@click.command()
@broker_argument
@data_option()
def stop(number: int, data: Path) -> None:
    """Stop one broker of a cluster on this machine in order."""
    from moldau.cli.clusters import stopping  # noqa: PLC0415 - help needs no processes

    broker = open_cluster(data).broker(number)
    _tell_end(stopping.stop([broker]), broker, "has stopped")


@click.command()
@broker_argument
@data_option()
def kill(number: int, data: Path) -> None:
    """End one broker of a cluster on this machine at once (SIGKILL), as a crash does."""
    from moldau.cli.clusters import stopping  # noqa: PLC0415 - help needs no processes

    broker = open_cluster(data).broker(number)
    _tell_end(stopping.kill([broker]), broker, "was killed")


@click.command()
@broker_argument
@data_option()
def start(number: int, data: Path) -> None:
    """Start one broker of a cluster on this machine that is down; return once it is up."""
    from moldau.cli.clusters import preparing, processes  # noqa: PLC0415 - help needs no broker
    from moldau.cli.clusters.starting import bring_up  # noqa: PLC0415 - as above
    from moldau.cli.clusters.stop_signals import Interrupted, StopSignals  # noqa: PLC0415

    cluster = open_cluster(data)
    broker = cluster.broker(number)
    with StopSignals() as signals, preparing.starting(data):
        processes.refuse_running([broker])
        if not broker.is_voter and processes.running_id(cluster.broker(VOTER)) is None:
            raise UserError(f"broker {VOTER}, the controller, does not run: start it first")
        preparing.format_directory(cluster, broker)
        try:
            bring_up([broker], signals, click.echo)
        except Interrupted:
            raise click.exceptions.Exit(SIGNALLED + signals.last) from None


@click.command()
@data_option()
def down(data: Path) -> None:
    """Stop every broker of a cluster on this machine in order; their data stays."""
    from moldau.cli.clusters import stopping  # noqa: PLC0415 - help needs no processes

    cluster = open_cluster(data)
    stopped = stopping.stop(cluster.brokers)
    for broker in stopped:
        click.echo(f"broker {broker.broker_id} has stopped")
    if not stopped:
        _say(f"no broker of {cluster.path} runs")


def _tell_end(ended: list[LocalBroker], broker: LocalBroker, how: str) -> None:
    if not ended:
        raise UserError(f"broker {broker.broker_id} does not run")
    click.echo(f"broker {broker.broker_id} {how}")


def _say(text: str) -> None:
    """Say something beside the output. Where nobody reads it any more, brokers still matter."""
    with suppress(OSError):
        click.echo(safe(text), err=True)
