"""Faults of machines: power cuts, disks that are lost, slow, broken or full, and wrong clocks."""

from __future__ import annotations

from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.metadata_keeping import FOLDER
from moldau.sim.cluster.nodes import Node
from moldau.sim.nemesis import DISK_OPERATIONS

CLOCK_JUMP_MS = 86_400_000
DRIFT_MAX = 0.1
"""Of a second, in a second: far beyond what real clocks do, so that short runs notice."""


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
    node = scene.choose(to_lose_disk=True)
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


async def drift(scene: FaultScene) -> None:
    node = scene.chance.choice(scene.nodes.all)
    node.clock.drift(scene.chance.uniform(-DRIFT_MAX, DRIFT_MAX))


# Broken disks


async def disk_error(scene: FaultScene) -> None:
    """Let one kind of operation fail on a machine, once, a few times or always."""
    node = scene.choose()
    if node is not None:
        operation = scene.chance.choice(DISK_OPERATIONS)
        skip, times = scene.chance.randrange(20), scene.chance.choice((1, 3, None))
        node.process.disk.faults.fail(operation, FOLDER, skip=skip, times=times)
        await _suffer(scene, node)


async def disk_full(scene: FaultScene) -> None:
    node = scene.choose()
    if node is not None:
        node.process.disk.faults.fill_up(scene.chance.randrange(4_000))
        await _suffer(scene, node)


async def _suffer(scene: FaultScene, node: Node) -> None:
    """Leave a broker with its broken disk for a while; then repair that and start anew."""
    scene.note(node)
    scene.targets.disks_failed = True
    await scene.last()
    node.process.disk.faults.heal()
    if node.process.alive:
        node.process.kill()
    node.start()


MACHINE_FAULTS: dict[str, Fault] = {
    "power cut": power_cut,
    "blackout": blackout,
    "wiped disk": wipe,
    "clock jump": jump,
    "clock drift": drift,
    "slow disk": slow_disk,
    "disk error": disk_error,
    "full disk": disk_full,
}
