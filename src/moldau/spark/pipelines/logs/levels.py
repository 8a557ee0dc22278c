"""How serious a line is: six names for the many that programs use, and one for none. Pure."""

from __future__ import annotations

from typing import Final

LEVELS: Final = ("NONE", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""From the least serious on; NONE is a line that says nothing about it."""

NONE: Final = "NONE"
ERRORS: Final = frozenset({"ERROR", "FATAL"})

_NAMES: Final = {
    "TRACE": "trace finest finer verbose vrb silly 10",
    "DEBUG": "debug dbg fine config 20",
    "INFO": "info inf information informational notice note system log 30",
    "WARN": "warn wrn warning 40",
    "ERROR": "error err eror severe failure 50",
    "FATAL": "fatal ftl critical crit alert emerg emergency panic dpanic 60",
}
"""Names of Python, Java, Go, Node, .NET, MySQL and syslog; numbers as bunyan and pino have them."""

KNOWN: Final = {name: level for level, names in _NAMES.items() for name in names.split()}

WRITTEN: Final = (
    "TRACE|FINEST|FINER|DEBUG|FINE|CONFIG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|CRITICAL|FATAL"
    "|ALERT|EMERG|PANIC|CRIT|ERR"
)
"""The names by which a level is known in a line of text, as alternatives of an expression."""

OF_LETTER: Final = {
    "D": "DEBUG", "I": "INFO", "W": "WARN", "E": "ERROR", "F": "FATAL",
}  # fmt: skip
"""As glog, MongoDB and Ruby write them."""

_OF_SEVERITY: Final = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")


def level_of(name: str) -> str | None:
    """Return the level that a program calls so; None if that is no name of a level."""
    return KNOWN.get(name) or KNOWN.get(name.lower())


def level_of_priority(priority: int) -> str:
    """Return the level of the number that begins a line of syslog: facility * 8 + severity."""
    return _OF_SEVERITY[priority % 8]


def level_of_number(number: int) -> str | None:
    """Return the level of a severity number of OpenTelemetry, 1 to 24; four are one level."""
    return LEVELS[1 + (number - 1) // 4] if 1 <= number <= 24 else None


def level_of_status(status: int) -> str:
    """Return the level of a request that was answered with this status of HTTP."""
    if status >= 500:
        return "ERROR"
    return "WARN" if status >= 400 else "INFO"


def at_least(level: str) -> tuple[str, ...]:
    """Return a level and all that are more serious."""
    return LEVELS[LEVELS.index(level) :]
