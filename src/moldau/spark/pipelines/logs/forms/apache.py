"""The error log of Apache's web server. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent, parted
from moldau.spark.pipelines.logs.levels import level_of
from moldau.spark.pipelines.logs.moments import DAY, MONTH, asctime_us

_APACHE: Final = re.compile(
    rf"\[({DAY} {MONTH} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})? \d{{4}})\]"
    r" \[(?:([\w-]*):)?([a-z]+)(\d?)\]"
    r"(?: \[pid (\d+)(?::tid (\d+))?\])?"
    r"(?: \[client ([^\]\s]+)\])? ?(.*)",
    re.ASCII | re.DOTALL,
)


def apache_line(text: str, sent: Sent) -> Line | None:
    """Read `[Sun Nov 15 12:00:00.123456 2026] [core:error] [pid 7:tid 8] what happened`."""
    found = _APACHE.fullmatch(text)
    if found is None or (time_us := asctime_us(found[1], sent.zone)) is None:
        return None
    _, module, name, depth, pid, thread, client, rest = found.groups()
    level = level_of(name)
    if level is None:
        return None
    told = {"module": module, "pid": pid, "thread": thread, "client": client}
    fields = {field: value for field, value in told.items() if value}
    if depth:
        fields["level"] = name + depth
    message, stack = parted(rest)
    return Line("apache", message, time_us, level, fields=fields, stack=stack)
