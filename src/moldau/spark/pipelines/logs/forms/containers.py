r"""Lines of containers: what wrote them down has put a line of its own around each. Pure.

    2026-11-15T12:00:00.123456789Z stderr F what the program wrote       Kubernetes (CRI)
    {"log":"what the program wrote\n","stream":"stderr","time":"..."}   Docker (json-file)

The line within is read as any other. What it does not say, the one around it does.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moldau.spark.pipelines.logs.forms.json_lines import json_line
from moldau.spark.pipelines.logs.forms.line import Line, Sent, put
from moldau.spark.pipelines.logs.levels import NONE
from moldau.spark.pipelines.logs.moments import iso_us

_CRI: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP])"
    r"(?:(?: )(.*))?",
    re.ASCII | re.DOTALL,
)
_DOCKER: Final = '{"log":"'
_STREAM: Final = '"stream":"'


class Wrapped(NamedTuple):
    """A line around another one."""

    line: Line
    text: str
    """The one within."""

    def around(self, inner: Line) -> Line:
        """Return what both lines say."""
        fields = dict(inner.fields)
        for name, value in self.line.fields.items():
            put(fields, name, value, {})
        return inner._replace(
            format=self.line.format if inner.format == "plain" else inner.format,
            time_us=self.line.time_us if inner.time_us is None else inner.time_us,
            level=self.line.level if inner.level == NONE else inner.level,
            host=inner.host or self.line.host,
            service=inner.service or self.line.service,
            fields=fields,
        )


def wrapped_line(text: str, sent: Sent) -> Wrapped | None:
    """Take a line of a container apart; None if it is none."""
    if text.startswith(_DOCKER) and _STREAM in text:
        return _docker_line(text, sent)
    found = _CRI.fullmatch(text) if text[:1].isdigit() else None
    if found is None or (time_us := iso_us(found[1], sent.zone)) is None:
        return None
    _, stream, tag, inner = found.groups()
    fields = {"stream": stream, **({"partial": "true"} if tag == "P" else {})}
    return Wrapped(Line("cri", "", time_us, fields=fields), inner or "")


def _docker_line(text: str, sent: Sent) -> Wrapped | None:
    line = json_line(text, sent)
    if line is None or line.message == text:
        return None
    return Wrapped(line._replace(format="docker"), line.message.rstrip("\r\n"))
