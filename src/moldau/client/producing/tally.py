"""What became of many records together, for `send_many`.

A batch's fate does not answer for all of its records: one that is too large is split, and its
halves may fare differently. So every delivery is looked at; those that were written are let go
of as time passes, so that a stream of records without end takes no more than what is on its way.
"""

from __future__ import annotations

from typing import Final

from moldau.client.producing.deliveries import Sent
from moldau.client.producing.fates import fresh

FIRST_LOOK_COUNT: Final = 4096
"""How many deliveries are kept before it is worth looking through them."""


class Tally:
    """Counts deliveries and finds the first that failed."""

    def __init__(self) -> None:
        self._count = 0
        self._kept: list[Sent] = []
        self._look_at = FIRST_LOOK_COUNT

    def add(self, delivery: Sent) -> None:
        """Count one more."""
        self._count += 1
        self._kept.append(delivery)
        if len(self._kept) >= self._look_at:
            self._look_through()
            # Twice what is left: then each delivery is looked at twice or so, however many wait.
            self._look_at = max(FIRST_LOOK_COUNT, 2 * len(self._kept))

    def _look_through(self) -> None:
        """Keep what is on its way, and the first that failed."""
        kept: list[Sent] = []
        failed = False
        for delivery in self._kept:
            fate, _ = delivery.place()
            if not fate.done:
                kept.append(delivery)
            elif fate.error is not None and not failed:
                failed = True
                kept.append(delivery)
        self._kept = kept

    def result(self) -> int:
        """Return how many were written, all of them settled; raise why the first failed."""
        for delivery in self._kept:
            error = delivery.exception()
            if error is not None:
                raise fresh(error)
        return self._count
