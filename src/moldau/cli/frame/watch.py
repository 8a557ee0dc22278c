"""Looking again and again: `--watch` shows a report anew every few seconds until Ctrl-C.

On a terminal it stays in place, below a clock; in a pipe one report follows the other. What passes
(a broker that restarts) is told on standard error and the watch goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import click

from moldau.cli.frame import client
from moldau.cli.frame.report import Report

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_PERIOD_S = 1.0
PERIOD_MAX_S = 86_400.0
"""A day: who looks less often does not watch."""
CLEAR = "\x1b[H\x1b[2J"
"""Cursor to the first line, then everything erased."""


def watch_option(command: Command) -> Command:
    """Give a command `--watch [SECONDS]`."""
    return click.option(
        "-w",
        "--watch",
        type=click.FloatRange(0, PERIOD_MAX_S, min_open=True),
        is_flag=False,
        flag_value=str(DEFAULT_PERIOD_S),
        metavar="[SECONDS]",
        help=f"Refresh every SECONDS [{DEFAULT_PERIOD_S:g}] until Ctrl-C.",
    )(command)


def _header(period_s: float) -> str:
    """Say what is shown, and as of when."""
    from datetime import datetime  # noqa: PLC0415 - who prints help watches nothing

    from moldau.base.clock import SystemClock  # noqa: PLC0415 - as above

    context = click.get_current_context(silent=True)
    command = "moldau" if context is None else context.command_path
    now = datetime.fromtimestamp(SystemClock().wall_ms() / 1000).astimezone()
    return f"{now:%H:%M:%S}  {command}, every {period_s:g} s; Ctrl-C ends it"


async def watch(
    look: Callable[[], Awaitable[Report]], present: Callable[[Report], object], period_s: float
) -> NoReturn:
    """Present reports until cancelled."""
    import asyncio  # noqa: PLC0415 - who prints help runs no loop

    in_place = sys.stdout.isatty()
    while True:
        try:
            report = await look()
        except client.ClientError as error:
            if not error.retriable:
                raise
            click.echo(f"moldau: {error}", err=True)
        else:
            if in_place:
                click.echo(f"{CLEAR}{_header(period_s)}\n")
            present(report)
            sys.stdout.flush()
        await asyncio.sleep(period_s)
