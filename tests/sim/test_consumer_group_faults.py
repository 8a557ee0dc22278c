"""A group of our consumers while everything goes wrong: kills, cuts, slow users, broker crashes.

At least once (P6): whatever was sent is worked on to its end by somebody, however many die in the
middle of it. And one at a time: no two members that were never shut out read one partition.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from kits.consumer_group_kit import Stage, places, play

COUNT = 6
ALL = places("t", *range(COUNT))
EVENTS = 25
STRATEGIES = ("range", "cooperative-sticky", "sticky")


class Trouble:
    """Draws what happens next."""

    def __init__(self, stage: Stage, wishes) -> None:
        self.stage = stage
        self.chance = stage.world.random("trouble")
        self.wishes = wishes
        self.number = 0
        self.ends: dict[str, float] = {}
        """When programs were killed."""

    @property
    def living(self):
        return [one for one in self.stage.readers if one.task is not None]

    async def come(self) -> None:
        self.number += 1
        await self.stage.reader(f"r{self.number}", "t", **self.wishes)

    async def happen(self) -> None:
        living = self.living
        dice = self.chance.random()
        if len(living) < 2 or (dice < 0.3 and len(living) < 6):
            await self.come()
        elif dice < 0.45:
            self.ends[living[0].name] = self.stage.now
            living[0].kill()
        elif dice < 0.55:
            await self.chance.choice(living).leave()
        elif dice < 0.65:
            self.chance.choice(living).cut()
        elif dice < 0.75:
            self.stage.network.heal()
        elif dice < 0.85:
            self.chance.choice(living).pause_s = self.chance.choice([0.0, 0.5, 5.0, 40.0])
        elif dice < 0.92:
            self.stage.broker.kill()
            await asyncio.sleep(self.chance.choice([0.0, 1.0, 15.0]))
            await self.stage.broker.start()
        else:
            self.chance.choice(living).consumer.enforce_rebalance()

    async def feed(self) -> None:
        while True:
            await self.stage.send("t", self.chance.randrange(COUNT), self.chance.randrange(1, 9))
            await asyncio.sleep(self.chance.expovariate(2))


def periods(stage: Stage, trouble: Trouble):
    """Return for each partition when it was read, by members that could hear the group meanwhile.

    One that is cut off may be shut out without hearing of it, and does not read on for that.
    """
    found = {at: [] for at in ALL}
    for reader in stage.readers:
        since = {}
        end = trouble.ends.get(reader.name, stage.now)
        for at, what, some in [*reader.story, (end, "killed", ALL)]:
            for partition in some:
                if what == "assigned":
                    since[partition] = at
                elif partition in since:
                    began = since.pop(partition)
                    is_cut = any(began <= cut <= at for cut in reader.cut_at)
                    if what != "lost" and not is_cut:
                        found[partition].append((began, at, reader.name))
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("automatic", [False, True], ids=["by hand", "automatic"])
@pytest.mark.parametrize("seed", range(1))
def test_everything_is_worked_on_to_its_end_and_by_one_at_a_time(seed, strategy, automatic):
    async def story(stage: Stage):
        await stage.create("t", COUNT)
        wishes = {
            "partition_assignment_strategy": strategy,
            "enable_auto_commit": automatic,
            "auto_commit_interval_ms": 1000,
            "commits": not automatic,
            "max_poll_records": 5,
            "max_poll_interval_ms": 30_000,
        }
        trouble = Trouble(stage, wishes)
        await trouble.come()
        feeding = asyncio.ensure_future(trouble.feed())
        for _ in range(EVENTS):
            await trouble.happen()
            await asyncio.sleep(trouble.chance.expovariate(1 / 6))
        stage.network.heal()
        for reader in trouble.living:
            reader.pause_s = 0.0
        feeding.cancel()
        await asyncio.wait([feeding])
        await trouble.come()
        await stage.shared(trouble.living, ALL)
        await stage.until(lambda: not missing(stage), "all is worked on")
        for partition, each in periods(stage, trouble).items():
            for (_, end, one), (start, _, other) in pairwise(sorted(each)):
                assert end <= start, f"{partition} was {one}'s and {other}'s at once"

    play(seed, story)


def missing(stage: Stage):
    return {
        at: gap
        for at, count in stage.sent.items()
        if (gap := set(range(count)).difference(*(one.done[at] for one in stage.readers)))
    }
