"""Controllers that are no brokers wait for a majority for as long as it takes."""

from __future__ import annotations

import asyncio

from kits.node_kit import Nodes
from moldau.sim.world import World

VOTERS = (1, 2, 3)
NAMED = ",".join(f"{one}@node-{one}:9093" for one in VOTERS)
LATE_S = 60.0
"""After this the second voter comes; a broker looks for a controller for five seconds here."""


def test_a_controller_alone_votes_until_there_is_a_majority():
    async def work():
        nodes = Nodes(world)
        voters = [
            nodes.node(
                one,
                **{
                    "process.roles": "controller",
                    "listeners": f"CONTROLLER://node-{one}:9093",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.voters": NAMED,
                },
            )
            for one in VOTERS
        ]
        first, second, _ = voters
        starting = asyncio.ensure_future(first.start())
        await asyncio.sleep(LATE_S)
        assert not starting.done()
        await second.start()
        await starting
        assert first.parts.store.leader_id == second.parts.store.leader_id >= 1
        for one in (first, second):
            await one.stop()

    with World(1) as world:
        world.run(work())
