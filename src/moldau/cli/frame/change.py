"""Changing a cluster: asking the user before, and reporting afterwards what became of each item.

On a terminal the user is asked. In a pipe nobody can be: without `--yes` the command refuses, so
that a script says what it means. `--dry-run` shows what would be done and does nothing.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import GOOD, Column, Report, listing

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Change:
    """How far the user lets a command go."""

    dry_run: bool
    yes: bool

    def confirm(self, what: str) -> None:
        """Go on if the user wants it; `what` completes "this will ..."."""
        if self.dry_run or self.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UserError(f"this would {what}. Use --yes to do it, or --dry-run to preview it.")
        if not _asked(f"This will {what}. Continue?"):
            raise UserError("nothing was changed")


def _asked(question: str) -> bool:
    """Ask; Ctrl-C ends the question at once, although an event loop that runs would wait for it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm(question, err=True)
    finally:
        signal.signal(signal.SIGINT, before)


def change_options(command: Command) -> Command:
    """Give a command `--dry-run` and `--yes`."""
    command = click.option(
        "--dry-run", is_flag=True, help="Show what would be done, without doing it."
    )(command)
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def outcome_report(
    columns: Iterable[Column],
    rows: Mapping[Any, Mapping[str, Any]],
    results: client.Results[Any, Any],
    word: str,
    *,
    note: str | None = None,
) -> Report:
    """Report the rows of the items that succeeded, and the errors of the others.

    `rows` are by item; `word` says what became of those that succeeded.
    """
    done = [{**rows[item], "outcome": word} for item in rows if item in results.ok]
    errors = [about(item, error) for item, error in results.errors.items()]
    shown = (*columns, Column("outcome", "OUTCOME", style=lambda _: GOOD))
    return listing(shown, done, errors=errors, note=note)


def nothing_done(items: Iterable[Any]) -> client.Results[Any, None]:
    """Return results for a dry run: everything could be done, as far as is known."""
    return client.Results(dict.fromkeys(items), {})
