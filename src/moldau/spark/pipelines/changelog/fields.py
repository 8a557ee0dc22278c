"""JSON objects as rows: which columns there are, of which type, and what stands in them.

Nobody declares the columns; they are what the values seen so far need:

    boolean, bigint, double   as in JSON; a column that has seen whole numbers and others is double
    string                    texts, objects and arrays (as JSON), whole numbers beyond 64 bits, and
                              all values of a column that has seen several of these types

So a column only ever comes into being or widens, and every value there was fits it. Names that
Spark takes for one name, as it does not look at case, are one column: `ID` of one producer and `id`
of another. Fields that cannot be columns stand in the record's text alone, which is always kept:
those whose names are empty, too long or begin with an underscore as ours do, and those that are too
many.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NoReturn

BOOLEAN: Final = "boolean"
BIGINT: Final = "bigint"
DOUBLE: Final = "double"
STRING: Final = "string"

Fields = Mapping[str, str]
"""Types by name, in the order of the columns."""

NAME_SIZE_MAX: Final = 255
COLUMN_COUNT_MAX: Final = 1000
"""Tables with more are no tables any more; a key used as a name makes millions."""
DEPTH_MAX: Final = 200
"""Objects and arrays within one another. How many more Python can read depends on who calls, and
what was taken once must be read again elsewhere."""

_KINDS: Final = {bool: BOOLEAN, int: BIGINT, float: DOUBLE}
_BIGINT_MAX: Final = 2**63

NOT_JSON: Final = "not JSON"
NOT_OBJECT: Final = "not a JSON object"
TOO_DEEP: Final = "JSON nested too deeply"


def _refuse(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python takes and JSON does not know."""
    raise ValueError(constant)


# Made once: `json.loads` and `json.dumps` make new ones whenever they are told anything.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


class Unreadable(ValueError):  # noqa: N818 - it names the event
    """A value is no row; the text says why."""


def parsed(text: str) -> dict[str, Any]:
    """Read a JSON object; Unreadable if it is none."""
    found = _decoded(text)
    if text.count("{") + text.count("[") > DEPTH_MAX and _is_too_deep(found):
        raise Unreadable(TOO_DEEP)
    return found


def _decoded(text: str) -> dict[str, Any]:
    try:
        found = _DECODER.decode(text)
    except ValueError:
        raise Unreadable(NOT_JSON) from None
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    if not isinstance(found, dict):
        raise Unreadable(NOT_OBJECT)
    return found


def _is_too_deep(row: dict[str, Any]) -> bool:
    level: list[Any] = [row]
    for _ in range(DEPTH_MAX):
        values = chain.from_iterable(one.values() if type(one) is dict else one for one in level)
        level = [value for value in values if type(value) in (dict, list)]
    return bool(level)


def noted(row: Mapping[str, Any], seen: dict[str, str]) -> None:
    """Add the types of a row to those seen; null has none."""
    for name, value in row.items():
        if value is not None:
            kind = _kind(value)
            known = seen.get(name)
            if known != kind:
                seen[name] = kind if known is None else joined(known, kind)


def _kind(value: Any) -> str:
    kind = _KINDS.get(type(value), STRING)
    is_too_large = kind == BIGINT and not -_BIGINT_MAX <= value < _BIGINT_MAX
    return STRING if is_too_large else kind


def joined(one: str, other: str) -> str:
    """Return the narrowest type that holds the values of both."""
    if one == other:
        return one
    return DOUBLE if {one, other} == {BIGINT, DOUBLE} else STRING


def widened(known: Fields, seen: Fields) -> Fields:
    """Return the columns after values of these types were seen; new ones come last, by name.

    Of several spellings of a new name the column has the one in lower case, or else the first.
    """
    fields = dict(known)
    columns = ColumnNames(fields)
    for name in sorted(seen, key=lambda name: (not _is_folded(name), name)):
        column = columns.column_of(name)
        if column is not None:
            fields[column] = joined(fields[column], seen[name])
        elif _can_be_column(name):
            columns.add(name)
            fields[name] = seen[name]
    new = sorted(name for name in fields if name not in known)
    kept = [*known, *new][:COLUMN_COUNT_MAX]
    return {name: fields[name] for name in kept}


