"""Lines of a format that the user describes himself, by an expression with named groups. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.spark.pipelines.logs.forms.line import Line, Sent, parted
from moldau.spark.pipelines.logs.levels import NONE, OF_LETTER, level_of
from moldau.spark.pipelines.logs.moments import moment_us

_COLUMNS: Final = ("time", "level", "message", "host", "service", "stack")
"""Groups that have a column of their own; the others are fields."""


class OwnForm(NamedTuple):
    """A format of the user's own."""

    name: str
    pattern: re.Pattern[str]

    def line(self, text: str, sent: Sent) -> Line | None:
        """Read a line that the pattern matches as a whole.

        A time or a level that cannot be read is kept as a field.
        """
        found = self.pattern.fullmatch(text)
        if found is None:
            return None
        told = {name: value for name, value in found.groupdict().items() if value}
        fields = {name: value for name, value in told.items() if name not in _COLUMNS}
        time, level = told.get("time", ""), told.get("level", "")
        time_us = moment_us(time, sent.zone, sent.time_us) if time else None
        known = OF_LETTER.get(level) or level_of(level)
        if time and time_us is None:
            fields["time"] = time
        if level and known is None:
            fields["level"] = level
        message, stack = parted(told.get("message", text))
        if "stack" in told:
            message, stack = told.get("message", text), told["stack"]
        return Line(
            self.name, message, time_us, known or NONE, told.get("host"), told.get("service"),
            fields, stack,
        )  # fmt: skip


def pattern_of(text: str) -> re.Pattern[str]:
    """Compile the expression of a user; UserError if it can be none."""
    try:
        pattern = re.compile(text, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(f"{text!r} is no regular expression: {error}") from None
    if not pattern.groupindex:
        raise UserError(f"{text!r} names nothing: expected groups as (?P<level>[A-Z]+)")
    return pattern
