"""What a follower does: it takes what its leader sends, and cuts its log where the two part.

An answer is taken from the leader of this epoch alone, for the fetch that is under way. Nothing is
taken on trust that the follower can check: batches have to continue its log, in epochs that do not
go back and are none of a later leader (KAFKA-18723). What is committed is never cut.
"""

from __future__ import annotations

from moldau.base.checks import invariant
from moldau.base.ids import Offset
from moldau.cluster.raft.divergence import truncation_offset
from moldau.cluster.raft.effects import (
    Answer,
    AppendFetched,
    FinishSnapshot,
    InstallSnapshot,
    StoreSnapshotPart,
    SyncLog,
    TruncateLog,
)
from moldau.cluster.raft.elections import leader_is_gone
from moldau.cluster.raft.events import SnapshotDownloaded, SnapshotRefused
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.requests import (
    Batch,
    BeginQuorumEpochAnswer,
    BeginQuorumEpochRequest,
    FetchAnswer,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    QuorumAnswer,
    Token,
)
from moldau.cluster.raft.resending import Destination
from moldau.cluster.raft.states import Download, Follower
from moldau.cluster.raft.transitions import observe, refuse
from moldau.cluster.raft.voters import NO_NODE
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.storage.epochs import EpochEnd

_LEADS_NO_MORE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE)


def leader_has_begun(life: Life, token: Token, request: BeginQuorumEpochRequest) -> None:
    """Follow a leader that says that it was elected."""
    if request.epoch < life.epoch:
        refuse(life, token, request, ErrorCode.FENCED_LEADER_EPOCH)
        return
    if not request.voter.names(life.me):
        refuse(life, token, request, ErrorCode.INVALID_VOTER_KEY)
        return
    if request.leader not in (NO_NODE, life.me.node):
        observe(life, request.epoch, request.leader)
    if request.leader == NO_NODE or request.leader != life.leader or request.epoch != life.epoch:
        # A second leader of the epoch, or this node itself: that is not believed.
        refuse(life, token, request, ErrorCode.INVALID_REQUEST)
        return
    answer = BeginQuorumEpochAnswer(ErrorCode.NONE, life.epoch, life.leader)
    life.emit(Answer(token, answer))


def _from_leader(life: Life, sent_to: Destination, answer: QuorumAnswer) -> Follower | None:
    """Return the state that takes an answer; None if the answer is not the leader's, or an error.

    Then the node that was asked is left alone for a moment.
    """
    state = life.state
    is_success = answer.error is ErrorCode.NONE and answer.epoch == life.epoch
    if isinstance(state, Follower) and is_success and answer.leader == life.leader:
        state.deadline_s = life.now_s + life.timeouts.fetch_s
        state.has_fetched = True
        life.failed_elections = 0
        life.outgoing.succeeded(sent_to)
        return state
    life.outgoing.failed(sent_to, life.now_s)
    is_own_leader = sent_to == life.leader and answer.epoch == life.epoch
    if is_own_leader and answer.error in _LEADS_NO_MORE:
        leader_is_gone(life)
    return None


def fetch_answered(life: Life, sent_to: Destination, answer: FetchAnswer) -> None:
    """Take records, or hear where the log has to be cut, or that it has to begin again."""
    state = _from_leader(life, sent_to, answer)
    if state is None:
        return
    if answer.snapshot is not None:
        _begin_download(life, state, answer.snapshot)
    elif answer.diverging is not None:
        _cut(life, answer.diverging, sent_to)
    elif _append(life, answer.batches) or not answer.batches:
        life.raise_high_watermark(min(life.log.end_offset, answer.high_watermark))
    else:
        life.outgoing.failed(sent_to, life.now_s)  # It would send the same again.


def _append(life: Life, batches: tuple[Batch, ...]) -> bool:
    """Append the batches that continue the log; return whether there were any."""
    log, history = life.log, life.voter_history
    taken = []
    for batch in batches:
        is_next = log.end_offset == batch.base_offset < batch.end_offset
        if not is_next or not log.last_epoch <= batch.epoch <= life.epoch:
            break
        log.append(batch.epoch, batch.end_offset - batch.base_offset)
        if batch.voters is not None:
            history.append(batch.voters_offset, batch.voters)
        taken.append(batch)
    if taken:
        life.emit(AppendFetched(tuple(taken)))
        life.emit(SyncLog(log.mark))
    return bool(taken)


def _cut(life: Life, leader_end: EpochEnd, sent_to: Destination) -> None:
    """Cut the log where it has left the leader's."""
    log = life.log
    offset = truncation_offset(log, leader_end)
    if offset >= log.end_offset:
        life.outgoing.failed(sent_to, life.now_s)  # That is no answer to what was asked.
        return
    invariant(
        offset >= life.high_watermark,
        f"the leader of epoch {life.epoch} parts at {leader_end} with what is committed here"
        f" up to {life.high_watermark}",
    )
    log.truncate(offset)
    life.voter_history.truncate(offset)
    life.emit(TruncateLog(offset))


# Snapshots


def _begin_download(life: Life, state: Follower, snapshot: SnapshotId) -> None:
    invariant(
        snapshot.end_offset >= life.high_watermark,
        f"the leader of epoch {life.epoch} offers {snapshot}, but {life.high_watermark} is"
        " committed here",
    )
    state.download = Download(snapshot)


def snapshot_answered(
    life: Life, sent_to: Destination, request: FetchSnapshotRequest, answer: FetchSnapshotAnswer
) -> None:
    """Keep a part of a snapshot, and ask for the next one; without it begin with a fetch again."""
    state = _from_leader(life, sent_to, answer)
    if state is None:
        if isinstance(life.state, Follower):
            life.state.download = None
        return
    download = state.download
    part = (answer.snapshot, answer.position)
    is_expected = part == (request.snapshot, request.position)
    if download is None or not is_expected or not 0 < len(answer.data) <= answer.size:
        state.download = None
        life.outgoing.failed(sent_to, life.now_s)
        return
    life.emit(StoreSnapshotPart(download.snapshot, download.position, answer.data))
    download.position += len(answer.data)
    if download.position >= answer.size:
        download.is_complete = True
        life.emit(FinishSnapshot(download.snapshot))


def snapshot_downloaded(life: Life, event: SnapshotDownloaded) -> None:
    """Begin the log anew behind a snapshot, if this node still waits for it."""
    state = life.state
    if not isinstance(state, Follower) or not _is_waiting_for(state, event.snapshot):
        return
    state.download = None
    life.log.restart(event.snapshot)
    if event.voters is not None:
        life.voter_history.restart(event.voters)
    else:
        life.voter_history.truncate(Offset(0))  # what this log has named was not committed
    life.emit(InstallSnapshot(event.snapshot))
    life.raise_high_watermark(Offset(event.snapshot.end_offset))


def snapshot_refused(life: Life, event: SnapshotRefused) -> None:
    """Fetch it once more."""
    state = life.state
    if isinstance(state, Follower) and _is_waiting_for(state, event.snapshot):
        state.download = None
        life.outgoing.failed(life.leader, life.now_s)


def _is_waiting_for(state: Follower, snapshot: SnapshotId) -> bool:
    download = state.download
    return download is not None and download.is_complete and download.snapshot == snapshot
