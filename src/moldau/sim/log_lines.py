"""The log lines of a run, as events of its trace, and the bugs they admit.

A line with a traceback is written where a broker catches what it did not expect and goes on; in
the simulation that is a failure of the run. So is a line that tells of a violated invariant.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.base.errors import InvariantViolated
from moldau.sim.trace import Trace


class LogLines(logging.Handler):
    """Takes what Moldau logs while it is attached."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self.bugs: list[str] = []
        """Lines with a traceback, or about a violated invariant."""
        self.errors: list[str] = []
        """Lines that ask an operator to act."""
        self.cut_count = 0
        """Logs whose recovery had to cut something off."""
        self.cleaned_count = 0
        """Compactions that came to an end."""

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self._trace.note("log", line)
        if record.exc_info and record.exc_info[1] is not None:
            self.bugs.append(f"{line}: {record.exc_info[1]!r}")
        elif isinstance(record.args, tuple) and _has_violation(record.args):
            self.bugs.append(line)
        elif record.levelno >= logging.ERROR:
            self.errors.append(line)
        if ": cut at position " in line:
            self.cut_count += 1
        if ": cleaned [" in line:
            self.cleaned_count += 1


def _has_violation(values: tuple[object, ...]) -> bool:
    return any(isinstance(value, InvariantViolated) for value in values)


@contextmanager
def log_lines(trace: Trace) -> Iterator[LogLines]:
    """Attach a handler to Moldau's loggers for the length of a block."""
    logger = logging.getLogger("moldau")
    handler = LogLines(trace)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # Thousands of lines of a run that is as it should be are nobody's business.
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
