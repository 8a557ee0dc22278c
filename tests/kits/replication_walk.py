"""Random walks of the replication model, each from a seed.

    PYTHONPATH=tests python -m kits.replication_walk 1000

walks from so many seeds, and prints what was exercised and how many steps a second that took.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from kits.replication_model import Model, Violation

STEPS = 600
"""Of one walk."""


class Walker:
    """Takes steps by chance, in a mix that is drawn for each walk: mostly data, or many faults."""

    def __init__(self, model: Model, random: Random) -> None:
        self.model = model
        self.random = random
        slowness = random.choice((1, 2, 4))
        losses, fences, moves, kills = (random.choice((1, 2, 4)) for _ in range(4))
        delays, mix = 1, random.random()
        if mix < 0.35:
            # Elections in quick succession, of which not every broker hears.
            slowness, moves, kills = 8, 8 * moves, 0
        elif mix < 0.7:
            # The ISR changes all the time, and the way to the controller is long.
            delays, fences, kills = 4, 6 * fences, 2 * kills
        self.steps = [
            *[self._replicate] * 200,
            *[self._fetch] * 120,
            *[self._deliver] * (240 // delays),
            *[self._delay] * 12 * delays,
            *[self._deliver_late] * 12,
            *[self._append] * 60,
            *[self._observe] * (240 // slowness),
            *[self._unfence] * 60,
            *[self._restart] * 30,
            *[self._tick] * 20,
            *[self._shrink] * 20,
            *[self._list_latest] * 16,
            *[self._resend] * 16,
            *[self._lose] * 4 * losses,
            *[self._fence] * 2 * fences,
            *[self._move_leader] * 2 * moves,
            *[self._crash] * 2 * kills,
        ]

    def step(self) -> None:
        draw = self.random.random
        self.steps[int(draw() * len(self.steps))](int(draw() * len(self.model.replicas)))

    def _deliver(self, broker: int) -> None:
        del broker
        draw = self.random.random
        self.model.deliver(int(draw() * 1000), again=draw() < 0.1)

    def _replicate(self, broker: int) -> None:
        """Let a follower fetch and have its answer before anything else happens."""
        model = self.model
        count = len(model.network)
        model.fetch(broker)
        for _ in range(2):
            if len(model.network) > count:
                model.deliver(count)

    def _delay(self, broker: int) -> None:
        del broker
        self.model.delay(int(self.random.random() * 1000))

    def _deliver_late(self, broker: int) -> None:
        del broker
        self.model.deliver_late(int(self.random.random() * 1000))

    def _fetch(self, broker: int) -> None:
        self.model.fetch(broker, again=self.random.random() < 0.05)

    def _append(self, broker: int) -> None:
        replicas = self.model.replicas
        if replicas[broker].state is None:  # Most often there is one leader.
            broker = max(0, replicas[broker].role.leader)
        self.model.append(broker)

    def _observe(self, broker: int) -> None:
        self.model.observe(broker)

    def _unfence(self, broker: int) -> None:
        fenced = self.model.controller.fenced
        self.model.unfence(min(fenced) if fenced and broker not in fenced else broker)

    def _tick(self, broker: int) -> None:
        del broker
        self.model.tick(self.random.choice((1.0, 1.0, 2.0, 2.0, 8.0)))

    def _shrink(self, broker: int) -> None:
        self.model.shrink(broker)

    def _list_latest(self, broker: int) -> None:
        self.model.list_latest(broker)

    def _lose(self, broker: int) -> None:
        del broker
        self.model.lose(int(self.random.random() * 1000))

    def _resend(self, broker: int) -> None:
        self.model.resend(broker)

    def _fence(self, broker: int) -> None:
        self.model.fence(broker)

    def _move_leader(self, broker: int) -> None:
        self.model.move_leader(broker)

    def _crash(self, broker: int) -> None:
        self.model.crash(broker, self.random.choice((0, 1, 100)))

    def _restart(self, broker: int) -> None:
        down = [replica.id for replica in self.model.replicas if not replica.is_up]
        if down:
            broker = down[broker % len(down)]
        self.model.restart(broker, self.random.choice((0, 0, 1, 2, 100)))


def walk(seed: int, steps: int = STEPS, *, prepare: Callable[[Model], None] | None = None) -> Model:
    """Walk at random from a seed; Violation, with the seed and the step, if a rule is broken."""
    random = Random(seed)
    model = Model(random.choice((2, 3, 3, 3)), random.choice((1, 2, 2)))
    if prepare is not None:
        prepare(model)
    walker = Walker(model, random)
    for step in range(steps):
        try:
            walker.step()
            model.check()
        except Violation as violation:
            raise Violation(f"seed {seed}, step {step}: {violation}") from None
    model.check_epochs()
    return model


def main(seeds: int) -> None:
    """Walk, and say what happened."""
    seen: Counter[str] = Counter()
    steps = 0
    began_s = time.perf_counter()
    for seed in range(seeds):
        model = walk(seed)
        steps += STEPS
        seen.update(model.seen)
        seen["election"] += model.controller.elections
        seen["committed record"] += len(model.committed)
    took_s = time.perf_counter() - began_s
    for name, count in seen.most_common():
        print(f"{count:9} {name}")
    print(f"{steps / took_s:9.0f} steps a second")


if __name__ == "__main__":
    main(int(sys.argv[1]))
