"""What a request made a coordinator raise: a bug of ours, told once for each place in the code.

A client may repeat its request without end. The first one leaves a traceback in the log; the others
are only counted. The coordinator goes on, so no line is needed to explain an outage.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

logger = logging.getLogger(__name__)

PLACES_MAX: Final = 1_000
"""Places remembered. There are far fewer `raise` lines than that in a coordinator."""


class BugLog:
    """The bugs that requests of one runtime have met."""

    __slots__ = ("_places", "count")

    def __init__(self) -> None:
        self.count = 0
        """Requests that raised, for the metrics."""
        self._places: set[Hashable] = set()

    def note(self, where: object, error: BaseException) -> None:
        """Count a request that raised, and log it unless this place has raised before."""
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
    """Name the line that raised."""
    trace = error.__traceback__
    if trace is None:
        return type(error), None, 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno
