"""Committing a group's offsets and fetching committed ones.

Commits take effect in the order in which they were asked for, whether anybody waits for them or
not. Those that nobody waits for are sent together while they wait: however often a program commits,
there is one request under way and one behind it.

A commit is made by the member that the consumer was when it was asked for, and a coordinator
refuses one of a generation that is over. If the generation only moved on meanwhile and the member
kept the partitions, it is sent again under the new one; else `CommitFailed` says that they are
somebody else's to commit now.

Knows no rebalance: it asks a `Member` who it is, and tells it what a refusal means.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Protocol

from moldau.base.shielding import shielded
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming.commit_order import CommitOrder, CommitTurn
from moldau.client.consuming.group_coordinator import GroupCoordinator
from moldau.client.consuming.steps import MemberIdentity, Partitions
from moldau.client.errors import (
    BrokerError,
    ClientClosed,
    CommitFailed,
    IllegalGeneration,
    RebalanceInProgress,
    RequestTimedOut,
    UnknownMember,
)
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.cluster import Cluster
from moldau.engine.offset_requests import (
    NEWEST_VERSION,
    Offsets,
    commit_error,
    commit_request,
    committed_offsets,
    fetch_request,
)
from moldau.engine.retry import retried
from moldau.engine.settings import IsolationLevel
from moldau.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

OnEnd = Callable[[Exception | None], Awaitable[None]]


class Member(Protocol):
    """What commits need to know of the membership they are made in."""

    @property
    def committer(self) -> MemberIdentity | None:
        """Who commits right now: NOBODY if partitions were assigned by hand, None if it may not."""
        ...

    @property
    def is_bereft(self) -> bool:
        """Whether the user may still hold records of partitions that are others' by now."""
        ...

    async def still_owns(
        self, partitions: Partitions, asked_as: MemberIdentity, deadline: float
    ) -> bool:
        """Wait for a generation under way; tell whether a later one kept these partitions."""
        ...

    def commit_refused(self, asked_as: MemberIdentity, code: ErrorCode) -> None:
        """Learn from a refusal what the group thinks of the member."""
        ...


class CommitOutcome(Awaitable[None]):
    """What becomes of a commit in the background; nobody need await it, anybody may.

    Who stops waiting stops nothing: others' commits may be in the same request.
    """

    __slots__ = ("_gathered",)

    def __init__(self, gathered: _Gathered) -> None:
        self._gathered = gathered

    def __await__(self) -> Generator[Any, None, None]:
        self._gathered.is_awaited = True
        return shielded(self._gathered.task).__await__()


class _Gathered:
    """Commits that nobody waits for, until their turn comes."""

    def __init__(self, place: CommitTurn, asked_as: MemberIdentity | None) -> None:
        self.place = place
        self.asked_as = asked_as
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.on_ends: list[OnEnd] = []
        self.is_awaited = False
        self.task: asyncio.Task[None]


