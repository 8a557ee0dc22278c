"""What became of each thing that a command was told to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.cli.frame import client
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import GOOD, Column, Report, listing


def outcome_report(
    columns: Iterable[Column],
    rows: Mapping[Any, Mapping[str, Any]],
    results: client.Results[Any, Any],
    word: str,
    *,
    note: str | None = None,
) -> Report:
    """Report the rows of what was done; what was not is told as errors.

    `rows` are by the items of the results; `word` says what became of those that succeeded.
    """
    done = [{**rows[item], "outcome": word} for item in rows if item in results.ok]
    errors = [about(item, error) for item, error in results.errors.items()]
    shown = (*columns, Column("outcome", "OUTCOME", style=lambda _: GOOD))
    return listing(shown, done, errors=errors, note=note)


def nothing_done(items: Iterable[Any]) -> client.Results[Any, None]:
    """Return results for a dry run: everything could be done, as far as is known."""
    return client.Results(dict.fromkeys(items), {})
