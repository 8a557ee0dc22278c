"""One node of the quorum at work: it steps the core, and carries out what the core decides.

    event --> core.step --> effects, carried out by one task in their order
                            requests, syncs and checks run beside it, and end in an event

Whatever waits for the disk is done elsewhere, so that the loop goes on. A log that cannot be
written ends this life of the core, and another one begins with what the disk has: a leader has
resigned then, as after a restart of its process. A write that may be lost ends the node.

It must not know what records mean, nor how others are reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple, Protocol

from moldau.base.clock import Clock
from moldau.base.errors import CorruptRecords, MoldauError, StorageError
from moldau.base.files import FileRegion
from moldau.base.ids import LeaderEpoch, Offset
from moldau.cluster.kraft.control_records import voters_of
from moldau.cluster.kraft.peers import AddressUnknown, Peers, PeerUnavailable
from moldau.cluster.kraft.raft_log import RaftLog
from moldau.cluster.raft import effects as out
from moldau.cluster.raft import events
from moldau.cluster.raft.core import RaftCore
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.log_position import LogMark
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    EndQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    LeaderChange,
    QuorumAnswer,
    Request,
    Token,
)
from moldau.cluster.raft.resending import Destination
from moldau.cluster.raft.states import Leader, Role
from moldau.cluster.raft.voters import NO_NODE, NodeId, VoterSet
from moldau.cluster.snapshot_download import SnapshotSpoiled
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.records.control import ControlType

logger = logging.getLogger(__name__)

NEW_LIFE_S: Final = 1.0
"""Between a write that was refused and the next life: a disk that is full stays so for a while."""

NEW_LIFE_WAITS_MAX: Final = 30
"""So many times as long at most, while lives end before the log takes more than their first
records: each costs an epoch, if this node leads in it."""


class ServedAnswer(NamedTuple):
    """An answer to another node, and the bytes that go with it."""

    answer: QuorumAnswer
    region: FileRegion | None = None


class NodeOwner(Protocol):
    """Who is told what becomes of a node; the store."""

    def committed(self, offset: Offset) -> None:
        """Hear that everything before an offset is committed."""
        ...

    def role_changed(self, change: out.RoleChanged) -> None:
        """Hear of another role, epoch or leader, in the order in which they came."""
        ...

    def leader_answered(self, high_watermark: int) -> None:
        """Hear how far the leader has committed, as it answers a fetch."""
        ...

    def met_other_cluster(self) -> bool:
        """Hear that a controller belongs to another cluster; tell whether to ask on."""
        ...

    async def install(self, snapshot: SnapshotId) -> None:
        """Put a snapshot that was fetched in place of the log, and take over what it says."""
        ...

    def failed(self, error: MoldauError) -> None:
        """Hear that this node can go on no more."""
        ...


class _Asked:
    """A request of another node, while the core has it; it is the core's token."""

    __slots__ = ("future", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.future: asyncio.Future[ServedAnswer] = asyncio.get_running_loop().create_future()

    def answer(self, answer: QuorumAnswer, region: FileRegion | None = None) -> None:
        if not self.future.done():
            self.future.set_result(ServedAnswer(answer, region))


class RaftNode:
    """One node. Owned by the event loop's thread."""

    def __init__(
        self,
        begin_life: Callable[[], RaftCore],
        log: RaftLog,
        peers: Peers,
        clock: Clock,
        keep_promise: Callable[[QuorumState, Life], Awaitable[None]],
        owner: NodeOwner,
    ) -> None:
        """`begin_life` makes a core of what the disk has; `keep_promise` writes `quorum-state`."""
        self._begin_life = begin_life
        self._log = log
        self._peers = peers
        self._clock = clock
        self._keep_promise = keep_promise
        self._owner = owner
        self._core: RaftCore | None = None
        self._effects: deque[out.Effect] = deque()
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        # In the order in which they came, so that a simulation does the same again:
        self._asked: dict[_Asked, None] = {}
        """Requests of others without an answer."""
        self._asking: dict[asyncio.Task[None], None] = {}
        """Requests to others that are under way."""
        self._beside: dict[asyncio.Task[None], None] = {}
        """Syncs and checks of snapshots."""
        self._is_closing = False
        self._working: asyncio.Task[None] | None = None
        self._sync_mark: LogMark | None = None
        """The newest mark that has to be synced; None while none has."""
        self._is_syncing = False
        self._life_number = 0
        self.refusal: StorageError | OSError | None = None
        """What the disk has said when it refused a write; None again in the next life."""
        self._waits = 1
        """After how many times `NEW_LIFE_S` the next life begins: ever more, while lives end before
        the log takes more than their first records."""
        self._stopped = asyncio.Event()
        self._has_met_other_cluster = False
        self._is_left_alone = False
        """Whether the last fetch that was answered is followed by one that was not."""

    # What is known

    @property
    def life(self) -> Life | None:
        """What the core knows, to be looked at; None while the disk refuses to be written."""
        return None if self._core is None else self._core.life

    @property
    def leader(self) -> NodeId:
        """The node that leads; -1 while it is not known."""
        return NO_NODE if self._core is None else self._core.life.leader

    @property
    def voters(self) -> VoterSet:
        """Who votes, as this node's log says."""
        return VoterSet() if self._core is None else self._core.life.voters

    # From start to stop

    def start(self) -> None:
        """Begin to take part."""
        self._working = asyncio.ensure_future(self._work())
        self._live()

    def _live(self) -> None:
        self._core = core = self._begin_life()
        self._take(core.start())

    async def stop(self, patience_s: float) -> None:
        """Stop cleanly: a leader hands over first, if others answer in time."""
        if self._core is not None:
            self._step(events.StopWanted())
            try:
                async with asyncio.timeout(patience_s):
                    await self._stopped.wait()
            except TimeoutError:
                logger.warning("the other voters were not told that this one stops")
        await self.close()

    async def close(self) -> None:
        """End as soon as nothing is being written; closing twice is harmless."""
        self._end_life()
        self._is_closing = True
        self._wake.set()
        for task in tuple(self._asking):
            task.cancel()
        tasks = [*self._asking, *self._beside]
        if self._working is not None:
            tasks.append(self._working)
        # What writes is not cancelled: its thread would go on while the log is closed under it.
        await asyncio.gather(*tasks, return_exceptions=True)

    # Events

    def ask(self, request: Request, max_bytes: int) -> asyncio.Future[ServedAnswer]:
        """Let the core answer a request of another node; the future may be cancelled."""
        asked = _Asked(max_bytes)
        self._asked[asked] = None
        asked.future.add_done_callback(lambda _: self._asked.pop(asked, None))
        if self._core is None:
            error = ErrorCode.BROKER_NOT_AVAILABLE
            asked.answer(request.answer_type(error, LeaderEpoch(0), NO_NODE))
        else:
            self._step(events.RequestArrived(asked, request))
            if self._core is None:
                asked.future.cancel()
        return asked.future

    def append(self, content: object, count: int) -> None:
        """Append as the leader."""
        self._step(events.AppendWanted(content, count))

    def connection_reset(self, node: NodeId) -> None:
        """Hear that another node's process is most likely gone."""
        self._step(events.ConnectionReset(node))

    def resign(self) -> None:
        """Lead no more."""
        self._step(events.ResignWanted())

    def _step(self, event: events.Event) -> None:
        core = self._core
        if core is None:
            return
        try:
            self._tell_snapshots(core)
            self._take(core.step(event, self._clock.monotonic()))
        except MoldauError as error:
            self._fail(error)  # an invariant is broken: going on could cost what is committed

    def _tell_snapshots(self, core: RaftCore) -> None:
        """Tell the core of snapshots that were written or removed since its last step."""
        known, now_s = core.life.log, self._clock.monotonic()
        newest, oldest = self._log.newest_snapshot, self._log.oldest_snapshot
        if newest is not None and (known.newest_snapshot is None or newest > known.newest_snapshot):
            self._take(core.step(events.SnapshotTaken(newest), now_s))
        start = Offset(self._log.journal.start_offset)
        if oldest is not None and start > known.start_offset:
            self._take(core.step(events.LogTrimmed(start, oldest), now_s))

    def _take(self, effects: list[out.Effect]) -> None:
        self._effects.extend(effects)
        if self._effects:
            self._wake.set()
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        deadline_s = inf if self._core is None else self._core.deadline_s
        if deadline_s < inf:
            wait_s = max(0.0, deadline_s - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._fire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._step(events.TimerFired())

    # Effects

    async def _work(self) -> None:
        while not self._is_closing:
            self._wake.clear()
            while self._effects:
                effect = self._effects.popleft()
                try:
                    await self._carry_out(effect)
                except (StorageError, OSError) as error:
                    await self._disk_refused(error)
                except Exception as error:
                    self._fail(error)
                    raise
            await self._wake.wait()

    async def _carry_out(self, effect: out.Effect) -> None:
        match effect:
            case out.SendRequest():
                self._begin(self._send(effect), self._asking)
            case out.Answer(token, answer):
                _asked(token).answer(answer)
            case out.AnswerWithRecords():
                self._answer_with_records(effect)
            case out.AnswerWithSnapshot():
                self._answer_with_snapshot(effect)
            case out.HighWatermarkMoved(offset):
                self._owner.committed(offset)
            case out.RoleChanged():
                self._owner.role_changed(effect)
            case out.PersistQuorumState(quorum):
                assert self._core is not None  # effects of a life that is over are dropped
                await self._keep_promise(quorum, self._core.life)
                self._step(events.QuorumStateDurable())
            case out.Stopped():
                self._stopped.set()
            case _:
                await self._change_log(effect)

    async def _change_log(self, effect: out.Effect) -> None:
        match effect:
            case out.AppendAsLeader(base_offset, epoch, content):
                await self._log.append(base_offset, epoch, content)
                if not isinstance(content, LeaderChange):  # each life begins with one
                    self._waits = 1
            case out.AppendFetched(batches):
                await self._log.append_fetched(batches)
                self._waits = 1
            case out.SyncLog(mark):
                self._sync(mark)
            case out.TruncateLog(end_offset):
                await self._log.truncate(end_offset)
            case out.StoreSnapshotPart(snapshot, position, data):
                self._log.store_part(snapshot, position, data)
            case out.FinishSnapshot(snapshot):
                self._begin(self._check_snapshot(snapshot), self._beside)
            case out.InstallSnapshot(snapshot):
                await self._owner.install(snapshot)
            case out.AppendRefused(content):
                logger.debug("not the leader any more: %r is not appended", type(content))

    def _answer_with_records(self, effect: out.AnswerWithRecords) -> None:
        asked = _asked(effect.token)
        try:
            region = self._log.region(effect.read_from, asked.max_bytes)
        except OSError as error:  # to read is not to write: this life goes on
            logger.warning("the metadata log cannot be read: %s", error)
            asked.answer(replace(effect.answer, error=ErrorCode.KAFKA_STORAGE_ERROR))
        else:
            asked.answer(effect.answer, region)

    def _answer_with_snapshot(self, effect: out.AnswerWithSnapshot) -> None:
        asked, answer = _asked(effect.token), effect.answer
        try:
            whole = self._log.open_snapshot(answer.snapshot)
        except OSError as error:
            logger.warning("a snapshot of the metadata cannot be read: %s", error)
            asked.answer(replace(answer, error=ErrorCode.KAFKA_STORAGE_ERROR))
            return
        if whole is None:
            asked.answer(replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND))
        elif answer.position >= whole.size:
            asked.answer(replace(answer, error=ErrorCode.POSITION_OUT_OF_RANGE))
        else:
            size = min(asked.max_bytes, whole.size - answer.position)
            region = FileRegion(whole.file, answer.position, size)
            asked.answer(replace(answer, size=whole.size), region)

    def _begin(self, work: Awaitable[None], others: dict[asyncio.Task[None], None]) -> None:
        task = asyncio.ensure_future(work)
        others[task] = None
        task.add_done_callback(lambda _: others.pop(task, None))
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _send(self, sent: out.SendRequest) -> None:
        life = self._life_number
        event: events.Event
        try:
            answer = await self._peers.ask(sent.to, sent.request)
        except PeerUnavailable as error:
            self._note_silence(sent, error)
            event = events.RequestFailed(sent.request_id)
        else:
            event = events.AnswerArrived(sent.request_id, answer)
            if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._warn_of_other_cluster(sent.to)
            if isinstance(answer, FetchAnswer) and answer.error is ErrorCode.NONE:
                self._is_left_alone = False
                self._owner.leader_answered(answer.high_watermark)
        if life == self._life_number:
            self._step(event)

    def _note_silence(self, sent: out.SendRequest, error: PeerUnavailable) -> None:
        """Say once, each time that it begins, that an observer hears of no commits any more.

        A voter says it by its elections.
        """
        core, level = self._core, logging.DEBUG
        is_fetch = isinstance(sent.request, FetchRequest)
        is_news = is_fetch and not self._is_left_alone and not isinstance(error, AddressUnknown)
        if is_news and core is not None and not core.life.is_voter:
            self._is_left_alone, level = True, logging.WARNING
        what = "metadata cannot be fetched" if is_fetch else f"node {sent.to} did not answer"
        logger.log(level, "%s: %s", what, error)

    def _warn_of_other_cluster(self, node: Destination) -> None:
        """Say it once, of the first that says so: a node that asks the wrong ones asks them all."""
        core = self._core
        if not self._owner.met_other_cluster():
            self._end_life()
        elif core is not None and not self._has_met_other_cluster:
            self._has_met_other_cluster = True
            name = "a controller" if node is None else f"controller {node}"
            logger.warning(
                "%s belongs to another cluster; this node's has cluster.id=%s",
                name, core.life.cluster_id,
            )  # fmt: skip

    # The disk

    def _sync(self, mark: LogMark) -> None:
        self._sync_mark = mark
        if not self._is_syncing:
            self._is_syncing = True
            self._begin(self._sync_all(), self._beside)

    async def _sync_all(self) -> None:
        """Sync for as long as there is something to sync: all that came during one sync at once."""
        try:
            while (mark := self._sync_mark) is not None:
                self._sync_mark, life = None, self._life_number
                await self._log.sync(mark)
                if life == self._life_number:  # the marks of another life mean nothing
                    self._step(events.LogSynced(mark))
        finally:
            self._is_syncing = False

    async def _check_snapshot(self, snapshot: SnapshotId) -> None:
        life = self._life_number
        core = self._core
        if core is None:
            return
        event: events.Event
        try:
            quorum = await self._log.finish_download(snapshot, core.life.cluster_id)
            stated = quorum.control.get(ControlType.KRAFT_VOTERS)
            voters = None if stated is None else voters_of(stated)
            event = events.SnapshotDownloaded(snapshot, voters)
        except (SnapshotSpoiled, CorruptRecords) as error:
            logger.warning("a fetched snapshot is refused: %s", error)
            event = events.SnapshotRefused(snapshot)
        if life == self._life_number:
            self._step(event)

    async def _disk_refused(self, error: StorageError | OSError) -> None:
        """Begin another life with what the disk has; end the node if nobody knows what that is."""
        life = self.life
        if life is None or not self._log.journal.writable:
            self._fail(error)
            return
        # Of a disk that takes small files only, each life would say it again.
        level = logging.ERROR if self._waits == 1 else logging.DEBUG
        logger.log(
            level,
            "the metadata cannot be written; until it can, nothing is committed here: %s",
            error,
        )
        self.refusal = error
        self._tell_resignation(life)
        self._end_life()
        self._owner.role_changed(out.RoleChanged(Role.UNATTACHED, life.epoch, NO_NODE))
        try:
            await self._writable_again(life)
            await self._log.make_durable()
        except (StorageError, OSError) as lost:
            self._fail(lost)
        else:
            if not self._is_closing:
                self.refusal = None
                self._live()

    def _tell_resignation(self, life: Life) -> None:
        """Tell the other voters that this leader resigns: else they wait until a time-out.

        Nobody has to know that they heard it. What else this life would do now is not done.
        """
        if self._core is None or not isinstance(life.state, Leader):
            return
        for effect in self._core.step(events.ResignWanted(), self._clock.monotonic()):
            match effect:
                case out.SendRequest(_, to, EndQuorumEpochRequest() as request):
                    self._begin(self._send_last(to, request), self._asking)

    async def _send_last(self, to: Destination, request: EndQuorumEpochRequest) -> None:
        """Send a request of a life that is over."""
        try:
            await self._peers.ask(to, request)
        except PeerUnavailable as error:
            logger.debug("node %s was not told of a resignation: %s", to, error)

    async def _writable_again(self, life: Life) -> None:
        """Return once the last promise could be written again: without that no life lasts."""
        waits, self._waits = self._waits, min(NEW_LIFE_WAITS_MAX, 2 * self._waits)
        while not self._is_closing:
            await asyncio.sleep(NEW_LIFE_S)  # never for long: a stop waits for it
            waits -= 1
            if waits > 0:
                continue
            try:
                await self._keep_promise(life.quorum, life)
            except (StorageError, OSError) as error:
                logger.debug("the metadata cannot be written yet: %s", error)
            else:
                return

    def _end_life(self) -> None:
        self._life_number += 1
        self._core = None
        self._sync_mark = None
        self._disarm()
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        """Let go of everybody who waits for an answer: it will not come."""
        self._effects.clear()
        for asked in tuple(self._asked):
            asked.future.cancel()

    def _fail(self, error: BaseException) -> None:
        self._end_life()
        if not isinstance(error, MoldauError):
            error = StorageError(self._log.folder, repr(error))
        self._owner.failed(error)


def _asked(token: Token) -> _Asked:
    assert isinstance(token, _Asked)  # nobody else gives the core tokens
    return token
