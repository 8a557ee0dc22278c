"""A node of the modelled quorum: a real core, and the smallest driver that it can have.

It carries out the effects of the core, in their order. A batch is a `Batch`, a snapshot is its name
with its voters, and its parts are bytes without a meaning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kits.raft_checks import Violation
from kits.raft_disk import Disk
from moldau.cluster.raft import effects as out
from moldau.cluster.raft import events
from moldau.cluster.raft.core import RaftCore
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    Batch,
    FetchRequest,
    FetchSnapshotRequest,
    LeaderChange,
    VoteAnswer,
    VotersChange,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kits.raft_model import Model

SNAPSHOT_SIZE = 10
PART_SIZE = 4
BATCHES_MAX = 3
"""In one answer to a fetch."""


class Node:
    """One node: its disk, and its core while it is up."""

    def __init__(self, model: Model, disk: Disk) -> None:
        self.model = model
        self.disk = disk
        self.core: RaftCore | None = None
        self.life = 0
        self.high_watermark = 0
        self.epoch = 0
        self.role: Role | None = None
        self.paused_until_s = 0.0
        self.timer_s = -1.0
        self.answers: list = []
        """To tools: (token, answer)."""
        self._parts: dict[SnapshotId, int] = {}
        self._asked: dict = {}

    def __repr__(self) -> str:
        return f"node {self.id} ({self.role and self.role.value}, epoch {self.epoch})"

    @property
    def key(self) -> ReplicaKey:
        return self.disk.key

    @property
    def id(self) -> int:
        return self.disk.key.node

    @property
    def voters(self) -> VoterSet:
        return self.core.life.voters if self.core else self.disk.voter_history().newest.voters

    @property
    def leads(self) -> bool:
        """Whether it takes itself for the leader."""
        return self.core is not None and self.role is Role.LEADER

    # Lives

    def start(self) -> None:
        self.life += 1
        model = self.model
        self.core = RaftCore(
            Voter(self.key),
            "a cluster",
            model.timeouts,
            model.random,
            self.disk.position(),
            self.disk.voter_history(),
            self.disk.read_quorum(),
            model.now_s,
            joins_voters=model.joins_voters,
        )
        self.high_watermark = self.core.life.high_watermark
        self._parts.clear()
        self._carry_out(self.core.start())

    def crash(self) -> None:
        """End at once, as by a power cut."""
        self.core, self.role = None, None
        self.timer_s = -1.0
        self.paused_until_s = 0.0
        self.disk.crash(self.model.random)
        self._asked.clear()

    def pause(self, seconds: float) -> None:
        """Sleep, as a process that is stopped: what comes in the meantime waits."""
        self.paused_until_s = max(self.paused_until_s, self.model.now_s + seconds)

    def step(self, event: events.Event) -> None:
        if self.core is not None:
            self._carry_out(self.core.step(event, self.model.now_s))

    def fire(self, due_s: float) -> None:
        """Wake the core, unless it wants to be woken at another time by now."""
        if self.core is None or self.timer_s != due_s:
            return
        self.timer_s = -1.0
        self.step(events.TimerFired())
        if self.core is not None and self.core.deadline_s <= self.model.now_s:
            raise Violation(f"{self} wants to be woken again at once: {self.core.life.state}")

    def _carry_out(self, effects: list[out.Effect]) -> None:
        for effect in effects:
            _CARRY_OUT[type(effect)](self, effect)
            if self.core is None:
                return
        deadline_s = self.core.deadline_s
        if deadline_s != self.timer_s and deadline_s < float("inf"):
            self.timer_s = deadline_s
            self.model.at(self, deadline_s, self.fire, deadline_s)

    # Effects

    def _persist(self, effect: out.PersistQuorumState) -> None:
        self.model.checks.persists(self, effect.quorum)
        self.disk.quorum_writing = effect.quorum
        self.model.after(self, self.model.sync_delay(), self._persisted, effect.quorum)

    def _persisted(self, quorum: QuorumState) -> None:
        self.disk.quorum = quorum
        self.disk.quorum_writing = None
        self.step(events.QuorumStateDurable())

    def _send(self, effect: out.SendRequest) -> None:
        model = self.model
        model.checks.says(self, effect.request)
        to = effect.to
        if to is None:
            to = model.random.choice(
                [one.id for one in model.nodes if one is not self] or [self.id]
            )
        model.send(self, to, effect.request_id, effect.request)

    def _answer(self, effect: out.Answer) -> None:
        self.model.checks.says(self, effect.answer)
        request = self._asked.pop(effect.token, None)
        if isinstance(effect.answer, VoteAnswer):
            self.model.checks.votes_for(self, request, effect.answer)
        self.model.answer(self, effect.token, request, effect.answer)

    def _answer_with_records(self, effect: out.AnswerWithRecords) -> None:
        batches = [one for one in self.disk.log if one.base_offset >= effect.read_from]
        answer = replace(effect.answer, batches=tuple(batches[:BATCHES_MAX]))
        self._answer(out.Answer(effect.token, answer))

    def _answer_with_snapshot(self, effect: out.AnswerWithSnapshot) -> None:
        answer = effect.answer
        if answer.snapshot not in self.disk.snapshots:
            answer = replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        else:
            size = min(PART_SIZE, SNAPSHOT_SIZE - answer.position)
            answer = replace(answer, data=b"s" * size, size=SNAPSHOT_SIZE)
        self._answer(out.Answer(effect.token, answer))

    def _append_as_leader(self, effect: out.AppendAsLeader) -> None:
        content, base, checks = effect.content, effect.base_offset, self.model.checks
        checks.writes(self, effect.epoch)
        voters, voters_offset, count = None, -1, 1
        if isinstance(content, LeaderChange):
            checks.begins(self, effect.epoch, content)
            if content.logged_voters is not None:
                voters, voters_offset, count = content.logged_voters, base + 2, 3
        elif isinstance(content, VotersChange):
            old = self.disk.voter_history().newest
            checks.changes_voters(self, content, old.voters, old.offset)
            count = content.record_count
            voters, voters_offset = content.voters, base + count - 1
        else:
            count = content.count
        batch = Batch(base, base + count, effect.epoch, content, voters, voters_offset)
        self._append(batch)

    def _append_fetched(self, effect: out.AppendFetched) -> None:
        for batch in effect.batches:
            self._append(batch)

    def _append(self, batch: Batch) -> None:
        log = self.disk.log
        if batch.base_offset != self.disk.end:
            raise Violation(f"{self} appends {batch} at {self.disk.end}")
        self.model.checks.appends(self, batch, log[-1] if log else None)
        log.append(batch)

    def _append_refused(self, effect: out.AppendRefused) -> None:
        self.model.checks.seen["refused append"] += 1
        del effect

    def _sync(self, effect: out.SyncLog) -> None:
        written = list(self.disk.log)
        start = self.disk.start
        self.model.after(self, self.model.sync_delay(), self._synced, effect.mark, written, start)

    def _synced(self, mark, written: list[Batch], start: int) -> None:
        log = self.core.life.log
        is_later = mark.cut_count == log.cut_count and mark.end_offset > log.synced_offset
        if is_later and start <= self.disk.start:
            self.disk.durable = [one for one in written if one.base_offset >= self.disk.start]
        self.step(events.LogSynced(mark))

    def _truncate(self, effect: out.TruncateLog) -> None:
        disk = self.disk
        self.model.checks.truncates(self, effect.end_offset)
        disk.log = [one for one in disk.log if one.base_offset < effect.end_offset]
        if disk.end != effect.end_offset:
            raise Violation(f"{self} cuts at {effect.end_offset}, within {disk.log[-1]}")

    def _store_part(self, effect: out.StoreSnapshotPart) -> None:
        if effect.position != (self._parts.get(effect.snapshot, 0) if effect.position else 0):
            raise Violation(f"{self} stores {effect} behind {self._parts}")
        self._parts[effect.snapshot] = effect.position + len(effect.data)

    def _finish_snapshot(self, effect: out.FinishSnapshot) -> None:
        if self._parts.pop(effect.snapshot) != SNAPSHOT_SIZE:
            raise Violation(f"{self} takes {effect} for whole")
        event = events.SnapshotRefused(effect.snapshot)
        if self.model.random.random() < 0.9:
            voters = self.model.snapshots[effect.snapshot]
            event = events.SnapshotDownloaded(effect.snapshot, voters)
        self.model.after(self, 0.01, self.step, event)

    def _install(self, effect: out.InstallSnapshot) -> None:
        disk, snapshot = self.disk, effect.snapshot
        self.model.checks.seen["snapshot installed"] += 1
        disk.log, disk.durable = [], []
        disk.start = snapshot.end_offset
        voters = self.model.snapshots[snapshot]
        disk.snapshots = {snapshot: voters}
        if voters is not None:
            disk.first_voters, disk.is_static = voters, False

    def _committed(self, effect: out.HighWatermarkMoved) -> None:
        self.model.checks.commits(self, effect.offset, is_leader=self.leads)
        self.high_watermark = effect.offset

    def _role(self, effect: out.RoleChanged) -> None:
        checks = self.model.checks
        if effect.epoch < self.epoch and self.life == self._role_life:
            raise Violation(f"{self} goes back to epoch {effect.epoch}")
        self._role_life = self.life
        checks.seen[effect.role.value] += 1
        self.epoch, self.role = effect.epoch, effect.role
        if effect.role is Role.PROSPECTIVE:
            checks.begins_election(self, self.disk.voter_history())
        if effect.role is Role.CANDIDATE:
            checks.stands(self, effect.epoch)
        if effect.role is Role.LEADER:
            checks.leads(self, effect.epoch)

    _role_life = 0

    def _stopped(self, effect: out.Stopped) -> None:
        del effect
        self.model.checks.seen["clean stop"] += 1
        self.core, self.role = None, None
        self.disk.durable = list(self.disk.log)

    # Requests

    def receive(self, token, request) -> None:
        """Take a request, once for each copy of it."""
        is_fetch = isinstance(request, FetchRequest | FetchSnapshotRequest)
        if is_fetch and self.leads and request.epoch == self.epoch:
            self.model.checks.contacts[self.id][request.replica.node] = self.model.now_s
        self._asked[token] = request
        self.step(events.RequestArrived(token, request))

    def snapshot(self) -> None:
        """Write a snapshot of what is committed here, and drop the log before an older one."""
        disk = self.disk
        committed = [one for one in disk.log if one.end_offset <= self.high_watermark]
        if not committed:
            return
        made = SnapshotId(committed[-1].end_offset, committed[-1].epoch)
        history = disk.voter_history()
        sets = [one.voters for one in history.logged if one.offset < made.end_offset]
        first = None if history.is_static else history.first
        voters = sets[-1] if sets else first
        known = self.model.snapshots.setdefault(made, voters)
        if known != voters:
            raise Violation(f"{self} has {voters} in {made}, not {known}")
        disk.snapshots[made] = voters
        self.step(events.SnapshotTaken(made))
        kept = sorted(disk.snapshots)[-2:]
        if kept[0].end_offset > disk.start:
            self._trim(kept)

    def _trim(self, kept: list[SnapshotId]) -> None:
        disk = self.disk
        self.model.checks.seen["log trimmed"] += 1
        disk.snapshots = {one: disk.snapshots[one] for one in kept}
        voters = disk.snapshots[kept[0]]
        if voters is not None:
            disk.first_voters, disk.is_static = voters, False
        disk.start = kept[0].end_offset
        disk.log = [one for one in disk.log if one.base_offset >= disk.start]
        disk.durable = [one for one in disk.durable if one.base_offset >= disk.start]
        self.step(events.LogTrimmed(kept[0].end_offset, kept[0]))


_CARRY_OUT = {
    out.PersistQuorumState: Node._persist,
    out.SendRequest: Node._send,
    out.Answer: Node._answer,
    out.AnswerWithRecords: Node._answer_with_records,
    out.AnswerWithSnapshot: Node._answer_with_snapshot,
    out.AppendAsLeader: Node._append_as_leader,
    out.AppendRefused: Node._append_refused,
    out.AppendFetched: Node._append_fetched,
    out.SyncLog: Node._sync,
    out.TruncateLog: Node._truncate,
    out.StoreSnapshotPart: Node._store_part,
    out.FinishSnapshot: Node._finish_snapshot,
    out.InstallSnapshot: Node._install,
    out.HighWatermarkMoved: Node._committed,
    out.RoleChanged: Node._role,
    out.Stopped: Node._stopped,
}
