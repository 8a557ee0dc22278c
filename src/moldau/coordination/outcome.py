"""What a coordinator's handler returns, and what the runtime makes of it.

A coordinator is a state machine on one partition of an internal topic. A handler is a method of
the machine (a `Shard`): it reads the state, decides, and returns an `Outcome` without touching a
log, a socket or a clock. The runtime carries the outcome out, in this order:

1. `records` are appended to the partition as one batch. If the log refuses them, nothing of the
   outcome happens; `refused` says what does instead, and without it those named in `replies` are
   told that the coordinator is not available.
2. Each record is replayed into the machine by `Shard.replay`, the same call that loads it after a
   restart. State that must survive changes there and nowhere else.
3. `timers` are set or cancelled.
4. Once the records are committed, `replies` go out, `effects` are handed to the outside, and
   `then` is asked what comes next. An outcome without records waits too, for those that were
   appended before it: what it tells was read from a state that has them in it, and a state that
   another leader may never have had must not be told. `at_once` says that nothing of it is told.

State that need not survive (who waits for an answer, when a member was last heard of) may be
changed by a handler directly, before it returns.

A handler that raises fails its own request and no other. Nothing was appended, so what survives is
as it was. A handler that may have half changed something else repairs it and raises HandlerFailed.
InvariantViolated says that the state itself is wrong: then the shard is loaded anew. So it is when
anything else raises: `replay`, a timer, an event, `then`, `refused`. They cannot be refused.

A reply belongs to a `Ticket`, which the runtime gave to the handler with the request. A handler
that cannot answer yet keeps the ticket and names it in a later outcome. When the coordinator
moves away every open ticket is answered with an error by the runtime. A reply to a ticket that is
answered already, or whose client has left, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from moldau.base.errors import MoldauError
from moldau.protocol.errors import ErrorCode


class UnknownRecord(MoldauError):  # noqa: N818 - it names the thing
    """A record of a type, or in a version, that this release does not know.

    Raised by `Shard.replay`. Loading passes over it with a line in the log, as Kafka does: it is
    left from a newer release that was tried and given up.
    """


class HandlerFailed(MoldauError):  # noqa: N818 - it names the event
    """A handler raised, and its shard has repaired all that the handler may have half changed.

    The request or timer has failed, the shard serves on. `outcome` says what follows, such as
    answers to others who waited for the same thing.
    """

    def __init__(self, error: Exception, outcome: Outcome) -> None:
        super().__init__(str(error))
        self.error = error
        self.outcome = outcome


class Now(NamedTuple):
    """The time, as a handler is told it."""

    wall_ms: int
    """Milliseconds since 1970: what records carry."""
    monotonic: float
    """Seconds; what time-outs are counted with."""


class Caller(NamedTuple):
    """Who asks, and in which version of the API."""

    version: int
    client_id: str
    client_host: str
    """As Kafka writes it: with a slash before the address."""


class Ticket(Protocol):
    """A place for one answer. Opaque to handlers; hashable, compared by identity."""

    def __hash__(self) -> int: ...


class StateRecord(NamedTuple):
    """One record of an internal topic; no value is a tombstone."""

    key: bytes
    value: bytes | None


class ProducerIdentity(NamedTuple):
    """The transaction in which records are written, where they are."""

    producer_id: int
    producer_epoch: int


class Timer(NamedTuple):
    """Call `Shard.timer_fired` with this key in so many seconds; replaces one of the same key."""

    key: Hashable
    after_s: float


class TimerCancelled(NamedTuple):
    """Forget the timer of this key; harmless if there is none."""

    key: Hashable


class Reply(NamedTuple):
    """An answer: a response message, for whoever holds the other end of the ticket."""

    ticket: Ticket
    response: Any


class Outcome(NamedTuple):
    """What follows from one request, timer or event."""

    records: Sequence[StateRecord] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[Timer | TimerCancelled] = ()
    effects: Sequence[object] = ()
    """What the outside shall do (send markers, for one); it reports by a further call."""
    producer: ProducerIdentity | None = None
    """Write the records as part of this producer's transaction."""
    then: Callable[[Now], Outcome] | None = None
    """Asked once the records are committed."""
    refused: Callable[[ErrorCode, Now], Outcome] | None = None
    """Asked instead of everything else when the records could not be written. The code is the
    log's own (MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, ...); `refusals` says
    what it means to a client. Required where the state changed before the records were written."""
    at_once: bool = False
    """The replies tell nothing that a record decides (a heartbeat): they wait for no commit. Only
    for an outcome without records."""


NOTHING = Outcome()


Sealed: TypeAlias = tuple[bytes, bytes]
"""What follows from a request that comes again and again: success, and one record to append.

The short form of an outcome, for `Host.write_at_once`: a batch with the time of now, as what its
checksum covers, and the value of the one record in it."""


class Shard(Protocol):
    """The state machine of one partition of an internal topic."""

    def replay(self, record: StateRecord, producer: ProducerIdentity | None) -> None:
        """Take one record into the state, just written or read back while loading.

        With a producer the record counts only when its transaction commits. UnknownRecord if this
        release cannot know what it says, ProtocolError if its bytes are damaged; the state is as
        before then, and loading skips the record. Anything else is a bug. So is any error at a
        record that this shard has just written: the runtime loads the shard anew.
        """
        ...

    def transaction_ended(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Take a transaction marker that stands in the partition."""
        ...

    def loaded(self, now: Now) -> Outcome:
        """Begin to serve: everything in the log has been replayed."""
        ...

    def timer_fired(self, key: Hashable, now: Now) -> Outcome:
        """Go on with what a timer was set for."""
        ...

    def resigned(self) -> None:
        """Stop serving: the partition has another leader, or is gone. No outcome is heard."""
        ...
