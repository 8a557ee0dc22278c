"""Asking before something that is there is changed or removed.

On a terminal the user is asked. In a pipe nobody can be: without `--yes` the command refuses, so
that a script says what it means. `--dry-run` shows what would be done and does nothing.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from moldau.base.errors import UserError

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
            raise UserError(f"this would {what}. Say --yes to do it, --dry-run to look first.")
        if not _asked(f"This will {what}. Go on?"):
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
    command = click.option("--dry-run", is_flag=True, help="Show what would be done; do nothing.")(
        command
    )
    return click.option("-y", "--yes", is_flag=True, help="Do it without asking.")(command)
