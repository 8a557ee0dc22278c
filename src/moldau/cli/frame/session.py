"""One command talking to one cluster: made from the options that every command has.

    @topic.command("list")
    @asking
    def list_(session: Session) -> None:
        async def look(admin: client.AsyncAdmin) -> Report: ...
        session.show(look)

Commands that may be watched say `@watching`, those that change something `@changing`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import click

from moldau.cli.frame import client
from moldau.cli.frame.change import Change, change_options
from moldau.cli.frame.connection import Connection, connection_options
from moldau.cli.frame.failures import complain_of_all
from moldau.cli.frame.output import output_option, show
from moldau.cli.frame.report import Report
from moldau.cli.frame.watch import watch, watch_option
from moldau.cli.operations.connecting import run_with_admin

T = TypeVar("T")

Look: TypeAlias = "Callable[[client.AsyncAdmin], Awaitable[Report]]"
Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Session:
    """Where to ask and how to print."""

    connection: Connection
    form: str = "table"
    watch_s: float | None = None

    def run(self, work: Callable[[client.AsyncAdmin], Awaitable[T]]) -> T:
        """Have work done by an admin."""
        return run_with_admin(self.connection.for_client(client.AsyncAdmin), work)

    def show(self, look: Look) -> None:
        """Print what was found, again and again if so asked; end the command by its errors."""
        period_s = self.watch_s

        async def look_on(admin: client.AsyncAdmin) -> Report:
            if period_s is not None:
                await watch(lambda: look(admin), self.present, period_s)
            return await look(admin)

        self.conclude(self.run(look_on))

    def conclude(self, report: Report) -> None:
        """Print a report and end the command with the status of it."""
        if status := self.present(report):
            raise click.exceptions.Exit(status)

    def present(self, report: Report) -> int:
        """Print a report and what failed, and return the status that stands for it."""
        if report.main.rows or not report.errors:
            show(report, self.form)
        if report.note:
            click.echo(f"moldau: {report.note}", err=True)
        return complain_of_all(report.errors) or report.status


def asking(command: Command) -> Command:
    """Give a command that asks a cluster its session and the options it comes from."""

    @functools.wraps(command)
    def call(**parameters: Any) -> None:
        connection = Connection.of(parameters)
        session = Session(connection, parameters.pop("output"), parameters.pop("watch", None))
        command(session, **parameters)

    return connection_options(output_option(call))


def watching(command: Command) -> Command:
    """Give a command that asks a cluster a session that may look again and again."""
    return watch_option(asking(command))


def changing(command: Command) -> Command:
    """Give a command that changes a cluster its session and how far it may go."""

    @functools.wraps(command)
    def call(session: Session, *, dry_run: bool, yes: bool, **parameters: Any) -> None:
        command(session, Change(dry_run, yes), **parameters)

    return change_options(asking(call))
