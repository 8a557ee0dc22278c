"""A model of a quorum: real cores, a network that loses, repeats and delays, disks that forget.

Time is virtual. Everything that takes time is an event in one queue: messages, syncs, timers. A
disk has what was written and what was synced; a crash takes any part of the difference. What is
checked after every step is in `kits.raft_checks`.

The driver of a core is here as small as it can be: it carries out effects, in their order. A batch
is a `Batch`, a snapshot is its name with its voters, and its parts are bytes without a meaning.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from random import Random

from kits.raft_checks import Checks, Violation
from moldau.cluster.raft import effects as out
from moldau.cluster.raft import events
from moldau.cluster.raft.core import RaftCore
from moldau.cluster.raft.log_position import LogPosition
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    Batch,
    FetchRequest,
    FetchSnapshotRequest,
    LeaderChange,
    VoteAnswer,
    VoteRequest,
    VotersChange,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.storage.epochs import LeaderEpochs

SNAPSHOT_SIZE = 10
PART_SIZE = 4
BATCHES_MAX = 3
"""In one answer to a fetch."""


class Data:
    """Records of the controller; each is another one."""

    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self.count = count

    def __repr__(self) -> str:
        return f"Data({self.number})"


class Disk:
    """One metadata directory."""

    def __init__(self, key: ReplicaKey, voters: VoterSet, *, is_static: bool) -> None:
        self.key = key
        self.first_voters = voters
        self.is_static = is_static
        self.quorum = QuorumState()
        self.quorum_writing: QuorumState | None = None
        self.log: list[Batch] = []
        self.durable: list[Batch] = []
        self.start = 0
        self.snapshots: dict[SnapshotId, VoterSet | None] = {}

    @property
    def end(self) -> int:
        return self.log[-1].end_offset if self.log else self.start

    def has_durable(self, batch: Batch) -> bool:
        return self.start >= batch.end_offset or batch in self.durable[-8:] + self.durable[:-8]

    def crash(self, random: Random) -> None:
        """Lose any part of what was not synced."""
        if self.quorum_writing is not None and random.random() < 0.5:
            self.quorum = self.quorum_writing
        self.quorum_writing = None
        shared = 0
        for one, other in zip(self.log, self.durable, strict=False):
            if one != other:
                break
            shared += 1
        if random.random() < 0.5:
            self.log = list(self.durable)
        else:
            self.log = self.log[: random.randint(shared, len(self.log))]
        self.durable = list(self.log)

    def voter_history(self) -> VoterHistory:
        history = VoterHistory(self.first_voters, is_static=self.is_static)
        for batch in self.log:
            if batch.voters is not None:
                history.append(batch.voters_offset, batch.voters)
        return history

    def position(self) -> LogPosition:
        epochs = LeaderEpochs()
        for batch in self.log:
            epochs.assign(batch.epoch, batch.base_offset)
        known = sorted(self.snapshots)
        return LogPosition(
            epochs,
            self.start,
            self.end,
            self.end,
            known[0] if known else None,
            known[-1] if known else None,
        )


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
            self.disk.quorum,
            model.now_s,
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
            voters, voters_offset = content.voters, base
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
        voters = (sets[-1] if sets else history.first) if history.is_dynamic else None
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


class Network:
    """How bad the network is at the moment; probabilities."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.repeat = 0.0
        self.late = 0.0
        self.cut: set[tuple[int, int]] = set()
        """Directed: what the first sends to the second is lost."""


