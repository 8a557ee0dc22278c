"""Lines of Ruby's Logger, which Rails writes too. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent, parted
from moldau.spark.pipelines.logs.levels import NONE, OF_LETTER
from moldau.spark.pipelines.logs.moments import iso_us

_RUBY: Final = re.compile(
    r"([DIWEFA]), \[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?) #(\d+)\] +[A-Z]+ --"
    r" ((?:[^\n:]|:(?! ))*): (.*)",
    re.ASCII | re.DOTALL,
)


def ruby_line(text: str, sent: Sent) -> Line | None:
    """Read `E, [2026-11-15T12:00:00.123456 #4711] ERROR -- shop: what happened`."""
    found = _RUBY.fullmatch(text)
    if found is None or (time_us := iso_us(found[2], sent.zone)) is None:
        return None
    letter, _, pid, program, rest = found.groups()
    message, stack = parted(rest)
    told = {"pid": pid, "logger": program.strip()}
    fields = {name: value for name, value in told.items() if value}
    return Line("ruby", message, time_us, OF_LETTER.get(letter, NONE), fields=fields, stack=stack)
