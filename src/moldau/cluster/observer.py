"""The metadata store of a broker that does not vote: it follows the leader's log.

It fetches what its own copy lacks (`log_copy`), from whoever leads, and tries again for as long as
there is no answer. It changes nothing by itself, and is never the controller.

The image of a started store may be old, or empty: it is complete after `caught_up`. What cannot
pass by waiting ends the following, with one line that says why: a folder of another cluster, a
leader without what was committed, two leaders in one epoch, a record that makes no sense, a disk
that lost its own copy's state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from moldau.base.clock import Clock, Random
from moldau.base.errors import (
    ConfigError,
    CorruptRecords,
    InvariantViolated,
    MoldauError,
    StorageError,
)
from moldau.base.executor import Executor
from moldau.base.files import Files
from moldau.base.ids import BrokerId, LeaderEpoch, Offset
from moldau.cluster.blocking import blocking_in
from moldau.cluster.changes import Change
from moldau.cluster.formatting import ClusterIdentity, identify_directories
from moldau.cluster.image import MetadataImage
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.listeners import Listeners
from moldau.cluster.log_copy import CommittedLost, LogCopy
from moldau.cluster.metadata_requests import (
    FetchState,
    error_name,
    fetch_request,
    fetch_snapshot_request,
    fetched_partition,
    fetched_piece,
)
from moldau.cluster.metadata_source import MetadataSource, SourceUnavailable
from moldau.cluster.opening import opening_errors
from moldau.cluster.quorum import read_leader_epoch, write_quorum_state
from moldau.cluster.snapshot_download import SnapshotPiece
from moldau.cluster.snapshots import SnapshotId
from moldau.cluster.snapshotting import SNAPSHOT_AFTER_BYTES, SNAPSHOT_INTERVAL_S, SnapshotPace
from moldau.cluster.store import Listener, StoreFailed
from moldau.engine.backoff import Backoff
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import FetchablePartitionResponse
from moldau.storage.epochs import EpochEnd

FETCH_BYTES: Final = 1 << 20
"""`controller.quorum.fetch.max.bytes`: for a fetch and for a piece of a snapshot."""

RETRY: Final = Backoff(20, 1_000)
"""Begins with `controller.quorum.retry.backoff.ms`."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ObserverStore:
    """A `ClusterMetadata` that follows the leader's log through a `MetadataSource`."""

    def __init__(
        self,
        files: Files,
        log_directories: Sequence[str],
        node_id: BrokerId,
        clock: Clock,
        random: Random,
        source: MetadataSource,
        *,
        voters: Collection[int] = (),
        metadata_directory: str | None = None,
        cluster_id: str | None = None,
        executor: Executor | None = None,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
        snapshot_interval_s: float = SNAPSHOT_INTERVAL_S,
        retention: MetadataRetention = MetadataRetention(),  # noqa: B008 - it never changes
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        self._files = files
        self._log_directories = tuple(log_directories)
        self.metadata_directory = metadata_directory or self._log_directories[0]
        self._folder = f"{self.metadata_directory}/{METADATA_FOLDER}"
        self._node_id = node_id
        self._clock = clock
        self._random = random
        self._source = source
        self._voters = tuple(voters)
        """As the settings name them; none where the log does."""
        self._wanted_cluster_id = cluster_id
        self._fetch_bytes = fetch_bytes
        self._listeners = Listeners()
        self._blocking = blocking_in(executor)
        self._copy = LogCopy(
            files,
            self._folder,
            clock,
            self._blocking,
            self._tell,
            SnapshotPace(snapshot_after_bytes, snapshot_interval_s),
            retention,
        )
        self._identity: ClusterIdentity | None = None
        self._epoch = LeaderEpoch(0)
        self._leader_id = -1
        self._goal: int | None = None
        """The leader's high watermark as its first answer told it."""
        self._was_odd = False
        """Whether the last answer made no sense, unless the leader has lost committed records."""
        self._settled = asyncio.Event()
        """Set when it has caught up, and when it never will."""
        self._failure: MoldauError | None = None
        self._failed: Callable[[MoldauError], None] | None = None
        self._is_closing = False
        self._following: asyncio.Task[None] | None = None
        self._waiting: asyncio.Future[Any] | None = None
        """What is given up at once when the store is closed."""

    @property
    def image(self) -> MetadataImage:
        return self._copy.image

    @property
    def identity(self) -> ClusterIdentity:
        """Cluster id, node id and the ids of the log directories; known once started."""
        if self._identity is None:
            raise StoreFailed("the metadata store has not been started")
        return self._identity

    @property
    def metadata_directory_id(self) -> bytes:
        """The id of the directory with the metadata log; known once started."""
        return self.identity.metadata_directory_id

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that is known here."""
        return self._epoch

    @property
    def leader_id(self) -> int:
        """The node that leads the metadata in that epoch; -1 while it is not known."""
        return self._leader_id

    @property
    def kraft_version(self) -> int:
        """The form of the quorum: 0 with voters of the settings, 1 with voters of the log."""
        return self._copy.quorum.kraft_version

    def on_failed(self, callback: Callable[[MoldauError], None]) -> None:
        """Call this once the store can follow no more, for a reason that will not pass.

        At once if it already cannot.
        """
        self._failed = callback
        if self._failure is not None:
            callback(self._failure)

    async def start(self, log_directories: Sequence[str] | None = None) -> None:
        """Open the own copy and begin to follow; it need not have caught up yet."""
        if log_directories is not None:
            self._log_directories = tuple(log_directories)
        with opening_errors(self._folder):
            self._open()
        self._following = asyncio.ensure_future(self._follow())

    def _open(self) -> None:
        self._identity = identify_directories(
            self._files,
            self._log_directories,
            self.metadata_directory,
            self._node_id,
            self._random,
            self._clock.wall_ms(),
            self._wanted_cluster_id,
            founds_cluster=False,
        )
        self._copy.open(self._identity.cluster_id)
        known = read_leader_epoch(self._files, self._folder)
        self._epoch = LeaderEpoch(max(known, self._copy.last_epoch))

    @property
    def leader_log(self) -> None:
        """None: another node leads the log."""
        return None

    async def caught_up(self) -> None:
        """Return once the image has all that was committed when the leader first answered.

        Raises the reason if that will never be.
        """
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        if self._is_closing:
            raise StoreFailed("the metadata store was closed")

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.subscribe(listener)

    async def claim(self) -> None:
        """Never grant it: a broker that does not vote is not the controller."""

    async def close(self) -> None:
        self._is_closing = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._following is not None:
            await asyncio.wait((self._following,))
            await self._copy.close()
        await self._source.close()
        self._settled.set()

    def _tell(self, changes: Sequence[Change], image: MetadataImage) -> None:
        try:
            self._listeners.tell(changes, image)
        except Exception:  # noqa: BLE001 - all have heard, and nobody here asked for the commit
            _log.exception("a listener of the metadata failed")

    # Following

    async def _follow(self) -> None:
        failures = 0
        while not self._is_closing:
            try:
                await self._fetch_once()
                failures = 0
            except asyncio.CancelledError:
                if not self._is_closing:
                    raise
            except (SourceUnavailable, StorageError, OSError) as error:
                if not self._copy.writable:
                    self._fail(error)
                    return
                failures += 1
                # Once for each time that it stops; the retries say nothing new.
                level = logging.WARNING if failures == 1 else logging.DEBUG
                _log.log(level, "metadata cannot be fetched: %s", error)
                await self._pause(RETRY.wait_s(failures, self._random))
            except (CorruptRecords, InvariantViolated) as error:
                self._fail(StorageError(self._folder, f"does not add up: {error}"))
                return
            except MoldauError as error:
                self._fail(error)
                return
            except Exception as error:
                self._fail(error)  # a bug: whoever waits must hear of it all the same
                raise

    async def _pause(self, seconds: float) -> None:
        try:
            await self._interruptible(asyncio.sleep(seconds))
        except asyncio.CancelledError:
            if not self._is_closing:
                raise

    def _fail(self, error: Exception) -> None:
        self._failure = error if isinstance(error, MoldauError) else StoreFailed(repr(error))
        self._settled.set()
        if self._failed is None:
            _log.error("the metadata is followed no more: %s", error)
        else:
            self._failed(self._failure)  # who ends the node says why, in one line

    async def _interruptible(self, work: Awaitable[T]) -> T:
        """Wait for something that closing the store gives up."""
        waiting = asyncio.ensure_future(work)
        self._waiting = waiting
        try:
            return await waiting
        finally:
            self._waiting = None

    async def _fetch_once(self) -> None:
        copy = self._copy
        state = FetchState(
            self.identity.cluster_id,
            self._node_id,
            self.metadata_directory_id,
            self._epoch,
            copy.next_offset,
            copy.last_epoch,
            copy.start_offset,
            copy.high_watermark,
        )
        request = fetch_request(state, self._fetch_bytes)
        response = await self._interruptible(self._source.fetch(request))
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID and self._goal is None:
            raise ConfigError(
                f"{self.metadata_directory} belongs to cluster.id={self.identity.cluster_id}, and"
                " the controller to another cluster"
            )
        answer = fetched_partition(response)
        leader = answer.current_leader
        if await self._learns_epoch(leader.leader_id, leader.leader_epoch):
            return
        if answer.error_code:
            raise SourceUnavailable(f"answered with {error_name(answer.error_code)}")
        if self._goal is None:
            self._goal = answer.high_watermark
        await self._take_unless_odd(answer)
        if copy.applied_offset >= self._goal:
            self._settled.set()

    async def _learns_epoch(self, leader_id: int, epoch: int) -> bool:
        """Learn who leads; tell whether its epoch is newer than the one fetched under.

        It is durable before anything is done under it.
        """
        if epoch < self._epoch or leader_id < 0:
            raise SourceUnavailable(
                f"node {leader_id} answered for epoch {epoch}, but epoch {self._epoch} is known"
            )
        is_newer = epoch > self._epoch
        if not is_newer and leader_id == self._leader_id:
            return False
        if not is_newer and self._leader_id >= 0:
            raise StoreFailed(
                f"nodes {self._leader_id} and {leader_id} both lead the metadata in epoch {epoch}"
            )
        learnt = LeaderEpoch(epoch)
        await self._blocking(
            partial(
                write_quorum_state,
                self._files,
                self._folder,
                leader_id,
                learnt,
                self._voters,
                self.kraft_version,
            )
        )
        self._epoch, self._leader_id = learnt, leader_id
        return is_newer

    async def _take_unless_odd(self, answer: FetchablePartitionResponse) -> None:
        """Take an answer. One that would undo what was committed has to come twice in a row."""
        try:
            await self._take(answer)
        except CommittedLost as error:
            if self._was_odd:
                raise
            self._was_odd = True
            raise SourceUnavailable(str(error)) from error
        self._was_odd = False

    async def _take(self, answer: FetchablePartitionResponse) -> None:
        diverging, snapshot = answer.diverging_epoch, answer.snapshot_id
        if diverging.epoch >= 0:
            end = EpochEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
            await self._copy.truncate(end)
        elif snapshot.end_offset >= 0:
            wanted = SnapshotId(snapshot.end_offset, snapshot.epoch)
            await self._copy.restart_with(wanted, partial(self._piece, wanted))
        else:
            if not isinstance(answer.records, bytes | bytearray | memoryview):
                raise SourceUnavailable("answered without records")
            try:
                await self._copy.append(answer.records, self._epoch)
            finally:
                await self._copy.commit(answer.high_watermark)

    async def _piece(self, snapshot: SnapshotId, position: int) -> SnapshotPiece:
        request = fetch_snapshot_request(
            self.identity.cluster_id,
            self._node_id,
            self.metadata_directory_id,
            self._epoch,
            snapshot,
            position,
            self._fetch_bytes,
        )
        response = await self._interruptible(self._source.fetch_snapshot(request))
        return fetched_piece(response, snapshot, position)
