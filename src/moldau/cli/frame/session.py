"""One command talking to one cluster: made from the options that every command has.

    @topic.command("list")
    @asking
    async def list_(admin: client.AsyncAdmin) -> Report: ...

A command that checks its arguments before it connects takes a session instead. Commands that may be
watched say `@watching`, those that change something `@changing`.
"""

from __future__ import annotations

import functools
import inspect
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
Command = Callable[..., Any]


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


def asking(command: Command) -> Callable[..., None]:
    """Give a command an admin or a session, and the options that either comes from."""

    @functools.wraps(command)
    def call(**parameters: Any) -> None:
        connection = Connection.of(parameters)
        session = Session(connection, parameters.pop("output"), parameters.pop("watch", None))
        if "dry_run" in parameters:
            parameters["change"] = Change(parameters.pop("dry_run"), parameters.pop("yes"))
        if inspect.iscoroutinefunction(command):
            session.show(lambda admin: command(admin, **parameters))
        else:
            command(session, **parameters)

    return connection_options(output_option(call))


def watching(command: Command) -> Callable[..., None]:
    """Give a command what `asking` gives, and the option to look again and again."""
    return watch_option(asking(command))


def changing(command: Command) -> Callable[..., None]:
    """Give a command what `asking` gives, and how far it may go."""
    return change_options(asking(command))
