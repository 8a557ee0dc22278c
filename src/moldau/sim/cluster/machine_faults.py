"""Faults of machines: power cuts, lost disks, slow disks and wrong clocks."""

from __future__ import annotations

from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.nodes import Node

CLOCK_JUMP_MS = 86_400_000


async def power_cut(scene: FaultScene) -> None:
    node = scene.choose()
    if node is not None:
        await _cut(scene, [node])


async def blackout(scene: FaultScene) -> None:
    """Cut several machines from their power, up to all of them."""
    nodes = [node for node in scene.nodes.all if node.process.alive]
    if nodes:
        await _cut(scene, scene.chance.sample(nodes, scene.chance.randrange(1, len(nodes) + 1)))


async def _cut(scene: FaultScene, nodes: list[Node]) -> None:
    for node in nodes:
        scene.note(node)
        scene.atlas.lost_records(node.id)
    for node in nodes:
        node.process.power_cut(silent=scene.chance.random() < 0.5)
    await scene.last()
    for node in nodes:
        node.start()


async def wipe(scene: FaultScene) -> None:
    node = scene.choose(voter=False)
    if node is not None:
        scene.note(node)
        scene.atlas.lost_records(node.id)
        node.process.kill()
        node.wipe()
        await scene.last()
        node.start()


async def jump(scene: FaultScene) -> None:
    node = scene.chance.choice(scene.nodes.all)
    node.clock.jump(scene.chance.randrange(-CLOCK_JUMP_MS, CLOCK_JUMP_MS))


async def slow_disk(scene: FaultScene) -> None:
    node = scene.choose()
    if node is not None:
        node.process.slow_disk(scene.chance.choice((0.01, 0.05)))


MACHINE_FAULTS: dict[str, Fault] = {
    "power cut": power_cut,
    "blackout": blackout,
    "wiped disk": wipe,
    "clock jump": jump,
    "slow disk": slow_disk,
}
