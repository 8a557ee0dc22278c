"""One core in the hands of a test, which plays its disk, its clock and all other nodes.

The disk is quick unless `disk_is_slow`: what has to be durable is so at once. Keys have the number
of the node in their directory, so that `key(2)` is voter 2 everywhere.
"""

from __future__ import annotations

from math import inf
from random import Random

from moldau.cluster.raft import effects as out
from moldau.cluster.raft import events
from moldau.cluster.raft.core import RaftCore
from moldau.cluster.raft.log_position import LogEnd, LogPosition
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import Batch, FetchAnswer, FetchRequest, VoteRequest
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import NO_DIRECTORY, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.storage.epochs import EpochEntry, LeaderEpochs

CLUSTER = "a cluster"


def key(node: int, directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node, bytes(15) + bytes([node if directory is None else directory]))


def voter_set(*nodes: int, is_static: bool = False) -> VoterSet:
    if is_static:
        return VoterSet(tuple(Voter(ReplicaKey(node, NO_DIRECTORY)) for node in nodes))
    return VoterSet(tuple(Voter(key(node)) for node in nodes))


def log_of(
    *entries: tuple[int, int],
    end: int,
    start: int = 0,
    snapshots: tuple[SnapshotId, ...] = (),
) -> LogPosition:
    """Return a log with these epochs and their first offsets."""
    epochs = LeaderEpochs(EpochEntry(*entry) for entry in entries)
    oldest, newest = (min(snapshots), max(snapshots)) if snapshots else (None, None)
    return LogPosition(epochs, start, end, end, oldest, newest)


