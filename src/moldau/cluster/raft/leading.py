"""What a leader does: it begins its epoch, serves fetches, commits, and resigns when it has to.

All that a leader knows of the others comes with their fetches. A fetch from an offset says that
everything before it is durable there, and that the replica is alive and in this epoch. A leader
that no majority fetches from resigns: another one may lead by now, and it must not keep those
waiting who still ask it (check-quorum).
"""

from __future__ import annotations

from math import inf
from typing import Final

from moldau.base.ids import LeaderEpoch, Offset
from moldau.cluster.raft.commitment import committed_offset
from moldau.cluster.raft.divergence import diverging, snapshot_instead
from moldau.cluster.raft.effects import (
    Answer,
    AnswerWithRecords,
    AnswerWithSnapshot,
    AppendAsLeader,
    AppendRefused,
    SyncLog,
)
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.requests import (
    BeginQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    LeaderChange,
    Token,
    VoterChangeAnswer,
)
from moldau.cluster.raft.states import Leader, ParkedFetch, Progress, Resigned
from moldau.cluster.raft.transitions import (
    become_leader,
    become_resigned,
    become_sole_leader,
    finish_stop,
    refuse,
)
from moldau.cluster.raft.voters import ReplicaKey, VoterSet
from moldau.protocol.errors import ErrorCode

REPLICAS_MAX: Final = 1_000
"""How many replicas a leader remembers; anybody may fetch under any name."""

FETCH_WAIT_MAX_S: Final = 30.0
"""How long a fetch is parked, whatever it asks for; nodes ask for half a second."""


def lead(life: Life, granting: tuple[ReplicaKey, ...]) -> None:
    """Begin to lead the epoch of an election."""
    _begin_epoch(life, become_leader(life), granting)


def lead_alone(life: Life) -> None:
    """Begin to lead the next epoch, as the only voter."""
    _begin_epoch(life, become_sole_leader(life), life.voters.keys)


def _begin_epoch(life: Life, state: Leader, granting: tuple[ReplicaKey, ...]) -> None:
    """Say in the first records of an epoch who leads it."""
    logged = _unlogged_voters(life)
    change = LeaderChange(life.me.node, life.voters.keys, granting, logged)
    if logged is None:
        append(life, state, change, 1)
    else:
        # LEADER_CHANGE, KRAFT_VERSION, KRAFT_VOTERS
        life.voter_history.append(Offset(life.log.end_offset + 2), logged)
        append(life, state, change, 3)


def _unlogged_voters(life: Life) -> VoterSet | None:
    """Return the voter set if the log has to state it: none is there yet, or this node moved."""
    history = life.voter_history
    if not history.is_dynamic:
        return None
    voters = life.voters.with_voter(life.own) if life.is_voter else life.voters
    return None if history.logged and voters == life.voters else voters


def append_wanted(life: Life, content: object, count: int) -> None:
    """Append what the active controller wants to, if this node still leads."""
    state = life.state
    if isinstance(state, Leader):
        append(life, state, content, count)
    else:
        life.emit(AppendRefused(content))


def append(life: Life, state: Leader, content: object, count: int) -> None:
    """Append a batch of so many records."""
    base = life.log.append(life.epoch, count)
    life.emit(AppendAsLeader(base, life.epoch, content))
    life.emit(SyncLog(life.log.mark))
    _answer_parked(life, state)


# What replicas ask for


