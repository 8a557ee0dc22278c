"""What has ended a query, in one line, and whether it would end the next one too.

Spark hands on of an error nothing but text: its own words, around a traceback of Python's, around
one of Java's. So what was wrong is looked for there, and errors of ours are known by their names.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.base.errors import UserError
from moldau.spark.pipelines.session.machine import first_line

FINAL: Final = frozenset({"UserError", "ConfigError", "DataLost", "InvariantViolated"})
_OWN_ERROR: Final = re.compile(r"\bmoldau\.[\w.]+\.(\w+): (.+)")
_RAISED: Final = re.compile(
    r"^(?:: |Caused by: | +\d+\. )?((?:[a-z_][\w.]*\.)?[A-Z]\w*: .+)", re.MULTILINE
)
"""The last line of a traceback of Python's, which Spark puts into its own text whole; where Java
was called there follows the first line of Java's, after a colon, and what that was caused by. Where
several tasks have failed for themselves, these are numbered."""
_QUERY: Final = "=== Streaming Query ==="
"""Where Spark begins to tell of the query, in lines that look like those of errors."""
_ADVICE: Final = ". Set failOnDataLoss"
"""What the source advises, and nobody can do here: tables are not to have gaps."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_CALLED: Final = "An error occurred while calling "
"""How an error begins that Java has raised for us; of what it says only the next line."""


class PipelineFailed(UserError):  # noqa: N818 - it names the event
    """A query has ended with an error; the text says in one line why."""

    def __init__(self, query: str, text: str) -> None:
        own = _OWN_ERROR.search(text)
        reason = own[2].strip() if own else _said(text)
        if own is not None and own[1] == "DataLost":
            reason = f"{reason.partition(_ADVICE)[0]}: begin with a new --out"
        subject = f"the query {query} has failed" if query else "the queries do not start"
        super().__init__(f"{subject}: {reason}")
        self.query = query
        """Its name; empty where none has started."""
        self.is_final = own is not None and own[1] in FINAL
        """Whether it would fail again: what the user has to change does not pass."""


def _said(text: str) -> str:
    """Return the line of an error that is not ours which says what was wrong."""
    _, is_query, rest = text.partition("terminated with exception: ")
    rest = (rest if is_query else text).partition(_QUERY)[0]
    raised = _RAISED.findall(rest) if _TRACEBACK in rest or rest.startswith(_CALLED) else []
    told = raised[-1] if raised else first_line(rest)
    return told.partition(" SQLSTATE: ")[0].rstrip()
