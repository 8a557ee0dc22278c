"""The formats of lines that are understood, each by a function of its own. Pure.

Which of them a line is of is decided by the line alone, never by what came before it: a batch that
is run again by another process must come out the same. The first character leaves few to try.

A form takes the whole record, a stack trace included, and gives None for what is not its own. Of
what it takes nothing is lost: what has no column of its own becomes a field.

Lines may be a megabyte of anything, so no expression here may try the same characters twice over:
what repeats is followed by what cannot be part of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any, Final, NamedTuple

from moldau.spark.pipelines.logs.levels import (
    NONE,
    level_of,
    level_of_priority,
    level_of_status,
)
from moldau.spark.pipelines.logs.moments import (
    MONTH,
    TIME_SIZE_MAX,
    american_us,
    clock_us,
    common_us,
    iso_us,
    number_us,
    syslog_us,
)


class Line(NamedTuple):
    """What a line says; None where it does not say it."""

    format: str
    message: str
    time_us: int | None = None
    level: str = NONE
    host: str | None = None
    service: str | None = None
    fields: Mapping[str, str] = {}
    stack: str | None = None


class Sent(NamedTuple):
    """What is known of a line besides its text."""

    time_us: int
    """When its record was sent, or written, as its timestamp says."""
    zone: tzinfo
    """In which zone times are that name none."""


Numbers = dict[str, int]
"""By the names that a line has more than once, the next number that may be free. It is kept while a
line is read, as one may repeat a name as often as it has room for it."""


def put(fields: dict[str, str], name: str, value: str, numbers: Numbers) -> None:
    """Add a field; a name that is taken gets a number behind it."""
    if name in fields:
        number = numbers.get(name, 2)
        while (free := f"{name}.{number}") in fields:
            number += 1
        numbers[name] = number + 1
        name = free
    fields[name] = value


# JSON

_TIMES: Final = ("time", "timestamp", "@timestamp", "ts", "t", "datetime", "date", "eventTime")
_LEVELS: Final = ("level", "severity", "lvl", "loglevel", "log.level", "levelname", "log_level")
_MESSAGES: Final = ("message", "msg", "log", "event", "text", "body")
_HOSTS: Final = ("host", "hostname", "host.name")
_SERVICES: Final = ("service", "service.name", "app", "application", "program")
_STACKS: Final = (
    "stack", "stack_trace", "stacktrace", "traceback", "exception", "exc_info", "error",
    "error.stack", "error.stack_trace", "err.stack", "exception.stacktrace",
)  # fmt: skip

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
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
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
        sound: dict[str, str] = {}
        numbers: Numbers = {}
        for name, value in fields.items():
            put(sound, _sound(name), _sound(value), numbers)
        fields = sound
    return _named("json", text, fields, sent)


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


def _sound(text: str) -> str:
    """Replace halves of characters, which JSON can escape and UTF-8 cannot hold."""
    return _SURROGATE.sub("\ufffd", text)


def _named(form: str, text: str, fields: dict[str, str], sent: Sent) -> Line:
    """Take out of fields what has columns of its own. Without a message it is the whole text."""
    time_us = None
    for name in _TIMES:
        if name in fields and (time_us := any_us(fields[name], sent)) is not None:
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


def any_us(text: str, sent: Sent) -> int | None:
    """Read a time that may be written in any way."""
    if len(text) > TIME_SIZE_MAX:
        return None
    found = number_us(text) if text[:1].isdigit() and "-" not in text else None
    return iso_us(text, sent.zone) if found is None else found


# logfmt

_PAIR: Final = re.compile(
    r'([A-Za-z_@][\w.@/:-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s+|$)', re.ASCII | re.DOTALL
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U(00[\da-fA-F]{6})|(.))", re.ASCII | re.DOTALL
)
_ESCAPED: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    '"': '"', "\\": "\\", "'": "'", "/": "/",
}  # fmt: skip
"""As Go and JSON write them; before anything else a backslash is one."""


def logfmt_line(text: str, sent: Sent) -> Line | None:
    """Read `level=info msg="what happened" user=7`: pairs, at least two, and nothing else."""
    fields: dict[str, str] = {}
    numbers: Numbers = {}
    place, count = 0, 0
    while (found := _PAIR.match(text, place)) is not None:
        name, value = found.groups()
        put(fields, name, _unquoted(value), numbers)
        place, count = found.end(), count + 1
    if count < 2 or place < len(text):
        return None
    return _named("logfmt", text, fields, sent)


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    if "\\" not in value:
        return value[1:-1]
    return _sound(_ESCAPE.sub(_meant, value[1:-1]))


def _meant(found: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    byte, short, long, other = found.groups()
    if other is not None:
        return _ESCAPED.get(other, found[0])
    number = int(byte or short or long, 16)
    # A byte above ASCII is one of no character: such are written so because they are no UTF-8.
    return found[0] if number > sys.maxunicode or (byte and number > 127) else chr(number)


# Access logs

_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
_ACCESS: Final = re.compile(
    r"(?!\d{4}-)([\w.:%-]+) (\S+) "
    # Atomic, so that the first time is the one, and what is behind it is not read for every other.
    rf"(?>(\S.*?) \[(\d\d/{MONTH}/\d{{4}}:[\d:]{{8}} [+-]\d{{4}})\])"
    rf" {_QUOTED} (\d{{3}}) (\d+|-)(?: {_QUOTED} {_QUOTED})?(?: (.*))?",
    re.ASCII,
)
_REQUEST: Final = re.compile(r"(\S+) (\S+)(?: (\S+))?")
_SECONDS: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def access_line(text: str, sent: Sent) -> Line | None:
    """Read Apache's and nginx's common and combined format, with anything behind it."""
    del sent
    found = _ACCESS.fullmatch(text)
    if found is None or (time_us := common_us(found[4])) is None:
        return None
    client, ident, user, _, request, status, size, referer, agent, rest = found.groups()
    parts = _REQUEST.fullmatch(request)
    told = {
        "client": client,
        "ident": ident,
        "user": user,
        **dict(
            zip(("method", "target", "protocol"), parts.groups() if parts else (), strict=False)
        ),
        "status": status,
        "size": size,
        "referer": referer,
        "agent": agent,
        ("request_time" if rest and _SECONDS.fullmatch(rest) else "rest"): rest,
    }
    fields = {name: value for name, value in told.items() if value and value != "-"}
    level = level_of_status(int(status))
    return Line("access", f"{request} {status}", time_us, level, fields=fields)


# Lines that begin with a date, or with the time of day

_LEVEL: Final = (
    "TRACE|FINEST|FINER|DEBUG|FINE|CONFIG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|CRITICAL|FATAL"
    "|ALERT|EMERG|PANIC|CRIT|ERR"
)
_ANY_LEVEL: Final = rf"(?P<level>(?i:{_LEVEL}))\b"
_DATED: Final = re.compile(
    r"\[?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?)\]?(?:\s*[-|:]\s+|[ \t]+|$)",
    re.ASCII,
)
_CLOCKED: Final = re.compile(r"\[?(\d\d:\d\d:\d\d[.,]\d{3,9})\]?\s+", re.ASCII)
_NAME: Final = r"[\w.$/-]+"


class _Shape(NamedTuple):
    """How a line may go on after its time."""

    format: str
    pattern: re.Pattern[str]


def _shape(form: str, *parts: str) -> _Shape:
    return _Shape(form, re.compile("".join(parts), re.DOTALL))


_SHAPES: Final = (
    # Spring Boot: INFO 4711 --- [shop] [main] c.e.Shop : message
    _shape("java", rf"{_ANY_LEVEL}\s+(?P<pid>\d+)\s+---\s+(?P<thread>(?:\[[^\]\n]*\]\s*)*)",
           rf"(?P<logger>{_NAME})\s*: (?P<message>.*)"),
    # Logback and Log4j: [main] INFO  com.example.Shop - message
    _shape("java", rf"\[(?P<thread>[^\]\n]*)\]\s+{_ANY_LEVEL}\s+(?P<logger>{_NAME})",
           r"(?:\s+-|:) (?P<message>.*)"),
    # WildFly: INFO  [com.example.Shop] (main) message
    _shape("java", rf"{_ANY_LEVEL}\s+\[(?P<logger>{_NAME})\]\s+\((?P<thread>[^)\n]*)\)\s+",
           r"(?P<message>.*)"),
    # Log4j: INFO  com.example.Shop:17 - message
    _shape("java", rf"{_ANY_LEVEL}\s+(?P<logger>[\w$]+(?:\.[\w$]+)+)(?::(?P<line>\d+))?\s+- ",
           r"(?P<message>.*)"),
    # nginx: [error] 12#34: *5 message
    _shape("nginx", rf"\[{_ANY_LEVEL}\] (?P<pid>\d+)#(?P<thread>\d+): (?P<message>.*)"),
    # Python, as its documentation shows it: shop - INFO - message
    _shape("python", rf"(?P<logger>{_NAME}) - {_ANY_LEVEL} - (?P<message>.*)"),
    # Flask: INFO in shop: message
    _shape("python", rf"{_ANY_LEVEL} in (?P<logger>{_NAME}): (?P<message>.*)"),
    # Python, as most write it: INFO shop: message, [INFO] shop:17: message
    _shape("python", rf"\[?{_ANY_LEVEL}(?:\s*\])?:?\s+\[?(?P<logger>{_NAME})\]?(?::(?P<line>\d+))?",
           r"(?::| -) (?P<message>.*)"),
    # Kafka: INFO message (kafka.server.KafkaServer)
    _shape("java", rf"{_ANY_LEVEL}\s++(?P<message>[^\n]*) \((?P<logger>[\w$]+(?:\.[\w$]+)+)\)",
           r"(?P<more>(?:\n.*)?)"),
    # A level, and that is all
    _shape("dated", rf"\[?{_ANY_LEVEL}(?:\s*\])?(?:\s*[:|-])?\s+(?P<message>.*)"),
)  # fmt: skip
_KEPT: Final = ("logger", "thread", "pid", "line")

_TRACE: Final = re.compile(
    r"^(?:Traceback \(most|[ \t]+at \S|Caused by: "
    r"|(?:[\w$]+\.)*\w*(?:Exception|Error|Throwable)\b)",
    re.MULTILINE,
)
"""What makes the lines after the first a stack trace: Python's, Java's, JavaScript's."""