def told_apart(columns: Iterable[tuple[str, str]]) -> Fields:
    """Return columns, as many as there may be, without those that Spark takes for earlier ones."""
    fields: dict[str, str] = {}
    names = ColumnNames(())
    for name, kind in columns:
        if len(fields) == COLUMN_COUNT_MAX:
            break
        if names.column_of(name) is None:
            fields[name] = kind
            names.add(name)
    return fields


class ColumnNames:
    """Finds the column that a field belongs to, by its name as Spark compares names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_form: dict[str, str] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Add a column."""
        for form in _compared(name):
            self._by_form.setdefault(form, name)

    def column_of(self, name: str) -> str | None:
        """Return the column of a field; None if there is none."""
        found = (self._by_form.get(form) for form in _compared(name))
        return next((one for one in found if one is not None), None)


def _compared(name: str) -> tuple[str, str]:
    """Return a name in the forms in which Spark compares it; one in common is enough.

    It does so with Java's `equalsIgnoreCase`, which goes through upper case letter by letter and so
    takes an i without its dot for one with it, and in places with the lower case of the whole.
    """
    return name.lower(), "".join(map(_folded, name))


def _is_folded(name: str) -> bool:
    return set(_compared(name)) == {name}


def _folded(letter: str) -> str:
    """Fold a letter to another one, as Java does; Python's `ß` has two in upper case."""
    upper = letter.upper()
    # Only `İ` has more than one in lower case, of which Java takes the first.
    return (upper if len(upper) == 1 else letter).lower()[0]


def _can_be_column(name: str) -> bool:
    return (
        0 < len(name) <= NAME_SIZE_MAX
        and not name.startswith("_")
        and name.isprintable()  # surrogates and control characters are not
    )


def columns_of(texts: Sequence[str], fields: Fields) -> dict[str, list[Any]]:
    """Return what stands in each column, for rows given as their JSON."""
    rows = _by_column([_read_again(text) for text in texts], fields)
    return {name: list(_column(rows, name, kind)) for name, kind in fields.items()}


def _by_column(rows: list[Mapping[str, Any]], fields: Fields) -> list[Mapping[str, Any]]:
    """Return rows whose values stand under the names of their columns.

    A row that has both the column's own name and another spelling keeps the value of the first.
    """
    columns = ColumnNames(fields)
    others = dict.fromkeys(chain.from_iterable(rows))  # names, most of which occur in every row
    spelt = {
        name: column
        for name in others
        if name not in fields and (column := columns.column_of(name)) is not None
    }
    return [_respelt(row, spelt, fields) for row in rows] if spelt else rows


def _respelt(row: Mapping[str, Any], spelt: Mapping[str, str], fields: Fields) -> Mapping[str, Any]:
    """Return a row with the names of columns for their other spellings.

    Tables of form 1 did not note the types of these, so a value may not fit. It is left out then.
    """
    found = {
        column: value
        for name, value in row.items()
        if (column := spelt.get(name)) is not None and _fits(value, fields[column])
    }
    return {**found, **row} if found else row


def _fits(value: Any, kind: str) -> bool:
    return value is None or joined(kind, _kind(value)) == kind


def _read_again(text: str) -> Mapping[str, Any]:
    """Read a row that was taken before; if that fails here it has no values, and others have."""
    try:
        return _decoded(text)
    except Unreadable:
        return {}


def _column(rows: Iterable[Mapping[str, Any]], name: str, kind: str) -> Iterable[Any]:
    if kind == DOUBLE:
        return (None if (value := row.get(name)) is None else float(value) for row in rows)
    if kind == STRING:
        return (_text(row.get(name)) for row in rows)
    return (row.get(name) for row in rows)


def _text(value: Any) -> str | None:
    """Return a value as text: JSON, unless it is a text itself."""
    if value is None:
        return None
    try:
        text = value if isinstance(value, str) else _ENCODER.encode(value)
    except RecursionError:  # of rows that were taken before there was a limit
        return None
    # JSON may name half a character, which no other text can hold.
    return text if text.isprintable() else text.encode(errors="replace").decode()
