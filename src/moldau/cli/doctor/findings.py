"""What a check says: how serious it is, what was found, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    OPTIONAL = "optional"
    """Something is not installed, and a broker does not need it."""
    ADVICE = "advice"
    """A broker works, and would work better after a change."""
    PROBLEM = "problem"
    """A broker does not start, loses records, or cannot serve clients."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    result: Result
    found: str
    advice: str = ""
    """What to change, in one line; empty if nothing."""


def ok(check: str, found: str) -> Finding:
    """Say that nothing needs to be changed."""
    return Finding(check, Result.OK, found)
