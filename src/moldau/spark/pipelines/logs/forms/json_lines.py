"""JSON objects as lines. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from moldau.spark.pipelines.logs.forms.line import Line, Numbers, Sent, put
from moldau.spark.pipelines.logs.forms.named import named_line, sound

_DEPTH_MAX: Final = 4
"""How deep objects are taken apart; what lies deeper stays JSON."""
_NAME_MAX: Final = 256
"""Characters of the name of an object that is taken apart: each of its members bears it."""
_NAMES_MAX: Final = 16_384
"""Characters of all names of a line, if they come to more than twice the line. Else a line of a
megabyte could have names of a hundred and more, and a few of them more than a task can hold."""


class _Number(str):
    """A number as it was written: nothing is rounded, none is too large, and NaN is one."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """The members of an object as they were written, also those of one name."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=_Number, object_pairs_hook=_Object
)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_WORDS: Final = {True: "true", False: "false", None: "null"}


def json_line(text: str, sent: Sent) -> Line | None:
    """Read a JSON object; one that is nested too deep to be read or written is none."""
    fields: dict[str, str] = {}
    try:
        told = _DECODER.decode(text)
        if not isinstance(told, _Object):
            return None
        _flatten(told, "", 1, fields, {})
        if sum(map(len, fields)) > max(2 * len(text), _NAMES_MAX):
            fields = {}
            _flatten(told, "", _DEPTH_MAX, fields, {})
    except (ValueError, RecursionError):
        return None
    if "\\u" in text:
        whole: dict[str, str] = {}
        numbers: Numbers = {}
        for name, value in fields.items():
            put(whole, sound(name), sound(value), numbers)
        fields = whole
    return named_line("json", text, fields, sent)


def _flatten(
    told: _Object, before: str, depth: int, fields: dict[str, str], numbers: Numbers
) -> None:
    for name, value in told:
        if isinstance(value, str):
            put(fields, before + name, value, numbers)
        elif isinstance(value, _Object) and value and depth < _DEPTH_MAX and len(name) < _NAME_MAX:
            _flatten(value, f"{before}{name}.", depth + 1, fields, numbers)
        else:
            text = _written(value) if isinstance(value, list) else _WORDS[value]
            put(fields, before + name, text, numbers)


def _written(value: Any) -> str:
    """Write a value as JSON, and its numbers as they were."""
    if isinstance(value, _Object):
        members = [f"{_ENCODER.encode(name)}: {_written(one)}" for name, one in value]
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, _Number):
        return value
    return _ENCODER.encode(value) if isinstance(value, str) else _WORDS[value]
