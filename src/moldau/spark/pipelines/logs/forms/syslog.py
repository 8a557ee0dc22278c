"""Syslog, the old form and the new. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent
from moldau.spark.pipelines.logs.levels import NONE, level_of_priority
from moldau.spark.pipelines.logs.moments import MONTH, TIME_SIZE_MAX, iso_us, syslog_us

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
