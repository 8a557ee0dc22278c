"""Random walks of the quorum model, each from a seed: faults by chance, then all is healed.

    PYTHONPATH=tests python -m kits.raft_walk 1000

walks from so many seeds, and prints what the walks have met, and how many turns a second of
processor time that took.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from kits.raft_checks import Violation
from kits.raft_machine import Node
from kits.raft_model import Model
from moldau.cluster.raft import events
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    RaiseKraftVersionRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from moldau.cluster.raft.voters import Voter, VoterEndpoint

STEPS = 120
"""Of one walk; then everything is healed."""


class Walker:
    """Does what happens to a quorum, in a mix that is drawn for each walk."""

    def __init__(self, model: Model, random: Random) -> None:
        self.model = model
        self.random = random
        crashes, cuts, changes, pauses = (random.choice((0, 1, 4)) for _ in range(4))
        self.acts = [
            *[self._append] * 16,
            *[self._append_anywhere] * 2,
            *[self._restart] * 8,
            *[self._heal] * 4,
            *[self._snapshot] * random.choice((0, 4)),
            *[self._crash] * crashes,
            *[self._crash_leader] * crashes,
            *[self._stop] * (crashes > 1),
            *[self._cut_off_leader] * cuts,
            *[self._divide] * cuts,
            *[self._cut_one_way] * cuts,
            *[self._pause_leader] * pauses,
            *[self._resign] * (pauses > 1),
            *[self._spoil] * random.choice((0, 2)),
            *[self._slow_disks] * 1,
            *[self._change_voters] * changes,
            *[self._lose_disk] * changes,
        ]

    def step(self) -> None:
        self.random.choice(self.acts)()
        self.model.run(self.random.choice((0.003, 0.02, 0.2, 0.5, 1.5)) * self.random.random())

    def _any(self, nodes: list[Node]) -> Node | None:
        return self.random.choice(nodes) if nodes else None

    # What controllers do

    def _append(self) -> None:
        if self.model.leader is not None:
            self.model.append(self.model.leader, self.random.randint(1, 3))

    def _append_anywhere(self) -> None:
        node = self._any(self.model.up)
        if node is not None:
            self.model.append(node)

    def _resign(self) -> None:
        if self.model.leader is not None:
            self.model.leader.step(events.ResignWanted())

    def _snapshot(self) -> None:
        for node in self.model.up:
            if self.random.random() < 0.6:
                node.snapshot()

    # What tools do

    def _change_voters(self) -> None:
        """Ask whoever leads for a change, now and then for one that is refused."""
        leader = self.model.leader
        if leader is None:
            return
        voters = leader.voters
        keys = [node.key for node in self.model.nodes]
        lost = [key for key in voters.keys if not any(map(key.names, keys))]
        observers = [key for key in keys if voters.find(key) is None]
        draw = self.random.random()
        if self.model.is_static and draw < 0.5:
            request = RaiseKraftVersionRequest(None)
        elif lost:
            request = RemoveVoterRequest(None, lost[0])
        elif draw < 0.4 and len(voters) > 1:
            request = RemoveVoterRequest(None, self.random.choice(voters.keys))
        elif draw < 0.5:
            moved = Voter(leader.key, (VoterEndpoint("CONTROLLER", str(draw), 9093),))
            request = UpdateVoterRequest(None, leader.epoch, moved)
        else:
            added = self.random.choice(observers or keys)
            request = AddVoterRequest(None, Voter(added), ack_when_committed=draw < 0.9)
        self.model.ask(leader, "change", request)

    def _lose_disk(self) -> None:
        """Replace the disk of a voter, where all others have everything and nothing is on its way.

        What the lost disk has told before its end may still arrive, and count.
        """
        model, leader = self.model, self.model.leader
        if leader is None or model.is_static or not model.checks.committed:
            return
        voters, last = leader.voters, model.checks.committed[-1]
        nodes = {node.key: node for node in model.nodes}
        if len(voters) < 3 or any(key not in nodes for key in voters.keys):
            return
        lost = nodes[self.random.choice(voters.keys)]
        others = [nodes[key] for key in voters.others(lost.key)]
        if lost.disk.end == model.checks.committed_end and all(
            one.disk.has_durable(last) and one.disk.end == lost.disk.end and one.voters == voters
            for one in others
        ):
            model.checks.seen["lost disk"] += 1
            lost.crash()
            model.replace_disk(lost).start()

    # What fails

    def _crash(self) -> None:
        node = self._any(self.model.up)
        if node is not None:
            self.model.crash(node, is_noticed=self.random.random() < 0.5)

    def _crash_leader(self) -> None:
        if self.model.leader is not None:
            self.model.crash(self.model.leader, is_noticed=self.random.random() < 0.5)

    def _stop(self) -> None:
        node = self._any(self.model.up)
        if node is not None:
            node.step(events.StopWanted())

    def _restart(self) -> None:
        node = self._any([one for one in self.model.nodes if one.core is None])
        if node is not None:
            node.start()

    def _pause_leader(self) -> None:
        """Let a leader sleep; it may wake up when another one leads."""
        if self.model.leader is not None:
            self.model.checks.seen["pause"] += 1
            self.model.leader.pause(self.random.choice((0.5, 3.0, 6.0)))

    def _cut_off_leader(self) -> None:
        if self.model.leader is not None:
            self.model.checks.seen["leader cut off"] += 1
            self.model.cut_off({self.model.leader.id})

    def _divide(self) -> None:
        ids = [node.id for node in self.model.nodes]
        self.random.shuffle(ids)
        middle = self.random.randrange(len(ids) + 1)
        self.model.cut_off(set(ids[:middle]), set(ids[middle:]))

    def _cut_one_way(self) -> None:
        ids = [node.id for node in self.model.nodes]
        self.model.network.cut.add((self.random.choice(ids), self.random.choice(ids)))

    def _spoil(self) -> None:
        network = self.model.network
        network.loss, network.repeat, network.late = (
            self.random.choice((0.0, 0.05, 0.3)) for _ in range(3)
        )

    def _slow_disks(self) -> None:
        self.model.slowest_sync_s = self.random.choice((0.001, 0.01, 0.3))

    def _heal(self) -> None:
        network = self.model.network
        network.loss = network.repeat = network.late = 0.0
        network.cut = set()


def walk(seed: int, steps: int = STEPS, *, prepare: Callable[[Model], None] | None = None) -> Model:
    """Walk at random from a seed; Violation, with the seed and the time, if a rule is broken."""
    random = Random(seed)
    model = Model(
        random.choice((1, 2, 3, 3, 3, 4, 5)),
        random.choice((0, 1, 2)),
        seed=seed,
        is_static=random.random() < 0.3,
        joins_voters=random.random() < 0.2,
    )
    walker = Walker(model, random)
    if prepare is not None:
        prepare(model)
    try:
        for _ in range(steps):
            walker.step()
        model.slowest_sync_s = 0.01
        model.heal()
        model.check_whole()
    except Violation as violation:
        raise Violation(f"seed {seed}, {model.now_s:.3f} s: {violation}") from None
    return model


def main(seeds: int) -> None:
    """Walk, and say what happened."""
    seen: Counter[str] = Counter()
    turns = 0
    began_s = time.process_time()
    for seed in range(seeds):
        model = walk(seed)
        turns += model.turns
        seen.update(model.checks.seen)
        seen["committed batch"] += len(model.checks.committed)
    took_s = time.process_time() - began_s
    for name, count in seen.most_common():
        print(f"{count:9} {name}")
    print(f"{turns / took_s:9.0f} turns a second of processor time, {took_s:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]))