def dated_line(text: str, sent: Sent) -> Line | None:
    """Read a line that begins with a date and a time, and then goes on in one of many ways."""
    found = _DATED.match(text)
    if found is None or (time_us := iso_us(found[1].strip(), sent.zone)) is None:
        return None
    return _body(text[found.end() :], time_us)


def clocked_line(text: str, sent: Sent) -> Line | None:
    """Read a line that begins with the time of day, as Logback writes by default."""
    found = _CLOCKED.match(text)
    if found is None or (time_us := clock_us(found[1], sent.zone, sent.time_us)) is None:
        return None
    return _body(text[found.end() :], time_us)


def _body(text: str, time_us: int) -> Line:
    for shape in _SHAPES:
        found = shape.pattern.fullmatch(text)
        if found is not None:
            told = found.groupdict()
            fields = {name: value.strip() for name in _KEPT if (value := told.get(name))}
            message, stack = _split(told["message"] + (told.get("more") or ""))
            return Line(shape.format, message, time_us, level_of(told["level"]) or NONE,
                        fields=fields, stack=stack)  # fmt: skip
    message, stack = _split(text)
    return Line("dated", message, time_us, stack=stack)


def _split(text: str) -> tuple[str, str | None]:
    """Part a message from the stack trace below it."""
    message, newline, rest = text.partition("\n")
    return (message, rest) if newline and _TRACE.search(rest) else (text, None)


