"""How much memory clients may make the broker hold, all connections together.

Requests that have not arrived whole, answers that were not read yet and the work on large answers
are *holdings*. Each belongs to one *share* of the budget: small requests, large requests, answers.
So 300 connections that begin huge requests cannot keep a producer from sending 1 MiB.

A holding that needs more than its share has left waits in line, first come, first served. The
first one gets the share's *turn* when nobody has it: it may go beyond the share until it is
done. The budget keeps room for one largest request beside the shares. So whoever has the turn can
finish, and a line always moves. If the one with the turn stops sending or reading, it is closed.

There are two lines, served alternately. A connection is *known* for requests up to the size that
it has finished before. The others are newcomers, and get three quarters of a share at most. So a
producer at work is not held up by hundreds of connections that begin a request and leave it there.

A connection is closed only while others need memory: when it moved less than a sixteenth of what
it holds during `PATIENCE_TICKS`, the largest holdings first, and no more of them than are needed.
Time is counted in ticks, which the owner of a timer makes: a loop that was busy for seconds makes
one tick, so that nobody is blamed for what the broker did not read.

Memory that is there already (bytes that were read, an answer that was made) is charged without
asking. If that brings the budget an eighth over its limit, the largest holdings go at once.

This module only decides. It knows neither sockets nor timers, nor what a request is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

MIB: Final = 1024 * 1024

SMALL_REQUEST_BYTES: Final = 2 * MIB
"""Room for a produce request of `max.message.bytes` at its default, and as much again."""

DEFAULT_LARGEST_REQUEST: Final = 100 * MIB

TICK_S: Final = 0.25
PATIENCE_TICKS: Final = 4
BLOCKED_PATIENCE_TICKS: Final = 120
"""For those who wait for an answer of ours: half a minute, Kafka's default `request.timeout.ms`."""

PROGRESS_SHARE: Final = 16
"""The part of what it holds that a connection has to move within `PATIENCE_TICKS`."""

NEWCOMERS_PART: Final = (3, 4)
"""How much of a share those may take that have not finished a request of that size before."""

WITHOUT_LIMIT: Final = 1 << 62


class Holder(Protocol):
    """The connection that a holding belongs to."""

    @property
    def peer(self) -> object:
        """Its client, for log lines."""
        ...

    def reading_is_blocked(self) -> bool:
        """Tell whether the broker itself does not read from it now."""
        ...

    def sending_is_blocked(self) -> bool:
        """Tell whether the broker itself cannot send to it now."""
        ...

    def abort(self) -> None:
        """Close it now."""
        ...


class Kind(Enum):
    """What a holding is."""

    REQUEST = "an unfinished request"
    ANSWER = "unread answers"
    WORK = "work on an answer"


Line: TypeAlias = "dict[Holding, None]"
"""Holdings that wait, in the order in which they came."""


class Holding:
    """Memory that one connection holds for one purpose. Changed by its budget alone."""

    __slots__ = (
        "granted",
        "held",
        "holder",
        "in_share",
        "kind",
        "known_size",
        "line",
        "marked",
        "moved",
        "quiet_ticks",
        "seen_tick",
        "share",
        "wanted",
    )

    def __init__(self, holder: Holder, kind: Kind, share: Share) -> None:
        self.holder = holder
        self.kind = kind
        self.share = share
        self.held = 0
        self.in_share = 0
        """How much of it counts against the share: nothing for who has the turn or is in line."""
        self.line: Line | None = None
        """Where it waits."""
        self.wanted = 0
        self.known_size = 0
        """The largest it was when it finished."""
        self.granted: Callable[[], None] = _ignore
        """Called when a holding that waited in line was given what it wanted."""
        self.moved = 0
        """Bytes that its client has sent, or taken, so far."""
        self.marked = 0
        self.quiet_ticks = 0
        self.seen_tick = -1

    @property
    def is_waiting(self) -> bool:
        """Whether it stands in line."""
        return self.line is not None

    def is_blocked(self) -> bool:
        """Tell whether its client can do nothing about it now."""
        if self.kind is Kind.REQUEST:
            return self.holder.reading_is_blocked()
        return self.holder.sending_is_blocked()


class Share:
    """A part of the budget, and the lines of those who wait for it."""

    __slots__ = ("holdings", "known", "newcomers", "serve_known", "size", "turn", "used")

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self.turn: Holding | None = None
        self.holdings: dict[Holding, None] = {}
        """Those that hold anything."""
        self.known: Line = {}
        self.newcomers: Line = {}
        self.serve_known = True
        """Whose turn it is to be served."""

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self.known) + len(self.newcomers)

    @property
    def missing(self) -> int:
        """How much those in line want, and how far the share is overdrawn."""
        wanted = sum(one.wanted - one.held for line in self.lines for one in line)
        return wanted + max(0, self.used - self.size)

    @property
    def lines(self) -> tuple[Line, Line]:
        """Both lines, the one to be served first."""
        if self.serve_known:
            return self.known, self.newcomers
        return self.newcomers, self.known


class Eviction(NamedTuple):
    """A connection that is to be closed, and why."""

    holding: Holding
    reason: str


class MemoryBudget:
    """Decides who may hold how much, who waits, and who is closed."""

    def __init__(self, limit: int = -1, *, largest_request: int = DEFAULT_LARGEST_REQUEST) -> None:
        """Make a budget of so many bytes; without a limit if that is not positive."""
        self.limit = limit if limit > 0 else WITHOUT_LIMIT
        self.ceiling = self.limit + self.limit // 8
        # A buffer may be a quarter larger than the request in it. Where a budget is too small for
        # the largest request, half of it is shared all the same.
        shared = max(self.limit - largest_request * 5 // 4, self.limit // 2)
        self.answers = Share(shared // 4)
        self.small = Share(shared * 3 // 8)
        self.large = Share(shared * 3 // 8)
        self.shares = (self.small, self.large, self.answers)
        self.held = 0
        self.waits = 0
        """How often somebody had to wait."""
        self.evictions = 0
        """How many connections were closed."""
        self.changed: list[Callable[[], None]] = []
        """Called when `is_short` or `needs_ticks` may have changed."""
        self._tick = 0
        self._was = (False, False)

    # What it tells

    @property
    def is_limited(self) -> bool:
        """Whether anybody ever has to wait."""
        return self.limit < WITHOUT_LIMIT

    @property
    def is_short(self) -> bool:
        """Whether requests that need memory of their own have to wait."""
        return bool(self.small.waiting or self.large.waiting) or self.held > self.limit

    @property
    def needs_ticks(self) -> bool:
        """Whether somebody waits for memory that others hold."""
        return self.is_short or bool(self.answers.waiting) or self.answers.used > self.answers.size

    @property
    def is_over_ceiling(self) -> bool:
        """Whether `evict_largest` has to be called."""
        return self.held > self.ceiling

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return sum(share.waiting for share in self.shares)

    # What holders do

    def request_share(self, announced: int) -> Share:
        """Return the share that a request of this size belongs to."""
        return self.small if announced <= SMALL_REQUEST_BYTES else self.large

    def ask(self, holding: Holding, share: Share, size: int, at_least: int = 0) -> bool:
        """Let it hold this much, all in all; False if it has to wait until `granted` is called.

        While it waits it holds what it had, or `at_least` if that is more: the part that is there
        already. To ask again changes what it waits for, not its place in line.
        """
        self._enter(holding, share)
        line = self._line(holding, size)
        is_first = not line or share.turn is holding
        shrinks = size < holding.held
        if size <= holding.held:
            if self._fits(holding, size):
                self._count(holding, size)
        elif not is_first or not self._take(holding, size):
            if holding.line is None:
                self.waits += 1
                holding.line = line
                line[holding] = None
            holding.wanted = size
            self._set(holding, max(holding.held, at_least))
            self._tell()
            return False
        self._leave_line(holding)
        self._set(holding, size)
        if shrinks:
            self._serve_all()
        self._tell()
        return True

    def charge(self, holding: Holding, share: Share, size: int) -> None:
        """Note that it holds this much: the memory is there already. It waits for nothing."""
        shrinks = size < holding.held
        self._enter(holding, share)
        self._leave_line(holding)
        self._set(holding, size)
        if share is self.answers and share.turn is not holding:
            self._count(holding, size)
        if shrinks:
            self._serve_all()
        self._tell()

    def finish(self, holding: Holding) -> None:
        """Note that what it held memory for is done; the next thing has to queue up for a turn."""
        holding.known_size = max(holding.known_size, holding.held)
        if holding.share.turn is holding:
            holding.share.turn = None
            self._serve_all()
            self._tell()

    def release(self, holding: Holding) -> None:
        """Hold nothing and wait for nothing."""
        if holding.held or holding.is_waiting or holding.share.turn is holding:
            self._leave(holding)
            self._set(holding, 0)
            self._serve_all()
            self._tell()

    # Deciding

    def _enter(self, holding: Holding, share: Share) -> None:
        if holding.share is not share:
            left = holding.share
            self._leave(holding)
            holding.share = share
            if holding.held:
                share.holdings[holding] = None
            self._serve(left)

    def _leave(self, holding: Holding) -> None:
        self._leave_line(holding)
        self._count(holding, 0)
        holding.share.holdings.pop(holding, None)
        if holding.share.turn is holding:
            holding.share.turn = None

    def _leave_line(self, holding: Holding) -> None:
        if holding.line is not None:
            del holding.line[holding]
            holding.line = None

    def _line(self, holding: Holding, size: int) -> Line:
        share = holding.share
        return share.known if size <= holding.known_size else share.newcomers

    def _take(self, holding: Holding, size: int) -> bool:
        """Find room in the share, or take the turn; False if there is neither."""
        share = holding.share
        if share.turn is holding:
            return True
        if self._fits(holding, size):
            self._count(holding, size)
            return True
        if share.turn is None and not self.is_over_ceiling:
            share.turn = holding
            self._count(holding, 0)
            return True
        return False

    def _fits(self, holding: Holding, size: int) -> bool:
        share = holding.share
        room = share.size
        if size > holding.known_size:
            room = room * NEWCOMERS_PART[0] // NEWCOMERS_PART[1]
        return (
            share.turn is not holding
            and share.used - holding.in_share + size <= room
            and self.held - holding.held + size <= self.limit
        )

    def _count(self, holding: Holding, size: int) -> None:
        holding.share.used += size - holding.in_share
        holding.in_share = size

    def _set(self, holding: Holding, size: int) -> None:
        self.held += size - holding.held
        holding.held = size
        if holding.in_share > size:
            self._count(holding, size)
        if size:
            holding.share.holdings[holding] = None
        else:
            holding.share.holdings.pop(holding, None)

    def _serve(self, share: Share) -> None:
        """Give the first ones in line what they want, as long as there is room."""
        while (served := self._serve_one(share)) is not None:
            served.granted()

    def _serve_one(self, share: Share) -> Holding | None:
        for line in share.lines:
            for first in line:
                if self._take(first, first.wanted):
                    share.serve_known = line is not share.known
                    self._leave_line(first)
                    self._set(first, first.wanted)
                    return first
                break
        return None

    def _serve_all(self) -> None:
        for share in self.shares:
            if share.waiting:
                self._serve(share)

    def _tell(self) -> None:
        now = (self.is_short, self.needs_ticks)
        if now != self._was or self.is_over_ceiling:
            if not self._was[1]:
                self._tick += 1  # time passed that was not counted: patience begins anew
            self._was = now
            for listener in self.changed:
                listener()

    # Closing

    def tick(self) -> list[Eviction]:
        """Look for those that hold up others; call every `TICK_S` while `needs_ticks`."""
        self._tick += 1
        found: list[Eviction] = []
        overdrawn = self.held - self.limit
        for share in self.shares:
            missing = max(share.missing, overdrawn)
            if missing > 0:
                found += self._stalled(share, missing)
        self.evictions += len(found)
        return found

    def _stalled(self, share: Share, missing: int) -> list[Eviction]:
        stalled = [one for one in share.holdings if self._is_stalled(one)]
        stalled.sort(key=_held, reverse=True)
        found = []
        for holding in stalled:
            if missing <= 0:
                break
            missing -= holding.held
            moved = holding.moved - holding.marked
            found.append(
                Eviction(
                    holding,
                    f"it held {holding.held} bytes of {holding.kind.value} and moved {moved} "
                    f"bytes in {holding.quiet_ticks * TICK_S:g} s while memory was short "
                    f"({share.waiting} others waited for it)",
                )
            )
        return found

    def _is_stalled(self, holding: Holding) -> bool:
        if holding.kind is Kind.WORK or holding.is_waiting:
            return False  # the broker is at work, or has not given it what it needs
        is_new = holding.seen_tick != self._tick - 1
        holding.seen_tick = self._tick
        if is_new or holding.moved - holding.marked > holding.held // PROGRESS_SHARE:
            holding.marked, holding.quiet_ticks = holding.moved, 0
            return False
        holding.quiet_ticks += 1
        patience = BLOCKED_PATIENCE_TICKS if holding.is_blocked() else PATIENCE_TICKS
        return holding.quiet_ticks >= patience

    def evict_largest(self) -> list[Eviction]:
        """Choose the largest holdings until the rest is within the limit."""
        holdings = [one for share in self.shares for one in share.holdings]
        overdrawn = self.held - self.limit
        found = []
        for holding in sorted(holdings, key=_held, reverse=True):
            if overdrawn <= 0:
                break
            if holding.kind is not Kind.WORK:
                overdrawn -= holding.held
                found.append(
                    Eviction(
                        holding,
                        f"it held {holding.held} bytes of {holding.kind.value} when all "
                        f"connections together held {self.held}, too much",
                    )
                )
        self.evictions += len(found)
        return found


class MemoryAccount:
    """The holdings of one connection."""

    __slots__ = ("answer", "budget", "request", "work")

    def __init__(self, budget: MemoryBudget, holder: Holder) -> None:
        self.budget = budget
        self.request = Holding(holder, Kind.REQUEST, budget.small)
        self.answer = Holding(holder, Kind.ANSWER, budget.answers)
        self.work = Holding(holder, Kind.WORK, budget.answers)
        self.work.known_size = WITHOUT_LIMIT  # it is the broker that finishes it
        """Outlives the connection: what is being worked on takes memory until it is done."""

    def close(self) -> None:
        """Let go of all that goes with the connection."""
        self.budget.release(self.request)
        self.budget.release(self.answer)


def _held(holding: Holding) -> int:
    return holding.held


def _ignore() -> None:
    """Nobody waits."""
