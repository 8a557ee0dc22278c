"""What the consumer and its group ask of each other.

A consumer without a group fetches by itself. One with a group has a `Coordination` beside it,
which joins, heartbeats, commits, and decides which partitions are assigned. The two meet here and
nowhere else, so either can be tested without the other. All of it happens on one event loop.

Who holds what, and when an assignment may change:

- The user *holds* records from the moment they are handed out until the user asks for more.
- A rebalance takes partitions away only while the user holds nothing of them, so that no record is
  worked on here and handed out elsewhere. `Host.turn` is the gate: it opens once the user holds
  nothing, and while it is taken no record is handed out. A user who never asks again is dealt with
  by `max.poll.interval.ms`: the group then takes the partitions without a turn (`lost`).
- Heartbeats, commits and joining itself never wait for the user.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from moldau.base.tuples import NamedTuple
from moldau.client.consuming.positions import Positions
from moldau.client.errors import ClientFailed
from moldau.client.records import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, Exception | None], Any]


class Subscription(NamedTuple):
    """The subscription of a consumer: topics by name, or by a pattern."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    """Matches whole names, also of topics created later."""
    listener: Any = None
    """Called when partitions are assigned, revoked or lost (`listeners.RebalanceListener`)."""


class GroupMetadata(NamedTuple):
    """The identity of a member, for transactions that commit its offsets (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Host(Protocol):
    """What a consumer offers its group."""

    @property
    def positions(self) -> Positions:
        """The assignment. `positions.assign(partitions)` replaces it; what stays keeps its place.

        Partitions without a position are looked up by the consumer: `Coordination.committed`, then
        `auto.offset.reset`. A listener may have called `seek` before that.
        """
        ...

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait until the user holds no records; hand none out until the turn is over.

        Revoking, assigning and the listener's calls stand inside. Cancelling the wait gives the
        turn up.
        """
        ...

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What automatic commits may commit: offsets behind records the user is done with.

        A record is done with once the next is asked for; those of a `poll`, at the next `poll`.
        """
        ...

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit()` without offsets commits: behind every record handed out."""
        ...

    async def call_user(self, work: Callable[[], Awaitable[object] | object]) -> None:
        """Run a user's callback where the user's code runs; what it raises is raised here.

        With the asynchronous face that is this loop (an awaitable result is awaited). With the
        blocking face it is the thread of the user's next call, so that the callback may itself
        call the consumer; until that call comes, this waits.
        """
        ...

    def assignment_changed(self) -> None:
        """Note that `positions` were assigned anew: look up, fetch, forget accordingly."""
        ...

    def fail(self, error: Exception) -> None:
        """Raise an error at the user's next call for records, before any record. Once."""
        ...

    def crashed(self, error: ClientFailed) -> None:
        """Raise an error at every call from now on: a part of the group has ended."""
        ...


class Coordination(Protocol):
    """What a group does for its consumer."""

    async def start(self) -> None:
        """Begin in the background; wait for nothing that needs a broker."""
        ...

    async def close(self, deadline: float, *, leave: bool = True) -> None:
        """Commit what automatic commits cover, leave the group, end every task of its own.

        The user has stopped: no turn is needed. Past the deadline, nothing is waited for.
        """
        ...

    def subscribe(self, subscription: Subscription) -> None:
        """Want these topics from now on; joins, or rejoins if a member already.

        Having metadata of them watched (`Cluster.watch_topics`) is the group's.
        """
        ...

    async def unsubscribe(self) -> None:
        """Want nothing, leave the group and let its partitions go."""
        ...

    def given_up(self, offsets: Offsets) -> None:
        """Note that partitions assigned by hand are given up; commits by itself up to there."""
        ...

    def asked(self) -> None:
        """Note that the user asks for records: `max.poll.interval.ms` stands still from here."""
        ...

    def answered(self) -> None:
        """Note that the user has an answer, or gave up asking: the interval counts from here."""
        ...

    async def commit(self, offsets: Offsets, deadline: float) -> None:
        """Commit, trying again what may be tried again; CommitFailed if the generation is over."""
        ...

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None) -> Awaitable[None]:
        """Commit without waiting, behind earlier ones; the outcome goes to whoever awaits it.

        The callback is called through `Host.call_user`. Nobody need await the result.
        """
        ...

    async def committed(
        self, partitions: frozenset[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Ask the group's coordinator for committed offsets; partitions without one are absent."""
        ...

    def metadata(self) -> GroupMetadata:
        """Who this member is right now."""
        ...

    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin the group although nothing changed that we know of."""
        ...
