"""The mechanism of every fast path: a known request prefix, and an answer template (ADR 0007).

A client sends requests of one shape all day. They begin with the same bytes, and their answers are
alike but for a few numbers. The first one is decoded, and its meaning is kept by its prefix. Those
that follow are recognised by the prefix; nothing is decoded, and the answer is rendered from a
template (`protocol.frame_template`).

What an API adds is what the prefix is (`prefix_of`), which requests are of its shape (`understand`)
and what is done for one (`carry_out`), which is what the slow path does, through the same objects.
Whatever is not of the shape, and whatever cannot be carried out at once, is left to the slow path,
with nothing done: None says so. What was carried out and is acknowledged later, as a batch that
followers do not have yet, has an answer that will come (`connection.Pending`).

Prefixes are kept for each principal: what one may do is not known of another (ADR 0013). They are
also kept for each version, since the same bytes may mean something else in another.
"""

from __future__ import annotations

from abc import abstractmethod
from struct import Struct
from typing import Final, Generic, TypeVar

from moldau.base.clock import Clock
from moldau.base.network import Part
from moldau.observe.requests import RequestStats
from moldau.protocol.frame_template import FrameTemplate
from moldau.security.session import ANONYMOUS, Principal, Session
from moldau.server.network.connection import Pending


class KnownRequest:
    """The meaning of a prefix, and the template of its answers. An API adds what it needs."""

    __slots__ = ("template",)

    def __init__(self, template: FrameTemplate) -> None:
        self.template = template


K = TypeVar("K", bound=KnownRequest)

PREFIXES_KEPT: Final = 4096
"""Prefixes hold names that clients choose: beyond this many all are learned anew."""

PREFIX_START: Final = 8
"""Behind the API key, the version and the correlation id."""

_START: Final = Struct(">2xh4s").unpack_from
"""Version and correlation id."""


class PrefixFastPath(Generic[K]):
    """Answers the requests of one API whose prefix is known."""

    def __init__(self, stats: RequestStats, clock: Clock) -> None:
        self._stats = stats
        self._monotonic = clock.monotonic
        self._tables: dict[tuple[Principal, int], dict[bytes, K]] = {}
        """By principal and version."""
        self._learned = 0
        """How many prefixes were put into them."""
        # The table of the last request is nearly always that of the next, too.
        self._principal = ANONYMOUS
        self._version = -1
        self._table: dict[bytes, K] = {}

    def answer(self, frame: memoryview, session: Session) -> list[Part] | Pending | None:
        """Handle the request in this frame, or return None with nothing done."""
        monotonic = self._monotonic
        began = monotonic()
        if len(frame) < PREFIX_START:
            return None
        version: int
        correlation_id: bytes
        version, correlation_id = _START(frame)
        prefix = self.prefix_of(frame, version)
        if prefix is None:
            return None
        if version != self._version or session.principal is not self._principal:
            self._open_table(session.principal, version)
        known = self._table.get(prefix)
        if known is None:
            known = self.understand(frame, prefix, version)
            if known is None:
                return None
            self._keep(prefix, known)
        outcome = self.carry_out(known, frame, session, began)
        if isinstance(outcome, bytes):
            self._stats.answered(len(frame), monotonic() - began)
            return [known.template.render(correlation_id, outcome)]
        if outcome is not None:
            self._stats.count(len(frame))
        elif self.is_outdated(known):
            self._table.pop(prefix, None)
        return outcome

    def _open_table(self, principal: Principal, version: int) -> None:
        table = self._tables.get((principal, version))
        # A new table is kept with its first prefix: a client may name any version.
        self._table = {} if table is None else table
        self._principal, self._version = principal, version

    def _keep(self, prefix: bytes, known: K) -> None:
        if self._learned >= PREFIXES_KEPT:
            self.forget_all()
        self._table[prefix] = known
        self._tables[self._principal, self._version] = self._table
        self._learned += 1

    def forget_all(self) -> None:
        """Learn all prefixes anew: what they mean may have changed."""
        self._tables.clear()
        self._table = {}
        self._learned = 0

    @abstractmethod
    def prefix_of(self, frame: memoryview, version: int) -> bytes | None:
        """Return the bytes that all requests like this have; None if it cannot be of the shape."""

    @abstractmethod
    def understand(self, frame: memoryview, prefix: bytes, version: int) -> K | None:
        """Decode a request with a new prefix; None if it is not of the shape."""

    @abstractmethod
    def carry_out(
        self, known: K, frame: memoryview, session: Session, began: float
    ) -> bytes | Pending | None:
        """Do what is asked and return the field of the answer, or an answer that will come.

        None, with nothing done, if it has to take the slow path.
        """

    def is_outdated(self, known: K) -> bool:
        """Tell whether a prefix that could not be served has lost its meaning."""
        del known
        return False
