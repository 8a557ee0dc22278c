"""Lines of glog and of klog, which programs of Kubernetes write. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipelines.logs.forms.line import Line, Sent, parted
from moldau.spark.pipelines.logs.levels import OF_LETTER
from moldau.spark.pipelines.logs.moments import klog_us

_KLOG: Final = re.compile(
    r"([IWEF])((?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d{1,9}) +(\d+) ([^\s:\]]+):(\d+)\] ?(.*)",
    re.ASCII | re.DOTALL,
)


def klog_line(text: str, sent: Sent) -> Line | None:
    """Read `E1115 12:00:00.123456    7 server.go:17] what happened`."""
    found = _KLOG.fullmatch(text)
    if found is None or (time_us := klog_us(found[2], sent.zone, sent.time_us)) is None:
        return None
    letter, _, thread, file, line, rest = found.groups()
    message, stack = parted(rest)
    fields = {"thread": thread, "file": file, "line": line}
    return Line("klog", message, time_us, OF_LETTER[letter], fields=fields, stack=stack)
