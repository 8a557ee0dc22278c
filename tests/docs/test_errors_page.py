"""The page of errors lists every error that users can meet, with what to do about it."""

from __future__ import annotations

from pathlib import Path

from moldau import errors

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def row(kind):
    """Return the line of the table that an error has."""
    what = (kind.__doc__ or "").partition("\n")[0]
    natures = [name for name in ("retriable", "fatal") if getattr(kind, name, False)]
    nature = natures[0] if natures else ""
    return f"| `{kind.__name__}` | {what} | {kind.advice} | {nature} |"


def every_error():
    named = {
        name: one
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, errors.MoldauError)
    }
    return [named[name] for name in sorted(named)]


def test_the_table_has_every_error_as_the_code_has_it():
    table = PAGE.read_text().split("| error | what happened |")[1]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == [row(kind) for kind in every_error()]
