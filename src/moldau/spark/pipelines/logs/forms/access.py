"""Requests, as web servers log them. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent
from moldau.spark.pipelines.logs.levels import level_of_status
from moldau.spark.pipelines.logs.moments import MONTH, common_us

_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
_ACCESS: Final = re.compile(
    # A name and a port come before the client in Apache's vhost_combined. An address of version 6
    # has more than one colon.
    r"(?:([\w.-]+:\d{1,5}) )?"
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
    if found is None or (time_us := common_us(found[5])) is None:
        return None
    site, client, ident, user, _, request, status, size, referer, agent, rest = found.groups()
    parts = _REQUEST.fullmatch(request)
    told = {
        "site": site,
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
