"""Names that programs give to what has a column of its own. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent
from moldau.spark.pipelines.logs.levels import NONE, level_of
from moldau.spark.pipelines.logs.moments import any_us

_TIMES: Final = ("time", "timestamp", "@timestamp", "ts", "t", "datetime", "date", "eventTime")
_LEVELS: Final = ("level", "severity", "lvl", "loglevel", "log.level", "levelname", "log_level")
_MESSAGES: Final = ("message", "msg", "log", "event", "text", "body")
_HOSTS: Final = ("host", "hostname", "host.name")
_SERVICES: Final = ("service", "service.name", "app", "application", "program")
_STACKS: Final = (
    "stack", "stack_trace", "stacktrace", "traceback", "exception", "exc_info", "error",
    "error.stack", "error.stack_trace", "err.stack", "exception.stacktrace",
)  # fmt: skip

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def named_line(form: str, text: str, fields: dict[str, str], sent: Sent) -> Line:
    """Take out of fields what has columns of its own. Without a message it is the whole text."""
    time_us = None
    for name in _TIMES:
        if name in fields and (time_us := any_us(fields[name], sent.zone)) is not None:
            del fields[name]
            break
    level = NONE
    for name in _LEVELS:
        if name in fields and (known := level_of(fields[name])) is not None:
            level = known
            if fields[name].upper() == known:
                del fields[name]
            break
    stack = None
    if "\\n" in text or "\n" in text:
        stack = next((fields.pop(name) for name in _STACKS if "\n" in fields.get(name, "")), None)
    message = _first(fields, _MESSAGES)
    return Line(
        form,
        text if message is None else message,
        time_us,
        level,
        _first(fields, _HOSTS),
        _first(fields, _SERVICES),
        fields,
        stack,
    )


def _first(fields: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((fields.pop(name) for name in names if fields.get(name)), None)


def sound(text: str) -> str:
    """Replace halves of characters, which JSON can escape and UTF-8 cannot hold."""
    return _SURROGATE.sub("\ufffd", text)
