"""Faults of whoever is the controller, in any cluster in which another one takes over."""

from __future__ import annotations

from moldau.base.ids import BrokerId
from moldau.sim.cluster.fault_scene import FaultScene
from moldau.sim.cluster.nodes import Node
from moldau.sim.cluster.process_faults import kill_for_a_while, restart_in_order


async def kill_controller(scene: FaultScene) -> None:
    node = scene.nodes.controller
    if node is not None and node.process.alive:
        await kill_for_a_while(scene, node)


async def restart_controller(scene: FaultScene) -> None:
    await restart_in_order(scene, scene.nodes.controller)


async def false_suspicion(scene: FaultScene) -> None:
    """Let a broker that lives look as if its process were gone: connections end and are refused."""
    node = scene.nodes.controller if scene.chance.random() < 0.3 else scene.choose()
    if node is None or not node.serving or node.process.paused:
        return
    scene.note(node)
    epoch = _registered_epoch(scene, node)
    scene.network.refused.add(node.name)
    for other in scene.nodes.all:
        if other is not node:
            scene.network.reset(node.name, other.name)
    await scene.last(0.5)
    scene.network.refused.discard(node.name)
    evicted = node.serving and _registered_epoch(scene, node) != epoch
    scene.targets.seen["false suspicion"] += evicted


def _registered_epoch(scene: FaultScene, node: Node) -> int | None:
    broker = scene.nodes.image.brokers.get(BrokerId(node.id))
    return None if broker is None else broker.epoch
