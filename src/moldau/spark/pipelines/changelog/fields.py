"""JSON objects as rows: which columns there are, of which type, and what stands in them.

Nobody declares the columns; they are what the values seen so far need:

    boolean, bigint, double   as in JSON; a column that has seen whole numbers and others is double
    string                    texts, objects and arrays (as JSON), whole numbers beyond 64 bits, and
                              all values of a column that has seen several of these types

So a column only ever comes into being or widens, and every value there was fits it. Fields that
cannot be columns stand in the record's text alone, which is always kept: those whose names are
empty, too long or begin with an underscore as ours do, those that differ from a column in case
only, which Spark does not tell apart, and those that are too many.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
    try:
        found = _DECODER.decode(text)
    except ValueError:
        raise Unreadable(NOT_JSON) from None
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    if not isinstance(found, dict):
        raise Unreadable(NOT_OBJECT)
    return found


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
    """Return the columns after values of these types were seen; new ones come last, by name."""
    fields = dict(known)
    taken = {name.lower() for name in known}
    for name in sorted(seen):
        if name in fields:
            fields[name] = joined(fields[name], seen[name])
        elif len(fields) < COLUMN_COUNT_MAX and _can_be_column(name) and name.lower() not in taken:
            fields[name] = seen[name]
            taken.add(name.lower())
    return fields


def _can_be_column(name: str) -> bool:
    return (
        0 < len(name) <= NAME_SIZE_MAX
        and not name.startswith("_")
        and name.isprintable()  # surrogates and control characters are not
    )


def columns_of(texts: Sequence[str], fields: Fields) -> dict[str, list[Any]]:
    """Return what stands in each column, for rows given as their JSON."""
    rows = [parsed(text) for text in texts]
    return {name: list(_column(rows, name, kind)) for name, kind in fields.items()}


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
    text = value if isinstance(value, str) else _ENCODER.encode(value)
    # JSON may name half a character, which no other text can hold.
    return text if text.isprintable() else text.encode(errors="replace").decode()
