"""Names that programs give to what has a column of its own. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.colours import uncoloured
from moldau.spark.pipelines.logs.forms.line import Line, Sent
from moldau.spark.pipelines.logs.levels import NONE, OF_LETTER, level_of, level_of_number
from moldau.spark.pipelines.logs.moments import any_us

_TIMES: Final = (
    "time", "timestamp", "@timestamp", "ts", "t", "datetime", "date", "eventTime", "t.$date", "@t",
    "Timestamp", "timeUnixNano", "observedTimeUnixNano",
)  # fmt: skip
_LEVELS: Final = (
    "level", "severity", "lvl", "loglevel", "log.level", "levelname", "log_level", "severityText",
    "severity_text", "SeverityText", "@l", "Level", "LogLevel",
)  # fmt: skip
_MESSAGES: Final = (
    "message", "msg", "log", "event", "text", "body", "body.stringValue", "Body",
    "Body.stringValue", "@m", "RenderedMessage", "Message", "@mt", "MessageTemplate",
)  # fmt: skip
_HOSTS: Final = ("host", "hostname", "host.name", "resource.attributes.host.name")
_SERVICES: Final = (
    "service", "service.name", "app", "application", "program", "resource.attributes.service.name",
)  # fmt: skip
_STACKS: Final = (
    "stack", "stack_trace", "stacktrace", "traceback", "exception", "exc_info", "error",
    "error.stack", "error.stack_trace", "err.stack", "exception.stacktrace", "@x", "Exception",
)  # fmt: skip
_NUMBERS: Final = ("severityNumber", "severity_number", "SeverityNumber")
"""OpenTelemetry's, which count where there is no text."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def named_line(form: str, text: str, fields: dict[str, str], sent: Sent) -> Line:
    """Take out of fields what has columns of its own. Without a message it is the whole text."""
    time_us = None
    for name in _TIMES:
        if name in fields and (time_us := any_us(fields[name], sent.zone)) is not None:
            del fields[name]
            break
    level = _level(fields)
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


def _level(fields: dict[str, str]) -> str:
    """Find the level; what says no more than it is taken out of the fields."""
    for name in _LEVELS:
        if name in fields and (known := level_of(uncoloured(fields[name]))) is not None:
            if fields[name].upper() == known:
                del fields[name]
            return known
    for name in _NUMBERS:
        number = fields.get(name, "")
        if number.isdecimal() and (known := level_of_number(int(number[:3]))) is not None:
            return known
    if "s" in fields and "c" in fields and "ctx" in fields:  # MongoDB
        return OF_LETTER.get(fields["s"][:1], NONE)
    return "INFO" if "@mt" in fields or "@m" in fields else NONE  # Serilog leaves it out


def _first(fields: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((fields.pop(name) for name in names if fields.get(name)), None)


def sound(text: str) -> str:
    """Replace halves of characters, which JSON can escape and UTF-8 cannot hold."""
    return _SURROGATE.sub("\ufffd", text)
