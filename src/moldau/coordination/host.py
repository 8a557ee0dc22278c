"""The host of one shard: carries out its outcomes, keeps its timers and its open requests.

Everything happens on the event loop's thread, and an outcome is carried out without an await. So
handlers run one after the other, each on the state that the one before left.

With one replica a record is committed as soon as it is appended, and a request is answered in the
turn in which it came. With more replicas, outcomes wait at their partition for the high watermark,
as produce requests with acks=all do, in the order of their offsets.

The state is ahead of the commit: a handler sees records that are appended but not committed. If
this broker loses the partition, those records may be truncated. Therefore every reply waits until
all records are committed that the state had when the reply was made. When the partition is lost,
the host drops state, timers and pending outcomes together; the next leader loads the log.

If the handler of a request raises, only that request fails, with INVALID_REQUEST. Nothing of it was
appended. No client input may end a shard. If an invariant of the state is broken, or if something
other than a request's handler raises (`outcome` lists these), the state may be half changed. Then
all open requests fail with COORDINATOR_NOT_AVAILABLE, and the runtime loads a new shard from the
log. Only `begin` raises.

`write_at_once` is the fast path for frequent requests that write one record, where the record is
committed as soon as it is appended. Requests that must wait, are refused or need more go to `call`.
A host that has ended refuses every request on the fast path, so callers may keep a host.

The host does not know what its shard coordinates, nor who sends requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from moldau.base.checks import crash_point, invariant
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
"""Exceptions that mean that the state is broken. They end the shard also if a request met them."""

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
    """Called when the shard of this log has failed and its host has ended."""
    bugs: BugLog
    """Counts and logs requests whose handlers raised."""


class _Held(NamedTuple):
    """An outcome that waits until everything below `end_offset` is committed."""

    end_offset: int
    outcome: Outcome
    waits: list[CommitWait]
    """One for the commit, and one with a timeout if the outcome has replies."""


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
        """The error that clients get now; NONE while the shard serves."""
        self._settings = settings
        self._clock = settings.clock
        self._seals_itself = settings.codec is Codec.NONE
        """Whether a batch that the shard has sealed may be appended unchanged: no compression."""
        self._loop = asyncio.get_running_loop()
        self._end_offset = log.log_end_offset
        """The end of the last record in the state. The state may be told to clients once everything
        below is committed."""
        self._busy = False
        """Whether an outcome is being carried out."""
        self._ended = False
        self._held: deque[_Held] = deque()
        """Pending outcomes, in the order of their offsets."""
        self._tickets: dict[Ticket, None] = {}
        """Requests without an answer. `end` fails them."""
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._waiting_to_load: list[Callable[[S, Now], Outcome]] = []
        """Events that came during the load."""

    def __str__(self) -> str:
        return f"{self._settings.topic}-{self.log.index}"

    # Beginning and ending

    def begin(self) -> None:
        """Serve, now that the whole log is replayed. Raises an exception of the shard.

        `loaded` comes first: it sets the timers and restarts the unfinished work that events rely
        on. The events that came during the load follow.
        """
        # A host that has ended must never serve again: another broker may lead the partition, or
        # another host may have its shard.
        invariant(
            self.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"{self} begins to serve twice, or after its end",
        )
        self.refusal = _NO_ERROR
        self._end_offset = self.log.log_end_offset
        self._carry_out(self.shard.loaded(self._now()))
        waiting, self._waiting_to_load = self._waiting_to_load, []
        for handler in waiting:
            self.tell(handler)

    def end(self, code: ErrorCode) -> None:
        """Stop serving for good; fail open and later requests with this error.

        Records that are appended but not committed may still be committed by the next leader. So
        their effects are not carried out here: the next leader repeats them after its load.
        """
        if self._ended:
            return
        # Both are set before anything is called back: a callback that comes in again is refused.
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
        """Call the handler of a request; return the response, or a future of it."""
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
        """Write the one record of a frequent request; return True once it is committed.

        The fast path: no ticket, no outcome, no wait. `now_s` is monotonic time, which the caller
        has read already. `decide` gets the time as two numbers, in the order of `Now`. `replay`
        takes the value of the record into the state after the append, as `Shard.replay` would.
        Returns False, with nothing appended, if the request needs `call`.
        """
        # With outcomes pending, this record could be answered before an earlier one is committed.
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
            # No crash points here: those of the log surround the append.
            end_offset = self.log.append_committed(checked, wall_ms)
            if end_offset is None:
                return False
            self._end_offset = end_offset
            replay(self.shard, asked, value)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
            # The record may be in the log but not in the state: only a load makes them equal.
            self._fail(error)
            return False
        else:
            return True
        finally:
            self._busy = False

    def read_at_once(self, decide: Callable[[S, A], R | None], asked: A) -> R | None:
        """Answer a request that only reads, if everything in the state is committed.

        No ticket and no outcome, as with `write_at_once`. Returns None if the request needs `call`.
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
        """Call the handler of an event that needs no answer; during a load the event is kept."""
        if self.refusal is _NO_ERROR:
            try:
                self._carry_out(handler(self.shard, self._now()))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is dealt with
                self._fail(error)
        elif self.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._waiting_to_load.append(handler)

    def transaction_ended(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Pass on a marker that was just appended. A shard that loads reads it from the log."""
        if self.refusal is _NO_ERROR:
            # The marker changes the state, so replies wait until it is committed as well.
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
        """Fail one request whose handler raised; return the outcome that follows.

        Clients do not retry this error: the same request would raise again.
        """
        if isinstance(error, _BROKEN):
            self._fail(error)
            return NOTHING
        self._note(error)
        self._tickets.pop(ticket, None)
        ticket.fail(ErrorCode.INVALID_REQUEST)
        return error.outcome if isinstance(error, HandlerFailed) else NOTHING

    def _leave_to_call(self, error: Exception) -> None:
        """Note the exception of a fast path; the caller then uses `call`, which answers it."""
        if isinstance(error, _BROKEN):
            self._fail(error)
        else:
            self._note(error)

    def _note(self, error: Exception) -> None:
        self._settings.bugs.note(self, error.error if isinstance(error, HandlerFailed) else error)

    def _fail(self, error: Exception) -> None:
        """End this shard, because its state may differ from its log; have a new one loaded."""
        logger.error("%s has a bug and is thrown away", self, exc_info=error)
        if not self._ended:
            # The end comes first: the new shard must not be loaded while this one can append.
            self.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._settings.failed(self.log)

    # Outcomes

    def _carry_out(self, outcome: Outcome) -> None:
        """Carry out an outcome and those that follow from it, then the pending ones."""
        self._follow(outcome)
        # The high watermark may have moved during the outcome, when `_moved` could do nothing.
        if self._held:
            self._moved()

    def _follow(self, outcome: Outcome) -> None:
        """Carry out an outcome and those that follow from it without a wait."""
        # An outcome inside of another one would be decided on a state without the records that the
        # outer one is about to replay. `perform` causes this if it calls the runtime directly.
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
        """Carry out one outcome as far as possible now; return the one that follows, if any.

        The order is a promise to shards (`outcome`): append, replay, timers, commit, replies,
        effects, `then`. A reply before the commit could tell a client about a record that a new
        leader does not have. A replay before the append would change the state for a record that
        the log may refuse.
        """
        if outcome.records:
            invariant(not outcome.at_once, f"{self}: a reply that does not wait for its records")
            try:
                header, batch = self._sealed(outcome)
            except Exception as error:  # noqa: BLE001 - nothing is appended yet, so refuse it
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
        """Append a batch and replay it into the state; return the error if the log refuses it."""
        crash_point("coordinator.before_append")
        try:
            self.log.append(batch, header)
        except ApiError as error:
            return error.code
        crash_point("coordinator.after_append")
        end_offset = self.log.log_end_offset
        # If the end did not move, replies would not wait for the commit of this batch.
        invariant(end_offset > self._end_offset, f"{self}: an append ends at {end_offset}")
        self._end_offset = end_offset
        replay()
        crash_point("coordinator.after_replay")
        return _NO_ERROR

    def _replay(self, outcome: Outcome) -> None:
        """Replay records that were just appended into the state."""
        replay, producer = self.shard.replay, outcome.producer
        for record in outcome.records:
            replay(record, producer)

    def _refused(self, outcome: Outcome, code: ErrorCode) -> Outcome | None:
        """Return the outcome that replaces one whose records the log has refused.

        None if this host has ended meanwhile: a failed disk ends it, and `end` answers everybody.
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
        """Send the replies and effects of a committed outcome; return the outcome of `then`."""
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
        """Let an outcome wait at its partition until its records are committed.

        The outcome waits as long as this broker leads, without a timeout: its records are in the
        state, so its effects and `then` must follow the commit. Only its replies time out, because
        clients wait for them.
        """
        end_offset = self._end_offset
        waits = [self.log.delay(end_offset, self._committed)]
        if outcome.replies:
            timeout_s = self._settings.commit_timeout_s
            waits.append(self.log.delay(end_offset, partial(self._replied, outcome), timeout_s))
        self._held.append(_Held(end_offset, outcome, waits))

    def _committed(self, code: ErrorCode) -> None:
        # After an error this broker no longer leads, and `end` is about to drop pending outcomes.
        if code is _NO_ERROR:
            self._moved()

    def _moved(self) -> None:
        """Finish the pending outcomes that are committed, in order.

        While another outcome is carried out, this does nothing: `_carry_out` calls it afterwards.
        """
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
        """Fail replies whose commit took too long. Their records may still be committed later."""
        if code is not _NO_ERROR:
            for ticket, _ in outcome.replies:
                self._tickets.pop(ticket, None)
                _open(ticket).fail(coordinator_error(code))


def _open(ticket: Ticket) -> OpenTicket:
    assert isinstance(ticket, OpenTicket)
    return ticket
