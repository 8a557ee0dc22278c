"""Looking again and again: `--watch` shows a report anew every few seconds until Ctrl-C.

On a terminal it stays in place, below a clock; in a pipe one report follows the other. What passes
(a broker that restarts) is told on standard error and the watch goes on. Signals keep their usual
meaning, so SIGTERM ends a watch, and SIGHUP too unless `nohup` has it ignored.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import click

from moldau.cli.frame import client
from moldau.cli.frame.report import Report

Command = TypeVar("Command", bound=Callable[..., Any])
Present = Callable[[Report], object]
"""Prints a report."""

DEFAULT_PERIOD_S = 1.0
PERIOD_MAX_S = 86_400.0
"""A day: who looks less often does not watch."""


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


class _Capture(io.StringIO):
    """Takes what is printed as a terminal would: with its colours."""

    def isatty(self) -> bool:
        return True


def _captured(present: Present, report: Report) -> str:
    """Return what presenting a report prints on the terminal, notes and errors included."""
    from contextlib import ExitStack, redirect_stderr, redirect_stdout  # noqa: PLC0415 - as above

    captured = _Capture()
    with ExitStack() as stack:
        if sys.stderr.isatty():
            stack.enter_context(redirect_stderr(captured))
        stack.enter_context(redirect_stdout(captured))
        present(report)
    return captured.getvalue()


def _replace(present: Present, report: Report, period_s: float) -> None:
    """Show a report where the last one stood."""
    from moldau.cli.frame.drawing import redraw  # noqa: PLC0415 - rich is for terminals only

    redraw(f"{_header(period_s)}\n\n{_captured(present, report)}")


async def watch(
    look: Callable[[], Awaitable[Report]], present: Present, period_s: float
) -> NoReturn:
    """Present reports until cancelled."""
    import asyncio  # noqa: PLC0415 - who prints help runs no loop

    in_place = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    while True:
        try:
            report = await look()
        except client.ClientError as error:
            if not error.retriable:
                raise
            click.echo(f"moldau: {error}", err=True)
        else:
            if in_place:
                _replace(present, report, period_s)
            else:
                present(report)
                sys.stdout.flush()
        await asyncio.sleep(period_s)
