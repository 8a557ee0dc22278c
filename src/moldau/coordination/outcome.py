"""What a handler of a coordinator returns, and what the runtime does with it.

A coordinator is a state machine on one partition of an internal topic. A handler is a method of
the machine (a `Shard`): it reads the state, decides, and returns an `Outcome`. It touches no log,
no socket and no clock. The runtime carries out the outcome, in this order:

1. `records` are appended to the partition as one batch. If the log refuses them, the rest of the
   outcome is dropped and `refused` makes another outcome. Without `refused`, the tickets in
   `replies` are answered with the log's error, translated by `refusals`.
2. `Shard.replay` takes each record into the state. A load makes the same calls. State that must
   survive a restart changes in `replay` and nowhere else: so the state is always equal to the log.
3. `timers` are set or cancelled.
4. Once the records are committed, `replies` are sent, `effects` are handed to the outside, and
   `then` makes the next outcome. An outcome without records waits too, for the records appended
   before it. Its replies were read from a state with those records, and a new leader may not have
   them. Only an outcome with `at_once` does not wait.

State that need not survive a restart (open tickets, session deadlines) may be changed by a handler
directly, before it returns.

If the handler of a request raises, only that request fails. Nothing was appended, so the state that
survives is unchanged. A handler that may have half changed other state repairs it and raises
HandlerFailed. InvariantViolated means that the state itself is broken: then the shard is loaded
again. The same happens if anything else raises (`replay`, a timer, an event, `then`, `refused`),
since no client can be refused in its place.

A reply belongs to a `Ticket`, which the runtime gave to the handler with the request. A handler
that cannot answer yet keeps the ticket and names it in a later outcome. When the coordinator moves
to another broker, the runtime answers every open ticket with an error. A second reply to a ticket,
or a reply to a client that has disconnected, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from moldau.base.errors import MoldauError
from moldau.protocol.errors import ErrorCode


class UnknownRecord(MoldauError):  # noqa: N818 - it names the thing
    """A record of a type, or in a version, that this release does not know.

    Raised by `Shard.replay`. A load skips it with a line in the log, as Kafka does: the record is
    left from a newer release, after a downgrade.
    """


class HandlerFailed(MoldauError):  # noqa: N818 - it names the event
    """A handler raised, and its shard has repaired the state that was half changed.

    The request or timer has failed; the shard still serves. `outcome` is what follows, such as
    errors for other requests that waited for the same thing.
    """

    def __init__(self, error: Exception, outcome: Outcome) -> None:
        super().__init__(str(error))
        self.error = error
        self.outcome = outcome


class Now(NamedTuple):
    """The time that a handler gets."""

    wall_ms: int
    """Milliseconds since 1970, for records."""
    monotonic: float
    """Seconds, for timeouts."""


class Caller(NamedTuple):
    """The client that sent a request, and the version of the API it used."""

    version: int
    client_id: str
    client_host: str
    """As Kafka writes it: with a slash before the address."""


class Ticket(Protocol):
    """One request that is to be answered. Opaque to handlers; hashable, compared by identity."""

    def __hash__(self) -> int: ...


class StateRecord(NamedTuple):
    """One record of an internal topic; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class ProducerIdentity(NamedTuple):
    """A producer in one epoch; as `Outcome.producer`, the transaction that records belong to."""

    producer_id: int
    producer_epoch: int


class Timer(NamedTuple):
    """Call `Shard.timer_fired` with this key in `after_s`; replaces a timer with the same key."""

    key: Hashable
    after_s: float


class TimerCancelled(NamedTuple):
    """Cancel the timer with this key, if there is one."""

    key: Hashable


class Reply(NamedTuple):
    """An answer: a response message for the client that waits for the ticket."""

    ticket: Ticket
    response: Any


class Outcome(NamedTuple):
    """The result of one request, timer or event."""

    records: Sequence[StateRecord] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[Timer | TimerCancelled] = ()
    effects: Sequence[object] = ()
    """Work for the outside, such as writing markers. Its result comes back as another call."""
    producer: ProducerIdentity | None = None
    """Write the records as part of this producer's transaction."""
    then: Callable[[Now], Outcome] | None = None
    """Called once the records are committed."""
    refused: Callable[[ErrorCode, Now], Outcome] | None = None
    """Called instead of everything else if the log refuses the records. The code is the log's own
    (MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, ...); `refusals` translates it for
    clients. Required if the handler changed state before the records were written: it must undo
    that change, or the state differs from the log."""
    at_once: bool = False
    """The replies do not depend on any record (a heartbeat), so they do not wait for a commit. Only
    for an outcome without records."""


NOTHING = Outcome()


Sealed: TypeAlias = tuple[bytes, bytes]
"""The result of a request on the fast path: success, and one record to append.

It takes the place of an outcome in `Host.write_at_once`: the part of a batch that its checksum
covers, and the value of the one record in it."""


class Shard(Protocol):
    """The state machine of one partition of an internal topic."""

    def replay(self, record: StateRecord, producer: ProducerIdentity | None) -> None:
        """Take one record into the state. The record was just appended, or is read during a load.

        With a producer, the record counts only when its transaction commits. Raises UnknownRecord
        for a record of a newer release and ProtocolError for damaged bytes. The state is unchanged
        then, and a load skips the record. Any other exception is a bug. So is every exception for
        a record that this shard has just written: the runtime loads the shard again.
        """
        ...

    def transaction_ended(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Take a transaction marker of this partition into the state."""
        ...

    def loaded(self, now: Now) -> Outcome:
        """Begin to serve, now that the whole log is replayed.

        The outcome must restart all work that an earlier leader left unfinished.
        """
        ...

    def timer_fired(self, key: Hashable, now: Now) -> Outcome:
        """Do the work that a timer was set for."""
        ...

    def resigned(self) -> None:
        """Stop serving: the partition has another leader, is deleted, or this shard has failed.

        Nothing the shard does from now on has an effect.
        """
        ...
