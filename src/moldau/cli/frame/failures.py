"""How the command line says that something went wrong: one line, and a status that scripts read.

0 done; 1 refused, by a broker or because what was asked for cannot be; 2 wrong usage; 3 no broker
could be reached; 130 interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.frame.texts import safe

REFUSED = 1
UNREACHABLE = 3
INTERRUPTED = 130


def complain(error: Exception) -> int:
    """Print what went wrong, and return the status to end with."""
    text = " ".join(safe(line) for line in str(error).splitlines())
    click.echo(f"moldau: {text}", err=True)
    return status_of(error)


def status_of(error: Exception) -> int:
    """Return the status that stands for an error."""
    what = error.error if isinstance(error, ItemFailed) else error
    gone = isinstance(
        what, (client.NoBrokerReachable, client.ConnectionLost, client.RequestTimedOut)
    )
    return UNREACHABLE if gone else REFUSED


def reason_of(error: Exception) -> str:
    """Say what went wrong with a file that was named already, without its name and a number."""
    return getattr(error, "strerror", None) or str(error)


def complain_of_all(errors: Sequence[Exception]) -> int:
    """Print several; the status is that of the first."""
    statuses = [complain(error) for error in errors]
    return statuses[0] if statuses else 0


def about(item: object, error: MoldauError) -> MoldauError:
    """Say which of several things an error is about, if it does not say so itself."""
    named = re.search(rf"(?<![\w.-]){re.escape(str(item))}(?![\w-]|\.\w)", str(error))
    return error if named else ItemFailed(str(item), error)


class ItemFailed(MoldauError):  # noqa: N818 - it names the event
    """One of several things could not be done."""

    def __init__(self, item: str, error: MoldauError) -> None:
        super().__init__(f"{item}: {error}")
        self.error = error
