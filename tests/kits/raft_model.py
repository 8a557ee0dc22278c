"""A model of a quorum: real cores, a network that loses, repeats and delays, disks that forget.

Time is virtual. Everything that takes time is an event in one queue: messages, syncs, timers. A
disk has what was written and what was synced; a crash takes any part of the difference. What is
checked after every step is in `kits.raft_checks`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

from kits.raft_checks import Checks, Violation
from kits.raft_disk import Data, Disk
from kits.raft_machine import Node
from moldau.cluster.raft import events
from moldau.cluster.raft.requests import (
    VoteRequest,
)
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId


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
        joins_voters: bool = False,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self.timeouts = timeouts or Timeouts()
        self.network = Network()
        self.is_static = is_static
        self.joins_voters = joins_voters
        self.slowest_sync_s = 0.005
        self.checks = Checks(self.timeouts.check_quorum_s)
        self.snapshots: dict[SnapshotId, VoterSet | None] = {}
        self.disks: list[Disk] = []
        self.nodes: list[Node] = []
        self._queue: list = []
        self._count = 0
        self.turns = 0
        keys = [self.new_key(number) for number in range(1, voter_count + observer_count + 1)]
        named = [ReplicaKey(key.node) if is_static else key for key in keys]
        self.first_voters = VoterSet(tuple(Voter(key) for key in named[:voter_count]))
        for key in keys:
            self.add_node(key).start()

    def new_key(self, node: int) -> ReplicaKey:
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