# Lines that begin with a level, or with the name of a month

_BASIC: Final = re.compile(rf"(?P<level>{_LEVEL}):([^:\s]*):(.*)", re.DOTALL)
_LEVELLED: Final = re.compile(rf"\[?(?P<level>{_LEVEL})\b(?:\s*\])?(?:\s*[:|-])?\s+(.*)", re.DOTALL)


def levelled_line(text: str, sent: Sent) -> Line | None:
    """Read Python's `INFO:shop:message`, or a line that begins with a level in capitals."""
    del sent
    if (found := _BASIC.fullmatch(text)) is not None:
        level, logger, message = found.groups()
        message, stack = _split(message)
        fields = {"logger": logger} if logger else {}
        return Line("python", message, None, level_of(level) or NONE, fields=fields, stack=stack)
    if (found := _LEVELLED.fullmatch(text)) is not None:
        message, stack = _split(found[2])
        return Line("levelled", message, None, level_of(found["level"]) or NONE, stack=stack)
    return None


_JAVA_UTIL: Final = re.compile(
    rf"({MONTH} \d{{1,2}}, \d{{4}},? [\d:]{{7,8}} [AP]M) (\S+)(?: (\S+))?\n"
    rf"(?P<level>{_LEVEL}): (.*)",
    re.DOTALL,
)
_SYSLOG: Final = re.compile(
    rf"(?:<(\d{{1,3}})>)?({MONTH} [ \d]\d \d\d:\d\d:\d\d) ([\w.:-]+)"
    r" ([^\s:\[]+)(?:\[([^\]]*)\])?: ?(.*)",
    re.DOTALL,
)
_SYSLOG_NEW: Final = re.compile(
    rf"<(\d{{1,3}})>1 (\S{{1,{TIME_SIZE_MAX}}}) (\S+) (\S+) (\S+) (\S+)"
    r' (-|(?:\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\])+)(?: \ufeff?(.*))?',
    re.DOTALL,
)
_PRIORITY_MAX: Final = 191
"""Facility 23, severity 7."""


