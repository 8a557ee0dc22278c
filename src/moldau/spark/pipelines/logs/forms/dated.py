"""Lines that begin with a date, or with the time of day. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moldau.spark.pipelines.logs.forms.line import Line, Sent, parted
from moldau.spark.pipelines.logs.levels import NONE, OF_LETTER, WRITTEN, level_of
from moldau.spark.pipelines.logs.moments import clock_us, iso_us

_ANY_LEVEL: Final = rf"(?P<level>(?i:{WRITTEN}))\b"
_DATED: Final = re.compile(
    r"\[?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?)\]?(?:\s*[-|:]\s+|[ \t]+|(?=\[)|$)",
    re.ASCII,
)
_CLOCKED: Final = re.compile(r"\[?(\d\d:\d\d:\d\d[.,]\d{3,9})\]?\s+", re.ASCII)
_SHORT: Final = re.compile(
    rf"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) (?P<level>{WRITTEN})\s+([\w.$]+): (.*)",
    re.ASCII | re.DOTALL,
)
_NET_LEVEL: Final = r"(?P<level>VRB|DBG|INF|WRN|ERR|FTL)"
_NET: Final = re.compile(rf"\[(\d\d:\d\d:\d\d) {_NET_LEVEL}\] (.*)", re.ASCII | re.DOTALL)
_NAME: Final = r"[\w.$/-]+"


class _Shape(NamedTuple):
    """How a line may go on after its time."""

    format: str
    pattern: re.Pattern[str]


def _shape(form: str, *parts: str) -> _Shape:
    return _Shape(form, re.compile("".join(parts), re.DOTALL))


_SHAPES: Final = (
    # MySQL and MariaDB: 0 [Warning] [MY-010055] [Server] message
    _shape("mysql", r"(?P<thread>\d+) \[(?P<level>System|Note|Warning|ERROR)\]",
           r"(?: \[(?P<code>MY-\d+)\])?(?: \[(?P<logger>\w+)\])? (?P<message>.*)"),
    # PostgreSQL, as Debian sets it up: [4711] app@shop ERROR:  message
    _shape("postgresql", r"\[(?P<pid>\d+)(?:-\d+)?\] (?:(?P<user>[^\s@]+@\S+) )?",
           r"(?P<level>DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC)\d?:  (?P<message>.*)"),
    # ZooKeeper: [myid:1] - WARN  [main:QuorumPeer@391] - message
    _shape("java", rf"\[myid:(?P<node>\d*)\] - {_ANY_LEVEL}\s+\[(?P<thread>[^\n]*?)\] - ",
           r"(?P<message>.*)"),
    # MongoDB before 4.4: I  NETWORK  [conn1] message
    _shape("mongodb", r"(?P<level>[DIWEF])\d?\s+(?P<logger>[A-Z_]+|-)\s+\[(?P<thread>[^\]\n]*)\] ",
           r"(?P<message>.*)"),
    # Elasticsearch: [INFO ][o.e.n.Node               ] [node-1] message
    _shape("java", rf"\[{_ANY_LEVEL}\s*\]\[(?P<logger>{_NAME})\s*\] (?:\[(?P<node>[^\]\n]*)\] ?)?",
           r"(?P<message>.*)"),
    # Celery: INFO/MainProcess] message
    _shape("python", rf"{_ANY_LEVEL}/(?P<process>[^\]\n]*)\] (?P<message>.*)"),
    # Serilog: [INF] message
    _shape("serilog", rf"\[{_NET_LEVEL}\] (?P<message>.*)"),
    # Spring Boot: INFO 4711 --- [shop] [main] c.e.Shop : message
    _shape("java", rf"{_ANY_LEVEL}\s+(?P<pid>\d+)\s+---\s+(?P<thread>(?:\[[^\]\n]*\]\s*)*)",
           rf"(?P<logger>{_NAME})\s*: (?P<message>.*)"),
    # Logback and Log4j: [main] INFO  com.example.Shop - message
    _shape("java", rf"\[(?P<thread>[^\]\n]*)\]\s+\[?{_ANY_LEVEL}(?:\s*\])?\s+(?P<logger>{_NAME})",
           r"(?:\s+-|:) (?P<message>.*)"),
    # WildFly: INFO  [com.example.Shop] (main) message
    _shape("java", rf"{_ANY_LEVEL}\s+\[(?P<logger>{_NAME})\]\s+\((?P<thread>[^)\n]*)\)\s+",
           r"(?P<message>.*)"),
    # Log4j: INFO  com.example.Shop:17 - message
    _shape("java", rf"{_ANY_LEVEL}\s+(?P<logger>[\w$]+(?:\.[\w$]+)+)(?::(?P<line>\d+))?\s+- ",
           r"(?P<message>.*)"),
    # nginx: [error] 12#34: *5 message
    _shape("nginx", rf"\[{_ANY_LEVEL}\] (?P<pid>\d+)#(?P<thread>\d+): (?P<message>.*)"),
    # Loguru: INFO     | shop:sell:17 - message
    _shape("python", rf"{_ANY_LEVEL}\s*\| (?P<logger>{_NAME}):(?P<method>[\w<>]+):(?P<line>\d+) - ",
           r"(?P<message>.*)"),
    # Python, as its documentation shows it: shop - INFO - message
    _shape("python", rf"(?P<logger>{_NAME}) - {_ANY_LEVEL} - (?P<message>.*)"),
    # Flask: INFO in shop: message
    _shape("python", rf"{_ANY_LEVEL} in (?P<logger>{_NAME}): (?P<message>.*)"),
    # Python, as most write it: INFO shop: message, [INFO] shop:17: message
    _shape("python", rf"\[?{_ANY_LEVEL}(?:\s*\])?:?\s+\[?(?P<logger>{_NAME})\]?(?::(?P<line>\d+))?",
           r"(?::| -) (?P<message>.*)"),
    # Kafka: INFO message (kafka.server.KafkaServer)
    _shape("java", rf"{_ANY_LEVEL}\s++(?P<message>[^\n]*) \((?P<logger>[\w$]+(?:\.[\w$]+)+)\)",
           r"(?P<more>(?:\n.*)?)"),
    # A thread and a level, and that is all: [main] [INFO] message
    _shape("dated", rf"\[(?P<thread>[^\]\n]*)\]\s+\[?{_ANY_LEVEL}(?:\s*\])?(?:\s*[:|-])?\s+",
           r"(?P<message>.*)"),
    # A level, and that is all
    _shape("dated", rf"\[?{_ANY_LEVEL}(?:\s*\])?(?:\s*[:|-])?\s+(?P<message>.*)"),
)  # fmt: skip
_KEPT: Final = (
    "logger", "method", "thread", "pid", "line", "code", "node", "process", "user",
)  # fmt: skip


def dated_line(text: str, sent: Sent) -> Line | None:
    """Read a line that begins with a date and a time, and then goes on in one of many ways."""
    found = _DATED.match(text)
    if found is None or (time_us := iso_us(found[1].strip(), sent.zone)) is None:
        return None
    return _body(text[found.end() :], time_us)


def clocked_line(text: str, sent: Sent) -> Line | None:
    """Read a line that begins with the time of day, as Logback writes by default."""
    found = _CLOCKED.match(text)
    if found is None or (time_us := clock_us(found[1], sent.zone, sent.time_us)) is None:
        return None
    return _body(text[found.end() :], time_us)


def short_dated_line(text: str, sent: Sent) -> Line | None:
    """Read `26/11/15 12:00:00 INFO SparkContext: message`, as Spark and Hadoop write by default."""
    found = _SHORT.fullmatch(text)
    if found is None or (time_us := iso_us(f"20{found[1]}", sent.zone)) is None:
        return None
    message, stack = parted(found[4])
    fields = {"logger": found[3]}
    return Line("java", message, time_us, level_of(found["level"]) or NONE, fields=fields,
                stack=stack)  # fmt: skip


def serilog_line(text: str, sent: Sent) -> Line | None:
    """Read `[12:00:00 INF] message`, as Serilog writes to terminals."""
    found = _NET.fullmatch(text)
    if found is None or (time_us := clock_us(found[1], sent.zone, sent.time_us)) is None:
        return None
    message, stack = parted(found[3])
    return Line("serilog", message, time_us, level_of(found["level"]) or NONE, stack=stack)


def _body(text: str, time_us: int) -> Line:
    for shape in _SHAPES:
        found = shape.pattern.fullmatch(text)
        if found is not None:
            told = found.groupdict()
            fields = {name: value.strip() for name in _KEPT if (value := told.get(name))}
            message, stack = parted(told["message"] + (told.get("more") or ""))
            level = OF_LETTER.get(told["level"]) or level_of(told["level"]) or NONE
            return Line(shape.format, message, time_us, level, fields=fields, stack=stack)
    message, stack = parted(text)
    return Line("dated", message, time_us, stack=stack)
