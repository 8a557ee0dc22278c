"""The producer ids that brokers have given out in a run: no two producers may share one."""

from __future__ import annotations

from moldau.sim.history import Violation


class ProducerIds:
    """All producer ids of one run, whichever broker gave them out."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def take(self, producer_id: int) -> None:
        """Note a producer id that was given out; Violation if it is not a new one."""
        if producer_id in self._given:
            raise Violation(f"P4: producer id {producer_id} was given out twice")
        self._given.add(producer_id)
