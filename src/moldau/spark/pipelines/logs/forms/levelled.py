"""Lines that begin with a level. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent, parted
from moldau.spark.pipelines.logs.levels import NONE, WRITTEN, level_of

_BASIC: Final = re.compile(rf"(?P<level>{WRITTEN}):([^:\s]*):(.*)", re.DOTALL)
_LEVELLED: Final = re.compile(
    rf"\[?(?P<level>{WRITTEN})\b(?:\s*\])?(?:\s*[:|-])?\s+(.*)", re.DOTALL
)


def levelled_line(text: str, sent: Sent) -> Line | None:
    """Read Python's `INFO:shop:message`, or a line that begins with a level in capitals."""
    del sent
    if (found := _BASIC.fullmatch(text)) is not None:
        level, logger, message = found.groups()
        message, stack = parted(message)
        fields = {"logger": logger} if logger else {}
        return Line("python", message, None, level_of(level) or NONE, fields=fields, stack=stack)
    if (found := _LEVELLED.fullmatch(text)) is not None:
        message, stack = parted(found[2])
        return Line("levelled", message, None, level_of(found["level"]) or NONE, stack=stack)
    return None