def problem(life: Life, epoch: LeaderEpoch) -> ErrorCode:
    """Say why a request to the leader of an epoch is not served."""
    if life.is_stopping:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if epoch < life.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > life.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(life.state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def fetched(life: Life, token: Token, request: FetchRequest) -> None:
    """Answer a fetch, or park it until there is something new."""
    error = problem(life, request.epoch)
    state = life.state
    if error is not ErrorCode.NONE or not isinstance(state, Leader):
        refuse(life, token, request, error)
        return
    epoch, offset = request.last
    if offset < 0:
        refuse(life, token, request, ErrorCode.INVALID_REQUEST)
        return
    progress = _contact(life, state, request.replica)
    snapshot = snapshot_instead(life.log, offset, epoch)
    end = None if snapshot is not None else diverging(life.log, offset, epoch)
    if snapshot is not None or end is not None:
        known = (ErrorCode.NONE, life.epoch, life.leader, life.high_watermark)
        life.emit(Answer(token, FetchAnswer(*known, diverging=end, snapshot=snapshot)))
        return
    progress.end_offset = offset
    _note_caught_up(life, progress)
    wait_s = min(request.max_wait_s, FETCH_WAIT_MAX_S)
    _park(life, state, ParkedFetch(token, request, life.now_s + wait_s))
    commit(life)


def _note_caught_up(life: Life, progress: Progress) -> None:
    """Take note that a replica had all that the leader had: now, or when it fetched before.

    While the log grows all the time, no fetch is of its very end.
    """
    if progress.end_offset == life.log.end_offset:
        progress.caught_up_s = life.now_s
    elif progress.end_offset >= progress.offered_offset:
        progress.caught_up_s = max(progress.caught_up_s, progress.offered_s)
    progress.offered_offset, progress.offered_s = life.log.end_offset, life.now_s


def begin_answered(life: Life, state: Leader, request: BeginQuorumEpochRequest) -> None:
    """Give a voter that knows its leader the time to fetch."""
    state.replicas[request.voter].begin_due_s = life.now_s + life.timeouts.fetch_s / 2


def _park(life: Life, state: Leader, fetch: ParkedFetch) -> None:
    """Let a fetch wait, unless there is something to tell already."""
    request = fetch.request
    earlier = state.parked.pop(request.replica, None)
    if earlier is not None:
        _answer_fetch(life, earlier)
    if (
        request.last.offset < life.log.end_offset
        or 0 <= request.high_watermark < life.high_watermark
        or request.max_wait_s <= 0
        or len(state.parked) >= REPLICAS_MAX
    ):
        _answer_fetch(life, fetch)
    else:
        state.parked[request.replica] = fetch


def _answer_fetch(life: Life, fetch: ParkedFetch) -> None:
    answer = FetchAnswer(ErrorCode.NONE, life.epoch, life.leader, life.high_watermark)
    life.emit(AnswerWithRecords(fetch.token, answer, fetch.request.last.offset))


def _answer_parked(life: Life, state: Leader) -> None:
    """Answer every fetch that waits: there are records, or more of them are committed."""
    parked, state.parked = state.parked, {}
    for fetch in parked.values():
        _answer_fetch(life, fetch)


def snapshot_fetched(life: Life, token: Token, request: FetchSnapshotRequest) -> None:
    """Answer with a part of a snapshot; one that is older than the newest may still be there."""
    error = problem(life, request.epoch)
    state, log = life.state, life.log
    if error is not ErrorCode.NONE or not isinstance(state, Leader):
        refuse(life, token, request, error)
        return
    _contact(life, state, request.replica)
    oldest, newest = log.oldest_snapshot, log.newest_snapshot
    if oldest is None or newest is None or not oldest <= request.snapshot <= newest:
        refuse(life, token, request, ErrorCode.SNAPSHOT_NOT_FOUND)
    elif request.position < 0:
        refuse(life, token, request, ErrorCode.POSITION_OUT_OF_RANGE)
    else:
        known = (ErrorCode.NONE, life.epoch, life.leader)
        part = FetchSnapshotAnswer(*known, request.snapshot, request.position)
        life.emit(AnswerWithSnapshot(token, part))


def _contact(life: Life, state: Leader, replica: ReplicaKey) -> Progress:
    """Take note that a replica is alive and in this epoch."""
    voter = life.voters.find(replica)
    key = replica if voter is None else voter.key
    if key not in state.replicas:
        _forget_observers(life, state)
        if voter is None and len(state.replicas) >= REPLICAS_MAX:
            return Progress(life.now_s, inf)  # It is served, and not remembered.
        state.replicas[key] = Progress(life.now_s, inf)
    progress = state.replicas[key]
    progress.fetched_s = life.now_s
    progress.begin_due_s = life.now_s + life.timeouts.fetch_s / 2
    return progress


def _forget_observers(life: Life, state: Leader) -> None:
    oldest_s = life.now_s - life.timeouts.observer_memory_s
    for key, progress in tuple(state.replicas.items()):
        if progress.fetched_s < oldest_s and life.voters.find(key) is None:
            del state.replicas[key]


# What is committed


def commit(life: Life) -> None:
    """Raise the high watermark as far as a majority of voters has the log durable."""
    state = life.state
    if not isinstance(state, Leader):
        return
    ends = {key: progress.end_offset for key, progress in state.replicas.items()}
    own = life.voters.find(life.me)
    if own is not None:
        ends[own.key] = life.log.synced_offset
    if life.raise_high_watermark(committed_offset(life.voters, ends, state.epoch_start)):
        _answer_parked(life, state)
        _finish_voter_change(life, state)


def _finish_voter_change(life: Life, state: Leader) -> None:
    """Answer for a voter change that is committed; a leader that it has removed resigns."""
    change = state.change
    if change is not None and change.offset < life.high_watermark:
        state.change = None
        done = VoterChangeAnswer(ErrorCode.NONE, life.epoch, life.leader)
        life.emit(Answer(change.token, done))
    if not life.is_voter and life.voter_history.newest.offset < life.high_watermark:
        resign(life)


# When it ends


def quorum_deadline_s(life: Life, state: Leader) -> float:
    """Say when this leader resigns, unless more voters fetch before."""
    needed = life.voters.majority - life.is_voter
    if needed == 0:
        return inf
    others = life.voters.others(life.me)
    fetched_s = sorted((state.replicas[key].fetched_s for key in others), reverse=True)
    return fetched_s[needed - 1] + life.timeouts.check_quorum_s


def time_passed(life: Life, state: Leader) -> None:
    """Answer fetches that have waited long enough; resign without a majority."""
    for key, fetch in tuple(state.parked.items()):
        if fetch.until_s <= life.now_s:
            del state.parked[key]
            _answer_fetch(life, fetch)
    if quorum_deadline_s(life, state) <= life.now_s:
        resign(life)


def resign(life: Life) -> None:
    """Lead no more; the replica that has most of the log should be the next."""
    state = life.state
    if isinstance(state, Leader):
        others = life.voters.others(life.me)
        ends = {key: state.replicas[key].end_offset for key in others}
        become_resigned(life, tuple(sorted(others, key=lambda key: -ends[key])))


def stop(life: Life) -> None:
    """Stop cleanly: a leader tells the others first."""
    life.is_stopping = True
    resign(life)
    state = life.state
    if not isinstance(state, Resigned) or not state.untold:
        finish_stop(life)