class Model:
    """All nodes, and everything between them."""

    def __init__(
        self,
        voter_count: int = 3,
        observer_count: int = 0,
        *,
        seed: int = 0,
        is_static: bool = False,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self.timeouts = timeouts or Timeouts()
        self.network = Network()
        self.is_static = is_static
        self.slowest_sync_s = 0.005
        self.checks = Checks(self.timeouts.check_quorum_s)
        self.snapshots: dict[SnapshotId, VoterSet | None] = {}
        self.disks: list[Disk] = []
        self.nodes: list[Node] = []
        self._queue: list = []
        self._count = 0
        self.turns = 0
        keys = [self.new_key(number) for number in range(1, voter_count + observer_count + 1)]
        self.first_voters = VoterSet(tuple(Voter(key) for key in keys[:voter_count]))
        for key in keys:
            self.add_node(key).start()

    def new_key(self, node: int) -> ReplicaKey:
        if self.is_static:
            return ReplicaKey(node)
        return ReplicaKey(node, bytes([node]) + self.random.randbytes(15))

    def add_node(self, key: ReplicaKey) -> Node:
        disk = Disk(key, self.first_voters, is_static=self.is_static)
        self.disks.append(disk)
        node = Node(self, disk)
        self.nodes = sorted([*self.nodes, node], key=lambda one: one.id)
        return node

    def replace_disk(self, node: Node) -> Node:
        """Put an empty disk into a node that is down."""
        self.nodes.remove(node)
        self.disks.remove(node.disk)
        fresh = self.add_node(self.new_key(node.id))
        fresh.life = node.life
        return fresh

    def node(self, node_id: int) -> Node:
        return next(one for one in self.nodes if one.id == node_id)

    @property
    def up(self) -> list[Node]:
        return [one for one in self.nodes if one.core is not None]

    @property
    def leader(self) -> Node | None:
        """Return the leader of the newest epoch, among those that lead."""
        leaders = [one for one in self.nodes if one.leads]
        return max(leaders, key=lambda one: one.epoch, default=None)

    # Time

    def at(self, node: Node, time_s: float, call, *arguments) -> None:
        """Call at a time, if the node still lives the same life then."""
        self._count += 1
        heappush(self._queue, (time_s, self._count, node, node.life, call, arguments))

    def after(self, node: Node, delay_s: float, call, *arguments) -> None:
        self.at(node, self.now_s + delay_s, call, *arguments)

    def sync_delay(self) -> float:
        return self.random.random() * self.slowest_sync_s

    def turn(self) -> None:
        """Let the next thing happen."""
        time_s, count, node, life, call, arguments = heappop(self._queue)
        if node.life != life or node.core is None:
            return
        if node.paused_until_s > time_s:
            if call == node.fire:
                node.timer_s = node.paused_until_s
                arguments = (node.timer_s,)
            heappush(self._queue, (node.paused_until_s, count, node, life, call, arguments))
            return
        if time_s > self.now_s + 0.05:
            self.checks.time_passes(self.nodes, self.now_s)
        self.now_s = max(self.now_s, time_s)
        self.turns += 1
        call(*arguments)

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._queue and self._queue[0][0] <= end_s:
            self.turn()
        self.now_s = end_s

    def run_until(self, condition, within_s: float = 60.0) -> float:
        """Run until something is true; return how long that took."""
        began_s = self.now_s
        while not condition():
            if self.now_s - began_s > within_s or not self._queue:
                raise Violation(f"not within {within_s} seconds; {self.nodes}")
            self.turn()
        return self.now_s - began_s

    # Messages

    def _delays(self) -> list[float]:
        """Return when each copy of a message arrives; none of a lost one."""
        network, draw = self.network, self.random.random
        if draw() < network.loss:
            return []
        copies = 2 if draw() < network.repeat else 1
        return [
            draw() * 3.0 if draw() < network.late else 0.0005 + draw() * 0.002
            for _ in range(copies)
        ]

    def send(self, sender: Node, to: int, request_id: int, request) -> None:
        receiver = self.node(to)
        token = (sender.id, sender.life, request_id)
        if (sender.id, to) in self.network.cut:
            return
        if receiver.core is None:
            self.after(sender, 0.001, sender.step, events.RequestFailed(request_id))
            return
        for copy, delay_s in enumerate(self._delays()):
            self.after(receiver, delay_s, receiver.receive, (*token, copy), request)

    def answer(self, sender: Node, token, request, answer) -> None:
        if isinstance(token, str):
            sender.answers.append((token, answer))
            return
        node_id, life, request_id, _ = token
        receiver = self.node(node_id)
        if (sender.id, node_id) in self.network.cut or receiver.life != life:
            return
        for delay_s in self._delays():
            self.after(
                receiver, delay_s, self._answered, receiver, sender, request_id, request, answer
            )

    def _answered(self, receiver: Node, sender: Node, request_id: int, request, answer) -> None:
        if isinstance(request, VoteRequest) and request.is_pre_vote and answer.granted:
            self.checks.pre_votes[request.epoch, request.candidate].add(request.voter)
        receiver.step(events.AnswerArrived(request_id, answer))

    # What happens to nodes

    def crash(self, node: Node, *, is_noticed: bool = False) -> None:
        """End a process; if it is noticed, all see their connections reset."""
        node.crash()
        self.checks.seen["crash"] += 1
        if is_noticed:
            for other in self.up:
                delay_s = self.random.random() * 0.002
                self.after(other, delay_s, other.step, events.ConnectionReset(node.id))

    def cut_off(self, *groups: set[int]) -> None:
        """Divide the network into groups that do not hear of each other."""
        self.network.cut = {
            (one, other)
            for group in groups
            for one in group
            for other in {node.id for node in self.nodes} - group
        }

    def append(self, node: Node, count: int = 1) -> Data:
        """Let a node append, if it takes itself for the leader; all others refuse."""
        self._count += 1
        content = Data(self._count, count)
        node.step(events.AppendWanted(content, count))
        return content

    def ask(self, node: Node, token: str, request) -> None:
        """Ask as a tool does; the answer is in `Node.answers`."""
        node.step(events.RequestArrived(token, request))

    def is_committed(self, content: Data) -> bool:
        return any(batch.content is content for batch in self.checks.committed[-64:])

    # In the end

    def heal(self) -> None:
        """End all faults, and let every node be up."""
        self.network = Network()
        for node in self.nodes:
            if node.core is not None and node.core.life.is_stopping:
                node.crash()
            if node.core is None:
                node.start()

    def check_whole(self, within_s: float = 60.0) -> None:
        """Check that the quorum works again, and that all nodes have the same log."""
        self.run_until(lambda: self.leader is not None, within_s)
        end_s = self.now_s + within_s
        while not self._can_append():
            if self.now_s > end_s:
                raise Violation(f"nothing is committed within {within_s} seconds; {self.nodes}")
        self.run_until(self._is_level, within_s)
        for node in self.nodes:
            self._check_log(node)

    def _can_append(self) -> bool:
        leader = self.leader
        if leader is None:
            self.run(0.5)
            return False
        content = self.append(leader)
        self.run(0.5)
        return self.is_committed(content)

    def _is_level(self) -> bool:
        end = self.checks.committed_end
        return all(one.high_watermark == end == one.disk.end for one in self.up)

    def _check_log(self, node: Node) -> None:
        committed = [one for one in self.checks.committed if one.base_offset >= node.disk.start]
        if node.disk.log != committed:
            raise Violation(f"{node} has {node.disk.log}, committed is {committed}")
