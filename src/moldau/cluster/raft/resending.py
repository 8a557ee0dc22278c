"""Requests under way: one to each node, sent again after a time-out or a failure, ever more slowly.

What has to be sent is not kept here. `wanted` tells it anew after each event, from the state alone,
so that nothing is resent that nobody wants any more. Only the answer to a request that is under way
is taken, and once: a change of state forgets them all, and late answers with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from moldau.base.tuples import NamedTuple
from moldau.cluster.raft.requests import SentRequest
from moldau.cluster.raft.voters import NodeId

Destination: TypeAlias = NodeId | None
"""None is any of the nodes that the settings name."""


class InFlight(NamedTuple):
    """A request that was sent, and when it counts as failed."""

    to: Destination
    request: SentRequest
    until_s: float


@dataclass(slots=True)
class Outgoing:
    """What is under way, and which nodes are left alone for a moment."""

    backoff: Callable[[int], float]
    """How long to wait after so many failures in a row."""
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    resting: dict[Destination, float] = field(default_factory=dict)
    _failures: dict[Destination, int] = field(default_factory=dict)
    _next_id: int = 0

    @property
    def deadline_s(self) -> float:
        timeouts = (one.until_s for one in self.in_flight.values())
        return min(min(timeouts, default=inf), min(self.resting.values(), default=inf))

    def is_free(self, to: Destination) -> bool:
        """Tell whether a node may be sent a request now."""
        return to not in self.resting and all(one.to != to for one in self.in_flight.values())

    def begin(self, to: Destination, request: SentRequest, until_s: float) -> int:
        """Take note of a request that is sent now; return its id."""
        self._next_id += 1
        self.in_flight[self._next_id] = InFlight(to, request, until_s)
        return self._next_id

    def take(self, request_id: int) -> InFlight | None:
        """End a request; None if it is not under way any more."""
        return self.in_flight.pop(request_id, None)

    def succeeded(self, to: Destination) -> None:
        self._failures.pop(to, None)

    def failed(self, to: Destination, now_s: float) -> None:
        """Leave a node alone for a moment."""
        self._failures[to] = self._failures.get(to, 0) + 1
        self.resting[to] = now_s + self.backoff(self._failures[to])

    def lost(self, to: Destination, now_s: float) -> None:
        """Give up what is under way to a node: its connection is gone."""
        for request_id, one in tuple(self.in_flight.items()):
            if one.to == to:
                del self.in_flight[request_id]
        self.failed(to, now_s)

    def expire(self, now_s: float) -> None:
        """Give up requests that have taken too long, and end rests that are over."""
        for request_id, one in tuple(self.in_flight.items()):
            if one.until_s <= now_s:
                del self.in_flight[request_id]
                self.failed(one.to, now_s)
        for to, until_s in tuple(self.resting.items()):
            if until_s <= now_s:
                del self.resting[to]

    def forget(self) -> None:
        """Drop all requests: the state that wanted them is over. Rests and failures stay."""
        self.in_flight.clear()
