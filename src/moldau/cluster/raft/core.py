"""The core of one node: an event and the time in, effects out.

    core.step(event, now_s) -> effects, to be carried out in their order
    core.deadline_s         -> when to step with TimerFired, if nothing happens before

Everything the core decides is in the modules beside this one; here is only which of them an event
is for. After each event it is seen what has to be sent (`wanted`), and what may leave (`durable`).
"""

from __future__ import annotations

from moldau.base.clock import Random
from moldau.base.ids import LeaderEpoch
from moldau.cluster.raft import (
    elections,
    following,
    leading,
    own_entry,
    timers,
    transitions,
    voting,
)
from moldau.cluster.raft.effects import Answer, Effect, SendRequest, Stopped
from moldau.cluster.raft.events import (
    AnswerArrived,
    AppendWanted,
    ConnectionReset,
    Event,
    LogSynced,
    QuorumStateDurable,
    RequestArrived,
    RequestFailed,
    ResignWanted,
    SnapshotDownloaded,
    SnapshotEvent,
    SnapshotRefused,
    SnapshotTaken,
    StopWanted,
    TimerFired,
)
from moldau.cluster.raft.life import Life, new_life
from moldau.cluster.raft.log_position import LogPosition
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    BeginQuorumEpochAnswer,
    BeginQuorumEpochRequest,
    EndQuorumEpochAnswer,
    EndQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    QuorumAnswer,
    RemoveVoterRequest,
    Request,
    Token,
    UpdateVoterRequest,
    VoteAnswer,
    VoterChangeAnswer,
    VoterChangeRequest,
    VoteRequest,
)
from moldau.cluster.raft.resending import InFlight
from moldau.cluster.raft.states import Candidate, Follower, Leader, Prospective, Resigned
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voter_changes import voter_change_wanted
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import NO_NODE, Voter
from moldau.cluster.raft.wanted import wanted
from moldau.protocol.errors import ErrorCode


