"""One broker's time as the controller: what it knows of the tree, and its commits.

A commit becomes multis that fit the limit of ZooKeeper, each with the check of the controller
epoch. The tree is a legal state between two of them (`nodes.commit_writes`). Whatever goes wrong in
a way that leaves the tree in doubt ends the tenure: the next controller, which may be this broker
again, reads what is true.

It must not know who is told of the history, nor what others write into the tree: `tree_following`
takes that over, in turns with commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from moldau.base.shielding import shielded
from moldau.cluster.changes import Change, ProducerIdsAllocated
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import CHANGES_PER_TURN, apply_in_turns, paused
from moldau.cluster.store import ControllerFenced, OutcomeUnknown, StoreFailed, VersionConflict
from moldau.cluster.zookeeper.client.port import (
    BadVersion,
    CreateNode,
    DeleteNode,
    NodeError,
    NodeKind,
    NotEmpty,
    Operation,
    OperationResult,
    SessionExpired,
    SetData,
    UnknownOutcome,
    ZooKeeperError,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.election import Seat, leave_seat
from moldau.cluster.zookeeper.history import History
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.commit_writes import commit_writes, without_directories
from moldau.cluster.zookeeper.nodes.tool_requests import PartitionsWanted
from moldau.cluster.zookeeper.strays import stray_deletions

logger = logging.getLogger(__name__)

OPERATIONS_MAX: Final = 300
"""In one multi: it is encoded on the event loop."""

STRAYS_TRIES: Final = 5
"""A multi deletes several nodes, and somebody may go on putting others below them."""

CLOSE_PATIENCE_S: Final = 2.0
"""How long a broker that stops waits for its commits. Those that are left end with its session."""


class Tenure:
    """A `Controllership`, from its claim until it is lost. Owned by the event loop's thread."""

    def __init__(self, session: ZooKeeperSession, seat: Seat, history: History) -> None:
        self.session = session
        self.seat = seat
        self.history = history
        self.versions: dict[str, int] = {}
        """Of all nodes that exist, except the states of partitions in the image."""
        self.wanted: dict[str, PartitionsWanted] = {}
        """By topic, partitions that tools have added to its node and that are not there yet."""
        self.unreadable: set[str] = set()
        """Nodes that have to be repaired before a commit may rely on what they said."""
        self.turn = asyncio.Lock()
        """Held by a commit, and while what others have written is taken over."""
        self._is_over = False
        self._is_closed = False
        self._lost: list[Callable[[], None]] = []
        self._commits: set[asyncio.Task[int]] = set()
        self._leaving: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> int:
        return self.seat.epoch

    @property
    def is_over(self) -> bool:
        """Whether this was lost, or given back."""
        return self._is_over

    def on_lost(self, callback: Callable[[], None]) -> None:
        if self._is_over:
            callback()
        else:
            self._lost.append(callback)

    def end(self) -> None:
        """Note that this is over, and tell its holder."""
        if not self._is_over:
            self._is_over = True
            for callback in self._lost:
                callback()

    def resign(self) -> None:
        """Give it back, because the tree is in doubt: who is elected next reads it anew."""
        if not self._is_over:
            self.end()
            self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        try:
            await leave_seat(self.session)
        except ZooKeeperError as error:
            logger.debug("the controllership ends with its session: %s", error)

    async def close(self) -> None:
        """Finish commits under way, if ZooKeeper answers; the holder is not told."""
        self._lost.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                while self._commits:
                    await asyncio.wait(tuple(self._commits))
                if self._leaving is not None:
                    await asyncio.wait((self._leaving,))
        self._is_over = self._is_closed = True

    # Steps of the history

    def next_version(self) -> int:
        """Return the version of the next step."""
        return self.history.image.version + 1

    async def take_over(self, changes: Sequence[Change]) -> None:
        """Take a step that is in the tree already; the caller has its turn."""
        image = await apply_in_turns(self.history.image, changes, self.next_version())
        self._advance(changes, image)

    def _advance(self, changes: Sequence[Change], image: MetadataImage) -> None:
        try:
            self.history.advance(changes, image)
        except Exception:  # all have heard, and nobody here asked for the step
            logger.exception("a listener of the metadata failed")

    # Commits

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        # A task of its own, shielded: if the caller is cancelled, the commit still finishes.
        task = asyncio.ensure_future(self._commit_in_turn(expected_version, tuple(changes)))
        self._commits.add(task)
        task.add_done_callback(self._forget)
        return await shielded(task)

    def _forget(self, task: asyncio.Task[int]) -> None:
        self._commits.discard(task)
        if not task.cancelled():
            task.exception()  # for the caller, which may have been cancelled

    async def _commit_in_turn(self, expected_version: int, changes: Sequence[Change]) -> int:
        async with self.turn:
            if self._is_closed:
                raise StoreFailed("the metadata store is closed")
            if self._is_over:
                raise ControllerFenced(self.epoch)
            before = self.history.image
            if expected_version != before.version:
                raise VersionConflict(expected_version, before.version)
            if not changes:
                return expected_version
            changes = [without_directories(change) async for change in paused(changes)]
            self._check_readable(changes)
            after = await apply_in_turns(before, changes, self.next_version())
            await self._write(
                commit_writes(before, changes, after, self.epoch, self.versions, self.wanted)
            )
            self.history.advance(changes, after)
            return after.version

    def _check_readable(self, changes: Sequence[Change]) -> None:
        """Refuse producer ids while nobody knows which were given out."""
        path = paths.PRODUCER_ID_BLOCK
        if path in self.unreadable and any(
            isinstance(change, ProducerIdsAllocated) for change in changes
        ):
            raise StoreFailed(f"there are no producer ids until {path} in ZooKeeper is repaired")

    async def _write(self, writes: Iterable[Operation | None]) -> None:
        """Carry out the writes of a commit; ControllerFenced or OutcomeUnknown ends the tenure."""
        try:
            await self.write(writes)
        except NodeError as error:
            # Somebody else has written, or an earlier controller left more than is known.
            self.resign()
            raise OutcomeUnknown(f"the tree has changed meanwhile: {error}") from error

    async def write(self, writes: Iterable[Operation | None]) -> None:
        """Carry out writes in order, if this is still the controller.

        ControllerFenced if it is not. NodeError if a node is not as expected; then only what fitted
        into earlier multis was written. OutcomeUnknown if nobody knows; then the tenure is over.
        """
        async for multi in self._multis(writes):
            await self._write_multi(multi)

    async def _write_multi(self, operations: Sequence[Operation]) -> None:
        try:
            results = await self._multi_without_strays(operations)
        except BadVersion as error:
            if error.path != paths.CONTROLLER_EPOCH:
                raise
            # Another one is elected, or somebody has written the epoch by hand. Then the seat is
            # still this broker's, and nobody could be elected.
            self.resign()
            raise ControllerFenced(self.epoch) from error
        except SessionExpired as error:
            self.end()
            raise ControllerFenced(self.epoch) from error
        except UnknownOutcome as error:
            self.resign()
            raise OutcomeUnknown(f"the outcome of a commit is not known: {error}") from error
        for operation, result in zip(operations, results[1:], strict=True):
            self._note(operation, result.path)

    async def _multi_without_strays(
        self, operations: Sequence[Operation]
    ) -> Sequence[OperationResult]:
        """Carry out a multi; what somebody has put below a node that it deletes goes first."""
        writes = [self.seat.check, *operations]
        for _ in range(STRAYS_TRIES):
            try:
                return await self.session.multi(writes)
            except NotEmpty as error:
                own = {one.path for one in operations}
                strays = await stray_deletions(self.session, error.path, own)
                logger.warning(
                    "%d nodes of ZooKeeper below %s are deleted with it", len(strays), error.path
                )
                for first in range(0, len(strays), OPERATIONS_MAX):
                    batch = strays[first : first + OPERATIONS_MAX]
                    await self.session.multi([self.seat.check, *batch])
        return await self.session.multi(writes)

    def _note(self, operation: Operation, path: str) -> None:
        if paths.state_owner(path) is not None:
            return  # the epoch of the partition
        match operation:
            case CreateNode(kind=NodeKind.PERSISTENT):
                self.versions[path] = 0
            case SetData():
                self.versions[path] = self.versions.get(path, -1) + 1
            case DeleteNode():
                self.versions.pop(path, None)
            case _:
                pass

    async def _multis(self, writes: Iterable[Operation | None]) -> AsyncIterator[list[Operation]]:
        """Divide writes into multis; others have their turn in between, and where it is None."""
        limit = self.session.max_multi_bytes - self.session.operation_bytes(self.seat.check)
        multi: list[Operation] = []
        size = 0
        for count, operation in enumerate(writes, 1):
            if operation is not None:
                more = self.session.operation_bytes(operation)
                if multi and (size + more > limit or len(multi) == OPERATIONS_MAX):
                    yield multi
                    multi, size = [], 0
                multi.append(operation)
                size += more
            if operation is None or not count % CHANGES_PER_TURN:
                await asyncio.sleep(0)
        if multi:
            yield multi