class Commits:
    """The committed offsets of one group. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinator,
        group_id: str,
        settings: ConsumerSettings,
        member: Member,
        on_committed: Callable[[Offsets], None] | None = None,
    ) -> None:
        """`on_committed` is told of offsets that were committed, by whomever."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._group_id = group_id
        self._settings = settings
        self._member = member
        self._order = CommitOrder(cluster.ports.clock)
        self._gathered: _Gathered | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._on_committed = on_committed

    async def commit(self, offsets: Offsets, deadline: float) -> None:
        """Commit, and try again what may be tried again until the deadline.

        Cancelled, whether the offsets were committed is unknown.
        """
        asked_as = self._member.committer
        async with self._order.take().reached(deadline):
            await self._commit(offsets, asked_as, deadline)

    def commit_soon(self, offsets: Offsets, on_end: OnEnd | None) -> CommitOutcome:
        """Commit in the background, behind all that were asked for before; `on_end` hears how."""
        if self._is_closed:
            raise ClientClosed("the consumer has been closed")
        asked_as = self._member.committer
        gathered = self._gathered
        is_open = gathered is not None and gathered.place is self._order.last
        if gathered is None or not is_open or gathered.asked_as != asked_as:
            gathered = self._gathered = _Gathered(self._order.take(), asked_as)
            gathered.task = asyncio.get_running_loop().create_task(
                self._commit_gathered(gathered), name=f"commit of group {self._group_id}"
            )
            self._tasks.add(gathered.task)
            gathered.task.add_done_callback(partial(self._ended, gathered))
        gathered.offsets.update(offsets)
        if on_end is not None:
            gathered.on_ends.append(on_end)
        return CommitOutcome(gathered)

    async def _commit_gathered(self, gathered: _Gathered) -> None:
        error: Exception | None = None
        deadline = self._cluster.deadline(self._settings.default_api_timeout_ms)
        try:
            async with gathered.place.reached(deadline):
                if self._gathered is gathered:
                    self._gathered = None
                await self._commit(gathered.offsets, gathered.asked_as, deadline)
        except Exception as failed:  # noqa: BLE001 - whatever it is, it is passed on
            error = failed
        for on_end in gathered.on_ends:
            await on_end(error)
        if error is not None:
            raise error

    def _ended(self, gathered: _Gathered, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            is_heard = gathered.is_awaited or gathered.on_ends
            level = logging.DEBUG if is_heard else logging.WARNING
            logger.log(level, "a commit of group %s failed: %s", self._group_id, error)

    async def committed(
        self, partitions: Partitions, deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Ask for committed offsets, behind the commits on their way; those without are absent.

        Cancelled, nothing happened.
        """
        if not partitions:
            return {}
        if not await self._order.passed(deadline):
            raise RequestTimedOut("earlier commits are still in flight")
        is_stable = self._settings.isolation_level is IsolationLevel.READ_COMMITTED
        request = fetch_request(self._group_id, sorted(partitions), require_stable=is_stable)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            answer = await self._coordinator.ask(request, deadline, newest_version=NEWEST_VERSION)
            try:
                found = committed_offsets(answer)
            except BrokerError as refused:
                self._coordinator.heard(refused.code)
                raise
            return {each: kept for each, kept in found.items() if each in partitions}

        return await retried(self._cluster, attempt, deadline)

    async def flush(self) -> None:
        """Wait until everything in the background is over, and whoever wants to hear of it has."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Give up what is still under way."""
        self._is_closed = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Asking

    async def _commit(
        self, offsets: Offsets, asked_as: MemberIdentity | None, deadline: float
    ) -> None:
        if not offsets and not self._member.is_bereft:
            return
        while asked_as is not None:
            attempt = partial(self._commit_once, offsets, asked_as, deadline)
            try:
                await retried(self._cluster, attempt, deadline)
            except (RebalanceInProgress, IllegalGeneration, UnknownMember) as refused:
                if not await self._member.still_owns(frozenset(offsets), asked_as, deadline):
                    raise self._failure(asked_as, refused) from refused
                asked_as = self._member.committer
            else:
                if self._on_committed is not None:
                    self._on_committed(offsets)
                return
        raise CommitFailed(f"this consumer is no longer a member of group {self._group_id}")

    async def _commit_once(
        self, offsets: Offsets, asked_as: MemberIdentity, deadline: float
    ) -> None:
        instance_id = self._settings.group_instance_id if asked_as.member_id else None
        request = commit_request(
            self._group_id,
            offsets,
            member_id=asked_as.member_id,
            generation=asked_as.generation,
            instance_id=instance_id,
        )
        answer = await self._coordinator.ask(request, deadline, newest_version=NEWEST_VERSION)
        error = commit_error(answer, offsets)
        if error is not None:
            self._coordinator.heard(error.code)
            self._member.commit_refused(asked_as, error.code)
            raise error

    def _failure(self, asked_as: MemberIdentity, refused: BrokerError) -> CommitFailed:
        what = f"group {self._group_id} refused a commit ({refused.code.name})"
        if not asked_as.member_id:
            return CommitFailed(
                f"{what}: it has members, and this consumer is none of them",
                advice="Give a consumer whose partitions are assigned by hand a group of its own.",
            )
        return CommitFailed(f"{what}: it rebalanced, and the partitions belong to others now")