def java_util_line(text: str, sent: Sent) -> Line | None:
    """Read the two lines of java.util.logging: when and where, level and message."""
    found = _JAVA_UTIL.fullmatch(text)
    if found is None or (time_us := american_us(found[1], sent.zone)) is None:
        return None
    _, logger, method, level, rest = found.groups()
    message, stack = _split(rest)
    fields = {"logger": logger, **({"method": method} if method else {})}
    return Line("java", message, time_us, level_of(level) or NONE, fields=fields, stack=stack)


def syslog_line(text: str, sent: Sent) -> Line | None:
    """Read syslog, of RFC 3164 with or without its number, or of RFC 5424."""
    found = _SYSLOG.fullmatch(text)
    if found is None:
        return _new_syslog_line(text, sent)
    priority, time, host, program, pid, message = found.groups()
    time_us = syslog_us(time, sent.zone, sent.time_us)
    if time_us is None or int(priority or 0) > _PRIORITY_MAX:
        return None
    level = NONE if priority is None else level_of_priority(int(priority))
    return Line("syslog", message, time_us, level, host, program, {"pid": pid} if pid else {})


def _new_syslog_line(text: str, sent: Sent) -> Line | None:
    found = _SYSLOG_NEW.fullmatch(text)
    if found is None or int(found[1]) > _PRIORITY_MAX:
        return None
    priority, time, host, program, pid, kind, data, message = found.groups()
    time_us = iso_us(time, sent.zone)
    if time_us is None and time != "-":
        return None
    told = {"pid": pid, "msgid": kind, "data": data}
    fields = {name: value for name, value in told.items() if value != "-"}
    return Line("syslog", message or "", time_us, level_of_priority(int(priority)),
                _given(host), _given(program), fields)  # fmt: skip


def _given(value: str) -> str | None:
    return None if value == "-" else value


def plain_line(text: str) -> Line:
    """Take a line as it is."""
    message, stack = _split(text)
    return Line("plain", message, stack=stack)