class RaftCore:
    """One node of the quorum, voter or observer, in one life."""

    def __init__(
        self,
        own: Voter,
        cluster_id: str,
        timeouts: Timeouts,
        random: Random,
        log: LogPosition,
        voter_history: VoterHistory,
        quorum: QuorumState,
        now_s: float,
        *,
        joins_voters: bool = False,
    ) -> None:
        """Begin with what is on the disk; `start` gives the first effects."""
        self.life: Life = new_life(
            own,
            cluster_id,
            timeouts,
            random,
            log,
            voter_history,
            quorum,
            now_s,
            joins_voters=joins_voters,
        )
        """For looking at; only `step` changes it."""

    @property
    def deadline_s(self) -> float:
        """When the next TimerFired is due."""
        return timers.deadline_s(self.life)

    def start(self) -> list[Effect]:
        """Become what the disk says."""
        elections.start(self.life)
        return self._leave()

    def step(self, event: Event, now_s: float) -> list[Effect]:
        """Take an event; return what has to be done."""
        life = self.life
        life.now_s = now_s
        was_stopped = life.is_stopped
        if not was_stopped or isinstance(event, QuorumStateDurable):
            self._handle(event)
        if life.is_stopped and not was_stopped:
            life.emit(Stopped())
        return self._leave()

    def _leave(self) -> list[Effect]:
        if not self.life.is_stopped:
            self._send()
        return self.life.outbox.take()

    def _send(self) -> None:
        life = self.life
        for to, request in tuple(wanted(life)):
            if life.outgoing.is_free(to):
                until_s = life.now_s + life.timeouts.request_s
                request_id = life.outgoing.begin(to, request, until_s)
                life.emit(SendRequest(request_id, to, request))
                if isinstance(request, VoterChangeRequest) and isinstance(life.state, Follower):
                    own_entry.change_sent(life, life.state)

    def _handle(self, event: Event) -> None:
        life = self.life
        match event:
            case QuorumStateDurable():
                life.outbox.written()
            case RequestArrived(token, request):
                self._requested(token, request)
            case AnswerArrived() | RequestFailed() | ConnectionReset():
                self._heard(event)
            case LogSynced(mark):
                if life.log.synced(mark):
                    leading.commit(life)
            case AppendWanted(content, count):
                leading.append_wanted(life, content, count)
            case TimerFired():
                life.outgoing.expire(life.now_s)
                elections.time_passed(life)
            case ResignWanted():
                leading.resign(life)
            case StopWanted():
                leading.stop(life)
            case _:
                self._snapshot_changed(event)

    # Other nodes

    def _requested(self, token: Token, request: Request) -> None:
        life = self.life
        if request.cluster_id not in (None, life.cluster_id):
            # Neither epoch nor leader is told: they mean nothing to another cluster.
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            life.emit(Answer(token, request.answer_type(error, LeaderEpoch(0), NO_NODE)))
            return
        if transitions.is_forged(life, request.stated_epoch):
            transitions.refuse(life, token, request, ErrorCode.INVALID_REQUEST)
            return
        match request:
            case VoteRequest():
                voting.vote_asked(life, token, request)
            case BeginQuorumEpochRequest():
                following.leader_has_begun(life, token, request)
            case EndQuorumEpochRequest():
                elections.leader_has_resigned(life, token, request)
            case FetchRequest():
                leading.fetched(life, token, request)
            case FetchSnapshotRequest():
                leading.snapshot_fetched(life, token, request)
            case _:
                voter_change_wanted(life, token, request)

    def _heard(self, event: AnswerArrived | RequestFailed | ConnectionReset) -> None:
        """Take an answer, or what came in place of one."""
        life = self.life
        if isinstance(event, ConnectionReset):
            life.outgoing.lost(event.node, life.now_s)
            if event.node == life.quorum.leader:
                elections.leader_is_gone(life)
            return
        sent = life.outgoing.take(event.request_id)
        if sent is None:
            return
        if (
            isinstance(event, RequestFailed)
            or event.answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID
            or transitions.is_forged(life, event.answer.epoch)
        ):
            life.outgoing.failed(sent.to, life.now_s)
        elif not transitions.observe(life, event.answer.epoch, event.answer.leader):
            self._answered(sent, event.answer)

    def _answered(self, sent: InFlight, answer: QuorumAnswer) -> None:
        life = self.life
        match sent.request, answer, life.state:
            case VoteRequest() as request, VoteAnswer(), (Prospective() | Candidate()) as state:
                life.outgoing.succeeded(sent.to)
                elections.vote_answered(life, state, request, answer)
            case BeginQuorumEpochRequest() as request, BeginQuorumEpochAnswer(), Leader() as state:
                life.outgoing.succeeded(sent.to)
                leading.begin_answered(life, state, request)
            case EndQuorumEpochRequest(), EndQuorumEpochAnswer(), Resigned() as state:
                elections.handover_heard(life, state, sent.to)
            case FetchRequest(), FetchAnswer(), _:
                following.fetch_answered(life, sent.to, answer)
            case (
                (AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest()) as request,
                VoterChangeAnswer(),
                Follower() as state,
            ):
                life.outgoing.succeeded(sent.to)
                own_entry.change_answered(state, request, answer)
            case FetchSnapshotRequest() as request, FetchSnapshotAnswer(), _:
                following.snapshot_answered(life, sent.to, request, answer)
            case _:
                life.outgoing.failed(sent.to, life.now_s)  # The answer is to something else.

    # The disk

    def _snapshot_changed(self, event: SnapshotEvent) -> None:
        life = self.life
        match event:
            case SnapshotDownloaded():
                following.snapshot_downloaded(life, event)
            case SnapshotRefused():
                following.snapshot_refused(life, event)
            case SnapshotTaken(snapshot):
                life.log.take_snapshot(snapshot)
            case _:
                life.log.trim(event.start_offset, event.oldest_snapshot)
