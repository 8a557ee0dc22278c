"""The lines of java.util.logging, which come in twos. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent, parted
from moldau.spark.pipelines.logs.levels import NONE, WRITTEN, level_of
from moldau.spark.pipelines.logs.moments import MONTH, american_us

_JAVA_UTIL: Final = re.compile(
    rf"({MONTH} \d{{1,2}}, \d{{4}},? [\d:]{{7,8}} [AP]M) (\S+)(?: (\S+))?\n"
    rf"(?P<level>{WRITTEN}): (.*)",
    re.DOTALL,
)


def java_util_line(text: str, sent: Sent) -> Line | None:
    """Read the two lines of java.util.logging: when and where, level and message."""
    found = _JAVA_UTIL.fullmatch(text)
    if found is None or (time_us := american_us(found[1], sent.zone)) is None:
        return None
    _, logger, method, level, rest = found.groups()
    message, stack = parted(rest)
    fields = {"logger": logger, **({"method": method} if method else {})}
    return Line("java", message, time_us, level_of(level) or NONE, fields=fields, stack=stack)
