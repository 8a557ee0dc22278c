"""A second broker with the id of another: it is gone when all faults are to be mended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from moldau.sim.cluster.twin_faults import twin


def test_a_fault_that_begins_after_the_mending_makes_no_second_broker():
    made = []

    async def work():
        node = SimpleNamespace(
            serving=True,
            process=SimpleNamespace(paused=False),
            has_twin=False,
            make_twin=lambda: made.append("twin"),
        )
        scene = SimpleNamespace(healing=asyncio.Event(), choose=lambda with_metadata: node)
        scene.healing.set()
        await twin(scene)

    asyncio.run(work())
    assert made == []
