"""The mechanism of every fast path: a known request prefix, and an answer template (ADR 0007).

A client sends requests of one shape all day. They begin with the same bytes, and their answers are
alike but for a few numbers. The first one is decoded, and its meaning is kept by its prefix. Those
that follow are recognised by the prefix; nothing is decoded, and the answer is rendered from a
template (`protocol.frame_template`).

What an API adds is where the prefix ends (`split`), which requests are of its shape (`understand`)
and what is done for one (`carry_out`), which is what the slow path does, through the same objects.
Whatever is not of the shape, and whatever cannot be answered at once with success, is left to the
slow path, with nothing done: None says so.

Prefixes are kept for each principal: what one may do is not known of another (ADR 0013).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from moldau.base.clock import Clock
from moldau.base.network import Part
from moldau.observe.requests import RequestStats
from moldau.protocol.frame_template import FrameTemplate
from moldau.security.session import Principal, Session

P = TypeVar("P", bound=Hashable)
"""A request prefix."""
M = TypeVar("M")
"""The meaning of a prefix."""
V = TypeVar("V")
"""What differs from request to request."""

PREFIXES_KEPT: Final = 4096
"""Prefixes hold names that clients choose: beyond this many all are learned anew."""

PREFIX_START: Final = 8
"""Behind the API key, the version and the correlation id."""

_CORRELATION_ID: Final = slice(4, 8)


class PrefixFastPath(Generic[P, M, V]):
    """Answers the requests of one API whose prefix is known."""

    def __init__(self, stats: RequestStats, clock: Clock) -> None:
        self._stats = stats
        self._clock = clock
        self._known: dict[tuple[Principal, P], tuple[M, FrameTemplate]] = {}

    def answer(self, frame: memoryview, session: Session) -> list[Part] | None:
        """Handle the request in this frame, or return None with nothing done."""
        monotonic = self._clock.monotonic
        began = monotonic()
        split = self.split(frame)
        if split is None:
            return None
        prefix, variable = split
        key = (session.principal, prefix)
        known = self._known.get(key)
        if known is None:
            known = self.understand(frame, prefix)
            if known is None:
                return None
            if len(self._known) >= PREFIXES_KEPT:
                self._known.clear()
            self._known[key] = known
        meaning, template = known
        field = self.carry_out(meaning, variable, began)
        if field is None:
            if self.is_outdated(meaning):
                self._known.pop(key, None)
            return None
        self._stats.answered(len(frame), monotonic() - began)
        return [template.render(bytes(frame[_CORRELATION_ID]), field)]

    def forget_all(self) -> None:
        """Learn all prefixes anew: what they mean may have changed."""
        self._known.clear()

    @abstractmethod
    def split(self, frame: memoryview) -> tuple[P, V] | None:
        """Cut a request into its prefix and the rest; None if it cannot be of the shape."""

    @abstractmethod
    def understand(self, frame: memoryview, prefix: P) -> tuple[M, FrameTemplate] | None:
        """Decode a request with a new prefix; None if it is not of the shape."""

    @abstractmethod
    def carry_out(self, meaning: M, variable: V, began: float) -> bytes | None:
        """Do what is asked and return the field of the answer; None, with nothing done, if not."""

    def is_outdated(self, meaning: M) -> bool:
        """Tell whether a prefix that could not be served has lost its meaning."""
        del meaning
        return False
