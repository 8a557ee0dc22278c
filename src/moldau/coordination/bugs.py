"""Exceptions that requests caused in a coordinator: bugs of ours, logged once per line of code.

A client may repeat its request without end. The first exception of a line leaves a traceback in the
log; the others are only counted. The coordinator still serves, so there is no outage to explain.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

logger = logging.getLogger(__name__)

PLACES_MAX: Final = 1_000
"""Lines of code that are remembered. A coordinator has far fewer lines that raise."""


class BugLog:
    """The exceptions that requests of one runtime have caused."""

    __slots__ = ("_places", "count")

    def __init__(self) -> None:
        self.count = 0
        """Requests that raised, for the metrics."""
        self._places: set[Hashable] = set()

    def note(self, where: object, error: BaseException) -> None:
        """Count an exception, and log it unless the same line has raised before."""
        self.count += 1
        place = _place(error)
        if place in self._places or len(self._places) >= PLACES_MAX:
            return
        self._places.add(place)
        logger.error(
            "%s: a request met a bug and was refused; the same is logged only once",
            where,
            exc_info=error,
        )


def _place(error: BaseException) -> Hashable:
    """Return the line of code that raised."""
    trace = error.__traceback__
    if trace is None:
        return type(error), None, 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno
