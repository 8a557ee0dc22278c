"""One shard at work: its outcomes carried out on its partition, its timers, those who wait for it.

Everything happens on the event loop's thread, and an outcome is carried out without an await, so
handlers see one state after the other as if they ran alone. With one replica a record is committed
as soon as it is appended, and a request is answered in the turn in which it came. With more,
outcomes wait at their partition, as producers with acks=all do, in the order of their offsets.

The state goes ahead of what is committed: the next handler sees records that are still under way.
What it answers therefore waits for them (`Outcome`). If this broker loses the partition, state,
timers and all that waits are thrown away together; the next leader loads what the log has.

A request whose handler raises fails alone: it is answered with INVALID_REQUEST, nothing of it was
appended, and all others are served on. A client must not be able to end a shard with a number.
It is another matter when an invariant of the state is broken, or when something raises that is no
request's decision (`outcome` names them): the state may be half changed. Then everybody who waits
is told that the coordinator is not available, and the runtime loads the shard anew, so that its
state is what the log says. Only `begin` raises.

`write_at_once` is the fast path of requests that come all day, come to one record and are committed
as soon as that is appended. It leaves to `call` whatever waits, is refused, or needs more. A host
that has ended leaves it everything, so whoever comes often may keep the host it was given.

The host does not know what its shard coordinates, nor who asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from moldau.base.checks import crash_point
from moldau.base.clock import Clock
from moldau.base.errors import InvariantViolated
from moldau.coordination.answers import Answer, Failed, OpenTicket
from moldau.coordination.bugs import BugLog
from moldau.coordination.internal_log import CommitWait, InternalLog
from moldau.coordination.outcome import (
    NOTHING,
    HandlerFailed,
    Now,
    Outcome,
    ProducerIdentity,
    Sealed,
    Shard,
    Ticket,
    Timer,
    TimerCancelled,
)
from moldau.coordination.refusals import coordinator_error
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec

logger = logging.getLogger(__name__)

_NO_ERROR: Final = ErrorCode.NONE
"""As a global: Python 3.11 looks a member of an enum up by a call."""
_NEW: Final = tuple.__new__
"""Makes a named tuple in half of the time that its own constructor takes."""

_BROKEN: Final = (InvariantViolated, AssertionError)
"""What says that the state itself is wrong, whoever comes upon it."""

A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S", bound=Shard)


class HostSettings(NamedTuple):
    """What the hosts of one internal topic have in common."""

    topic: str
    clock: Clock
    perform: Callable[[object], None]
    """Carries out an effect. It must not call the runtime before it has returned."""
    codec: Codec
    commit_timeout_s: float
    failed: Callable[[InternalLog], None]
    """Hears that the shard of this log had a bug and has ended."""
    bugs: BugLog
    """Notes requests that raised."""


class _Held(NamedTuple):
    """An outcome that waits for its records, or for those before it, to be committed."""

    end_offset: int
    outcome: Outcome
    waits: list[CommitWait]
    """For the commit, and for the time up to which its replies may wait."""


class Host(Generic[S]):
    """Runs one shard, from the moment this broker leads its partition until it no longer does."""

    __slots__ = (
        "_busy",
        "_clock",
        "_end_offset",
        "_ended",
        "_held",
        "_loop",
        "_seals_itself",
        "_settings",
        "_tickets",
        "_timers",
        "_waiting_to_load",
        "log",
        "refusal",
        "shard",
    )

    def __init__(self, log: InternalLog, shard: S, settings: HostSettings) -> None:
        self.log = log
        self.shard = shard
        self.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """What a client is told instead of being served; NONE while it is served."""
        self._settings = settings
        self._clock = settings.clock
        self._seals_itself = settings.codec is Codec.NONE
        """Whether a batch that a shard has sealed may be appended as it is."""
        self._loop = asyncio.get_running_loop()
        self._end_offset = log.log_end_offset
        """Behind the last record that the state has in it."""
        self._busy = False
        self._ended = False
        self._held: deque[_Held] = deque()
        self._tickets: dict[Ticket, None] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._waiting_to_load: list[Callable[[S, Now], Outcome]] = []

    def __str__(self) -> str:
        return f"{self._settings.topic}-{self.log.index}"

    # Beginning and ending

    def begin(self) -> None:
        """Serve: everything in the log has been replayed. Raises what the shard raises."""
        self.refusal = _NO_ERROR
        self._end_offset = self.log.log_end_offset
        self._carry_out(self.shard.loaded(self._now()))
        waiting, self._waiting_to_load = self._waiting_to_load, []
        for handler in waiting:
            self.tell(handler)

    def end(self, code: ErrorCode) -> None:
        """Stop serving for good; whoever waits, and whoever asks from now on, is told this."""
        if self._ended:
            return
        self._ended = True
        self.refusal = code
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for held in self._held:
            for wait in held.waits:
                wait.cancel()
        self._held.clear()
        self._waiting_to_load.clear()
        tickets, self._tickets = self._tickets, {}
        for ticket in tickets:
            _open(ticket).fail(code)
        self.shard.resigned()

    # Events

    def call(self, handler: Callable[[S, Ticket, Now], Outcome], failed: Failed[R]) -> Answer[R]:
        """Let a handler decide on a request and answer it, now or later."""
        if self.refusal is not _NO_ERROR:
            return failed(self.refusal)
        ticket = OpenTicket(failed)
        self._tickets[ticket] = None
        try:
            outcome = handler(self.shard, ticket, self._now())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
            outcome = self._refuse_request(ticket, error)
        try:
            self._carry_out(outcome)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
            self._fail(error)
        answer: Any = ticket.taken()
        return answer  # type: ignore[no-any-return]  # a ticket is answered by who knows its type

    def write_at_once(
        self,
        decide: Callable[[S, A, int, float], Sealed | None],
        replay: Callable[[S, A, bytes], None],
        asked: A,
        now_s: float,
    ) -> bool:
        """Let a handler decide on a request that comes to one record; tell whether it is committed.

        The fast path of requests that come all day: no ticket, no outcome, nothing that waits.
        `now_s` is monotonic: who times its requests has just looked at that clock. `decide` is told
        the time as two numbers, in the order of `Now`. `replay` takes the value of the record into
        the state once it is appended, as `Shard.replay` would. False, with nothing appended, if
        that is not enough: `call` finds out what there is to say.
        """
        if self.refusal is not _NO_ERROR or self._held or self._busy or not self._seals_itself:
            return False
        self._busy = True
        try:
            wall_ms = self._clock.wall_ms()
            try:
                sealed = decide(self.shard, asked, wall_ms, now_s)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
                self._leave_to_call(error)
                return False
            if sealed is None:
                return False
            checked, value = sealed
            # The log's own crash points stand around the one step that lasts.
            end_offset = self.log.append_committed(checked, wall_ms)
            if end_offset is None:
                return False
            self._end_offset = end_offset
            replay(self.shard, asked, value)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
            self._fail(error)
            return False
        else:
            return True
        finally:
            self._busy = False

    def read_at_once(self, decide: Callable[[S, A], R | None], asked: A) -> R | None:
        """Let a handler answer what needs no more than a look at a state that is committed.

        No ticket, no outcome, as with `write_at_once`; None if that is not enough.
        """
        if (
            self.refusal is not _NO_ERROR
            or self._busy
            or self.log.committed_offset < self._end_offset
        ):
            return None
        try:
            return decide(self.shard, asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
            self._leave_to_call(error)
            return None

    def tell(self, handler: Callable[[S, Now], Outcome]) -> None:
        """Let a handler decide on an event that nobody waits for; kept while loading."""
        if self.refusal is _NO_ERROR:
            try:
                self._carry_out(handler(self.shard, self._now()))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
                self._fail(error)
        elif self.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._waiting_to_load.append(handler)

    def transaction_ended(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Take a marker that was just appended; while loading it will be read from the log."""
        if self.refusal is _NO_ERROR:
            self._end_offset = self.log.log_end_offset
            try:
                self.shard.transaction_ended(producer, committed=committed)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
                self._fail(error)

    def _fire(self, key: Hashable) -> None:
        del self._timers[key]
        try:
            try:
                outcome = self.shard.timer_fired(key, self._now())
            except HandlerFailed as failed:
                self._note(failed)
                outcome = failed.outcome
            self._carry_out(outcome)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
            self._fail(error)

    def _now(self) -> Now:
        clock = self._clock
        return _NEW(Now, (clock.wall_ms(), clock.monotonic()))

    def _refuse_request(self, ticket: OpenTicket, error: Exception) -> Outcome:
        """Fail one request whose handler raised; return what follows from that.

        The code is one that no client retries: the same request would raise again.
        """
        if isinstance(error, _BROKEN):
            self._fail(error)
            return NOTHING
        self._note(error)
        self._tickets.pop(ticket, None)
        ticket.fail(ErrorCode.INVALID_REQUEST)
        return error.outcome if isinstance(error, HandlerFailed) else NOTHING

    def _leave_to_call(self, error: Exception) -> None:
        """Leave a request whose fast path raised to `call`, which answers it."""
        if isinstance(error, _BROKEN):
            self._fail(error)
        else:
            self._note(error)

    def _note(self, error: Exception) -> None:
        self._settings.bugs.note(self, error.error if isinstance(error, HandlerFailed) else error)

    def _fail(self, error: Exception) -> None:
        """Stop serving rather than go on with a state that nobody knows."""
        logger.error("%s has a bug and is thrown away", self, exc_info=error)
        if not self._ended:
            self.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._settings.failed(self.log)

    # Outcomes

    def _carry_out(self, outcome: Outcome) -> None:
        """Do what an outcome asks for, and what follows from that."""
        self._follow(outcome)
        if self._held:
            self._moved()

    def _follow(self, outcome: Outcome) -> None:
        """Carry out an outcome and those that follow from it at once."""
        if self._busy:
            raise InvariantViolated(f"{self}: an outcome in the middle of another")
        self._busy = True
        try:
            following: Outcome | None = outcome
            while following is not None and self.refusal is _NO_ERROR:
                following = self._step(following)
        finally:
            self._busy = False

    def _step(self, outcome: Outcome) -> Outcome | None:
        """Carry out one outcome as far as it goes now; return what follows at once."""
        if outcome.records:
            try:
                header, batch = self._sealed(outcome)
            except Exception as error:  # noqa: BLE001 - nothing is appended yet: it is refused
                self._note(error)
                return self._refused(outcome, ErrorCode.INVALID_REQUEST)
            refusal = self._write(header, batch, lambda: self._replay(outcome))
            if refusal is not _NO_ERROR:
                return self._refused(outcome, refusal)
        for timer in outcome.timers:
            self._set(timer)
        if outcome.at_once or self.log.committed_offset >= self._end_offset:
            return self._finish(outcome)
        self._hold(outcome)
        return None

    def _sealed(self, outcome: Outcome) -> tuple[BatchHeader, bytes]:
        """Make the batch of an outcome's records."""
        producer = outcome.producer
        if producer is None:
            builder = BatchBuilder(self._settings.codec)
        else:
            builder = BatchBuilder(
                self._settings.codec,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional=True,
            )
        now_ms = self._clock.wall_ms()
        for key, value in outcome.records:
            builder.append(now_ms, key, value)
        return builder.seal()

    def _write(self, header: BatchHeader, batch: bytes, replay: Callable[[], None]) -> ErrorCode:
        """Append a batch and take it into the state, or say why the log has refused it."""
        crash_point("coordinator.before_append")
        try:
            self.log.append(batch, header)
        except ApiError as error:
            return error.code
        crash_point("coordinator.after_append")
        self._end_offset = self.log.log_end_offset
        replay()
        crash_point("coordinator.after_replay")
        return _NO_ERROR

    def _replay(self, outcome: Outcome) -> None:
        """Take records that were just appended into the state."""
        replay, producer = self.shard.replay, outcome.producer
        for record in outcome.records:
            replay(record, producer)

    def _refused(self, outcome: Outcome, code: ErrorCode) -> Outcome | None:
        """Find out what happens instead of an outcome that the log has refused.

        A disk that failed may have ended this shard by the way: then everybody has been told.
        """
        if self._ended:
            return None
        logger.warning("%s refuses %d record(s): %s", self, len(outcome.records), code.name)
        if outcome.refused is not None:
            return outcome.refused(code, self._now())
        for ticket, _ in outcome.replies:
            self._tickets.pop(ticket, None)
            _open(ticket).fail(coordinator_error(code))
        return None

    def _finish(self, outcome: Outcome) -> Outcome | None:
        """Tell everybody of what is committed; return what follows from it."""
        for ticket, response in outcome.replies:
            self._tickets.pop(ticket, None)
            _open(ticket).answer(response)
        crash_point("coordinator.after_reply")
        for effect in outcome.effects:
            self._settings.perform(effect)
        return None if outcome.then is None else outcome.then(self._now())

    def _set(self, timer: Timer | TimerCancelled) -> None:
        old = self._timers.pop(timer.key, None)
        if old is not None:
            old.cancel()
        if isinstance(timer, Timer):
            self._timers[timer.key] = self._loop.call_later(timer.after_s, self._fire, timer.key)

    # Waiting for the commit

    def _hold(self, outcome: Outcome) -> None:
        """Let an outcome wait at its partition.

        It waits as long as this broker leads: its records are in the state already, so that its
        effects must follow once they are committed. Its replies are waited for by clients, and
        those wait only so long.
        """
        end_offset = self._end_offset
        waits = [self.log.delay(end_offset, self._committed)]
        if outcome.replies:
            timeout_s = self._settings.commit_timeout_s
            waits.append(self.log.delay(end_offset, partial(self._replied, outcome), timeout_s))
        self._held.append(_Held(end_offset, outcome, waits))

    def _committed(self, code: ErrorCode) -> None:
        # With an error another broker leads, and this host is about to be ended with all it holds.
        if code is _NO_ERROR:
            self._moved()

    def _moved(self) -> None:
        """Finish what is committed now, in order; an outcome under way is not broken into."""
        while (
            not self._busy and self._held and self._held[0].end_offset <= self.log.committed_offset
        ):
            try:
                following = self._finish(self._held.popleft().outcome)
                if following is not None:
                    self._follow(following)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
                self._fail(error)

    def _replied(self, outcome: Outcome, code: ErrorCode) -> None:
        """Tell those who wait no longer for a commit why; their records may be committed yet."""
        if code is not _NO_ERROR:
            for ticket, _ in outcome.replies:
                self._tickets.pop(ticket, None)
                _open(ticket).fail(coordinator_error(code))


def _open(ticket: Ticket) -> OpenTicket:
    assert isinstance(ticket, OpenTicket)
    return ticket
