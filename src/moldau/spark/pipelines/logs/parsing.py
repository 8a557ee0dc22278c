"""One line of a log, of whatever format, becomes one row. Pure.

What no form takes is kept as it is, under the time its record was sent. Only what is no text, or
longer than any line should be, is refused with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from moldau.spark.pipelines.logs.colours import uncoloured
from moldau.spark.pipelines.logs.forms.access import access_line
from moldau.spark.pipelines.logs.forms.apache import apache_line
from moldau.spark.pipelines.logs.forms.containers import wrapped_line
from moldau.spark.pipelines.logs.forms.dated import (
    clocked_line,
    dated_line,
    serilog_line,
    short_dated_line,
)
from moldau.spark.pipelines.logs.forms.java_util import java_util_line
from moldau.spark.pipelines.logs.forms.json_lines import json_line
from moldau.spark.pipelines.logs.forms.klog import klog_line
from moldau.spark.pipelines.logs.forms.levelled import levelled_line
from moldau.spark.pipelines.logs.forms.line import Line, Sent, plain_line, put
from moldau.spark.pipelines.logs.forms.logfmt import logfmt_line
from moldau.spark.pipelines.logs.forms.own import OwnForm
from moldau.spark.pipelines.logs.forms.ruby import ruby_line
from moldau.spark.pipelines.logs.forms.syslog import syslog_line

CLAIMED: Final = "claimed_time_us"
"""The field that holds a time which lies too far ahead, or too far back, to be true."""

DEAD_SIZE_MAX: Final = 65_536
"""Bytes that are kept of a record that is too long: enough to see what it is."""

BESIDE_SIZE_MAX: Final = 65_536
"""Bytes that a record may have beside its line. Paths, which are headers, have up to 4096."""

_LineParser = Callable[[str, Sent], Line | None]

# Which forms are tried, in this order, is decided by a line's first character: it leaves few.
_LETTER: Final[tuple[_LineParser, ...]] = (
    logfmt_line,
    levelled_line,
    klog_line,
    ruby_line,
    syslog_line,
    java_util_line,
    access_line,
)
_DIGIT: Final[tuple[_LineParser, ...]] = (
    dated_line,
    access_line,
    clocked_line,
    short_dated_line,
)
_OTHERS: Final[dict[str, tuple[_LineParser, ...]]] = {
    "{": (json_line,),
    "<": (syslog_line,),
    "[": (dated_line, clocked_line, serilog_line, levelled_line, apache_line),
    "_": (logfmt_line, access_line),
    "@": (logfmt_line,),
    ":": (access_line,),
}

_GENERAL: Final = re.compile(
    "access|app|application|console|current|error|logs?|main|messages|out|output|server|service"
    "|stderr|stdout|syslog",
    re.IGNORECASE,
)
"""Names of files that say nothing about who writes them."""
_PATHS_REMEMBERED: Final = 1024
_NAME: Final = re.compile(r"\.?([^./][^.]*)")


class Origin(NamedTuple):
    """Where a record says it comes from, by its headers."""

    host: str | None = None
    path: str | None = None
    service: str | None = None


class Rules(NamedTuple):
    """What the user says of lines."""

    zone: tzinfo
    """In which zone times are that name none."""
    skew_us: int
    """How far ahead of the clock a time may be."""
    line_size_max: int
    own: OwnForm | None = None
    """A format that the user describes himself; it is tried first."""

    @property
    def record_size_max(self) -> int:
        """The bytes of the record of a line, with its key and its headers."""
        return self.line_size_max + BESIDE_SIZE_MAX


def text_of(value: bytes | None, size: int, rules: Rules) -> tuple[str, None] | tuple[None, str]:
    """Return the text of a record; or None, and why it cannot be a line.

    `size` is that of the whole record; if it is too large, only its beginning is here.
    """
    if size > rules.record_size_max:
        return None, f"{size} bytes, more than a line of {rules.line_size_max}"
    if value is None:
        return None, "no value"
    if len(value) > rules.line_size_max:
        return None, f"{len(value)} bytes, more than a line of {rules.line_size_max}"
    try:
        return value.decode(), None
    except UnicodeDecodeError as error:
        return None, f"not UTF-8: {error.reason} at byte {error.start}"


def parse(text: str, origin: Origin, sent_us: int, now_us: int, rules: Rules) -> Line:
    """Read a line; it has a time, and a host and a service if anything tells them.

    A record that was sent later than now is taken to be sent now. A line that claims a time so far
    ahead that its clock must be wrong, or one before 1970, has that of its record; what it claims
    becomes a field. So does another host or service than the headers name: a line may have been
    forwarded.
    """
    sent = Sent(min(sent_us, now_us) if sent_us >= 0 else now_us, rules.zone)
    line = understood(uncoloured(text.rstrip("\r\n")), sent, rules.own)
    time_us, fields = line.time_us, line.fields
    if time_us is None:
        time_us = sent.time_us
    elif not 0 <= time_us <= now_us + rules.skew_us:
        time_us, fields = sent.time_us, {**fields, CLAIMED: str(time_us)}
    host = origin.host or line.host
    service = origin.service or line.service or service_of(origin.path)
    for name, told, taken in (("host", line.host, host), ("service", line.service, service)):
        if told is not None and told != taken:
            fields = dict(fields)
            put(fields, name, told, {})
    return Line(line.format, line.message, time_us, line.level, host, service, fields, line.stack)


def understood(text: str, sent: Sent, own: OwnForm | None = None) -> Line:
    """Find the form of a line; a plain one if it has none. One of a container holds another."""
    line = None if own is None else own.line(text, sent)
    if line is not None:
        return line
    wrapped = wrapped_line(text, sent)
    if wrapped is None:
        return _known(text, sent)
    inner = uncoloured(wrapped.text)
    line = None if own is None else own.line(inner, sent)
    return wrapped.around(line or _known(inner, sent))


def _known(text: str, sent: Sent) -> Line:
    for form in _forms_for(text[:1]):
        line = form(text, sent)
        if line is not None:
            return line
    return plain_line(text)


def _forms_for(first: str) -> tuple[_LineParser, ...]:
    if not first.isascii():
        return ()
    if first.isalpha():
        return _LETTER
    return _DIGIT if first.isdigit() else _OTHERS.get(first, ())


@lru_cache(_PATHS_REMEMBERED)
def service_of(path: str | None) -> str | None:
    """Return the service that a log file is of: its name, or its folder's if that says nothing."""
    if not path:
        return None
    *folders, name = path.split("/")
    found = _NAME.match(name)
    stem = found[1] if found else name
    if _GENERAL.fullmatch(stem) and folders and folders[-1] and folders[-1] != "log":
        return folders[-1]
    return stem or None