class RaftNode:
    """One node, as the test sees it from outside."""

    def __init__(
        self,
        *,
        me: int = 1,
        voters: tuple[int, ...] = (1, 2, 3),
        quorum: QuorumState | None = None,
        log: LogPosition | None = None,
        is_static: bool = False,
        own: Voter | None = None,
        voter_history: VoterHistory | None = None,
        joins_voters: bool = False,
    ) -> None:
        self.now_s = 100.0
        self.disk_is_slow = False
        self.timeouts = Timeouts()
        self.effects: list[out.Effect] = []
        """Everything that has left the core."""
        self.open: dict[int, out.SendRequest] = {}
        """Requests that the test has not answered."""
        self._tokens = 0
        first = voter_set(*voters, is_static=is_static)
        self.core = RaftCore(
            own or Voter(key(me)),
            CLUSTER,
            self.timeouts,
            Random(1),
            log or LogPosition(),
            voter_history or VoterHistory(first, is_static=is_static),
            quorum or QuorumState(),
            self.now_s,
            joins_voters=joins_voters,
        )
        self._take(self.core.start())

    # What it is

    @property
    def life(self):
        return self.core.life

    @property
    def state(self):
        return self.core.life.state

    @property
    def role(self) -> Role:
        return self.state.role

    @property
    def quorum(self) -> QuorumState:
        return self.core.life.quorum

    @property
    def persisted(self) -> QuorumState | None:
        written = self.of(out.PersistQuorumState)
        return written[-1].quorum if written else None

    def of(self, kind: type) -> list:
        """Return what has left the core of one kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    # Events

    def step(self, event: events.Event) -> list[out.Effect]:
        return self._take(self.core.step(event, self.now_s))

    def _take(self, effects: list[out.Effect]) -> list[out.Effect]:
        taken = list(effects)
        self.effects += effects
        for effect in effects:
            if isinstance(effect, out.SendRequest):
                self.open[effect.request_id] = effect
            elif isinstance(effect, out.PersistQuorumState) and not self.disk_is_slow:
                taken += self.step(events.QuorumStateDurable())
            elif isinstance(effect, out.SyncLog) and not self.disk_is_slow:
                taken += self.step(events.LogSynced(effect.mark))
        in_flight = self.core.life.outgoing.in_flight
        self.open = {one: sent for one, sent in self.open.items() if one in in_flight}
        return taken

    def wait(self, seconds: float) -> None:
        """Let time pass, and fire the timers that are due in it."""
        end_s = self.now_s + seconds
        while self.core.deadline_s <= end_s:
            assert self.core.deadline_s > self.now_s or self.now_s == end_s, "wakes up again"
            self.now_s = max(self.now_s, self.core.deadline_s)
            self.step(events.TimerFired())
        self.now_s = end_s

    def wait_for_timeout(self) -> None:
        """Let the time-out of the state pass, and nothing after it."""
        self.now_s = self.state.deadline_s
        assert self.now_s < inf
        self.step(events.TimerFired())

    # Requests of this node

    def asked(self, kind: type, to: int | None = None) -> out.SendRequest:
        """Return the open request of a kind; the only one, or the one to that node."""
        found = [
            sent
            for sent in self.open.values()
            if isinstance(sent.request, kind) and to in (None, sent.to)
        ]
        assert len(found) == 1, f"{len(found)} of {kind.__name__} to {to}: {self.open}"
        return found[0]

    def asks(self, kind: type) -> list:
        """Return whom it asks."""
        return [sent.to for sent in self.open.values() if isinstance(sent.request, kind)]

    def answer(self, sent: out.SendRequest, **fields) -> list[out.Effect]:
        """Answer a request; without fields for it, from a node in the same epoch."""
        known = {"error": ErrorCode.NONE, "epoch": self.quorum.epoch, "leader": self.life.leader}
        answer = sent.request.answer_type(**(known | fields))
        return self.step(events.AnswerArrived(sent.request_id, answer))

    # Requests of others

    def ask(self, request) -> object:
        """Ask; return the answer, or None while it waits."""
        self._tokens += 1
        token = f"request {self._tokens}"
        self.step(events.RequestArrived(token, request))
        return self.answer_to(token)

    def answer_to(self, token: str):
        kinds = (out.Answer, out.AnswerWithRecords, out.AnswerWithSnapshot)
        found = [one.answer for one in self.of(kinds) if one.token == token]
        return found[0] if found else None

    def vote(self, *, epoch: int, by: int = 2, last=None, is_pre_vote=False, voter=None):
        """Ask for its vote, with a log like its own."""
        own = voter or self.life.me
        log_end = self.life.log.end if last is None else LogEnd(*last)
        request = VoteRequest(CLUSTER, epoch, key(by), own, log_end, is_pre_vote)
        return self.ask(request)

    def fetch(self, by: int | ReplicaKey, *, last=None, epoch=None, wait=0.5, high_watermark=-1):
        """Fetch from it, from the end of its log."""
        request = FetchRequest(
            CLUSTER,
            key(by) if isinstance(by, int) else by,
            self.quorum.epoch if epoch is None else epoch,
            self.life.log.end if last is None else LogEnd(*last),
            high_watermark,
            wait,
        )
        return self.ask(request)

    # Ways to states

    def become_prospective(self) -> RaftNode:
        self.wait_for_timeout()
        assert self.role is Role.PROSPECTIVE
        return self

    def become_candidate(self) -> RaftNode:
        self.become_prospective()
        self.answer(self.asked(VoteRequest, 2), granted=True)
        assert self.role is Role.CANDIDATE
        return self

    def become_leader(self) -> RaftNode:
        self.become_candidate()
        self.answer(self.asked(VoteRequest, 2), granted=True)
        assert self.role is Role.LEADER
        return self

    def commit_all(self) -> RaftNode:
        """Let voter 2 fetch from the end of the log."""
        self.fetch(2)
        assert self.life.high_watermark == self.life.log.end_offset
        return self


def follower(epoch: int = 5, leader: int = 2, *, has_fetched: bool = True, **options) -> RaftNode:
    """Return a node that follows a leader, and has fetched from it once."""
    node = RaftNode(quorum=QuorumState(epoch, leader), **options)
    if has_fetched:
        end = node.life.log.end_offset
        node.answer(node.asked(FetchRequest), high_watermark=end)
    assert node.role is Role.FOLLOWER
    return node


def batches(*ends: tuple[int, int], start: int = 0) -> tuple[Batch, ...]:
    """Return batches by their epochs and end offsets."""
    made = []
    for epoch, end in ends:
        made.append(Batch(start, end, epoch, f"{epoch}: {start} to {end}"))
        start = end
    return tuple(made)


def records(node: RaftNode, *ends: tuple[int, int], high_watermark: int = 0) -> list[out.Effect]:
    """Answer the fetch of a node with batches behind its log."""
    sent = node.asked(FetchRequest)
    added = batches(*ends, start=node.life.log.end_offset)
    return node.answer(sent, batches=added, high_watermark=high_watermark)


__all__ = [
    "CLUSTER",
    "FetchAnswer",
    "RaftNode",
    "batches",
    "follower",
    "key",
    "log_of",
    "records",
    "voter_set",
]
