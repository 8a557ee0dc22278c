"""What a node of the quorum does as the active controller: claim, commit, and lose it again.

    claim     make this node the active controller, once its image has all that was committed
    commit    encode, append as the leader, return when a majority has it and the image too
    end       the leadership is lost, or given back

It owns the tenure and the commits under way, one after the other. A commit under way when the
leadership is lost may happen or not: the next leader decides.

It must not know of files or of other nodes, or how the image follows the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from moldau.base.clock import Clock
from moldau.base.errors import MoldauError
from moldau.base.ids import NO_OFFSET, LeaderEpoch
from moldau.base.shielding import shielded
from moldau.cluster.changes import Change
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.formatting import FIRST_FEATURES
from moldau.cluster.kraft.image_follower import ImageFollower
from moldau.cluster.kraft.node import RaftNode
from moldau.cluster.kraft.pending_commit import PendingCommit
from moldau.cluster.kraft.prepared_commit import PreparedCommit, prepare_commit
from moldau.cluster.kraft.tenure import Tenure
from moldau.cluster.raft.effects import RoleChanged
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import NO_NODE
from moldau.cluster.store import ControllerFenced, OutcomeUnknown, StoreFailed, VersionConflict

logger = logging.getLogger(__name__)


class Leadership:
    """One node's right to commit, whenever it leads. Owned by the event loop's thread."""

    def __init__(
        self,
        node: RaftNode,
        follower: ImageFollower,
        clock: Clock,
        minimum: ClusterMinimum,
        check: Callable[[], None],
        disk_error: Callable[[int], StoreFailed | None],
    ) -> None:
        """`check` raises if nothing can be committed ever again.

        `disk_error` is why the disk of the only voter cannot take so many bytes.
        """
        self._node = node
        self._follower = follower
        self._clock = clock
        self._minimum = minimum
        self._check = check
        self._disk_error = disk_error
        self.first_changes: list[Change] = []
        """What the format tool wrote, for the first controller of a cluster to commit."""
        self.role = RoleChanged(Role.UNATTACHED, LeaderEpoch(0), NO_NODE)
        self.tenure: Tenure | None = None
        """This node's time as the active controller, if it is that."""
        self._turn = asyncio.Lock()
        """Held by the commit under way."""
        self._commits: set[asyncio.Task[int]] = set()

    @property
    def is_possible(self) -> bool:
        """Whether this node leads, and its image has all that was committed before it did."""
        role, follower = self.role, self._follower
        return (
            role.role is Role.LEADER
            and NO_OFFSET < role.epoch_start < follower.committed_offset
            and role.epoch_start < follower.applied_offset
        )

    def role_changed(self, role: RoleChanged) -> None:
        """Take note of another role, epoch or leader."""
        self.role = role
        tenure = self.tenure
        if (disk_error := self._disk_error(0)) is not None:
            # Nobody else leads, so it stays the controller.
            self._follower.give_up_pending(disk_error)
        elif tenure is not None and (role.role is not Role.LEADER or role.epoch != tenure.epoch):
            self.end()

    def end(self) -> None:
        """Lead no more; what is under way may happen or not."""
        tenure, self.tenure = self.tenure, None
        if tenure is not None:
            tenure.end()
        self._follower.give_up_pending(OutcomeUnknown("the leadership was lost during a commit"))

    async def finish(self) -> None:
        """Return once no commit is under way."""
        if self._commits:
            await asyncio.wait(tuple(self._commits))

    async def claim(self) -> Tenure | None:
        """Become the active controller; None if this node does not lead."""
        if self.tenure is not None and not self.tenure.is_over:
            return self.tenure
        if not self.is_possible:
            return None
        tenure = self.tenure = Tenure(self.role.epoch, self._commit)
        try:
            await self._commit_first(tenure)
        except Exception as error:
            self.end()
            if not isinstance(error, MoldauError):
                raise
            logger.warning("not the controller: %s", error)
            return None
        return None if tenure.is_over else tenure

    async def _commit_first(self, tenure: Tenure) -> None:
        """End a commit that a former leader has left half done; write what a new cluster has."""
        image = self._follower.image
        if image.features:
            changes = self._minimum.corrected(image)
        else:
            changes = list(self.first_changes or FIRST_FEATURES)
            after = image.apply(changes, image.version)
            changes += self._minimum.stated(after)
        is_aborting = self._follower.is_in_transaction
        if changes or is_aborting:
            await self._commit(tenure, image.version, changes, is_aborting=is_aborting)

    async def _commit(
        self,
        tenure: Tenure,
        expected_version: int,
        changes: Sequence[Change],
        *,
        is_aborting: bool = False,
    ) -> int:
        # A task of its own, shielded: if the caller is cancelled, the commit still finishes.
        work = self._commit_in_turn(tenure, expected_version, tuple(changes), is_aborting)
        task = asyncio.ensure_future(work)
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        return await shielded(task)

    async def _commit_in_turn(
        self, tenure: Tenure, expected_version: int, changes: tuple[Change, ...], is_aborting: bool
    ) -> int:
        async with self._turn:
            self._check()
            tenure.check()
            self._require_room(0)
            image = self._follower.image
            if expected_version != image.version:
                raise VersionConflict(expected_version, image.version)
            if not changes and not is_aborting:
                return expected_version
            now_ms = self._clock.wall_ms()
            prepared = await prepare_commit(image, changes, now_ms, is_aborting=is_aborting)
            self._require_room(prepared.size)
            pending = self._append(tenure, prepared, is_read_back=is_aborting)
            await pending.done
            return pending.version

    def _require_room(self, size: int) -> None:
        """Raise StoreFailed before anything is written that the disk would refuse."""
        if (disk_error := self._disk_error(size)) is not None:
            raise disk_error

    def _append(
        self, tenure: Tenure, commit: PreparedCommit, *, is_read_back: bool
    ) -> PendingCommit:
        """Append all batches in one turn, under one leadership."""
        tenure.check()
        life = self._node.life
        if life is None or life.state.role is not Role.LEADER or life.epoch != tenure.epoch:
            raise ControllerFenced(tenure.epoch)
        first = life.log.end_offset
        for batch in commit.batches:
            self._node.append(batch, batch.record_count)
        if tenure.is_over:
            raise OutcomeUnknown("the leadership was lost during a commit")
        version = first + commit.record_count
        image = None if is_read_back else commit.image_at(version)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pending = PendingCommit(first, version, commit.changes, image, done)
        self._follower.adopt_once(pending)
        return pending
