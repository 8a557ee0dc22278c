"""Faults of processes: brokers that are killed, stopped in order, or stand still."""

from __future__ import annotations

from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.nodes import Node
from moldau.sim.crashes import Crashed

BOUNCE_S = 0.02
"""In which a broker is back: far less than any session."""

SHORT_PAUSE_S = 0.2


async def kill(scene: FaultScene) -> None:
    await _kill(scene, scene.choose())


async def kill_leader(scene: FaultScene) -> None:
    await _kill(scene, scene.choose_leader())


async def kill_coordinator(scene: FaultScene) -> None:
    await _kill(scene, scene.choose_leader(of_coordinators=True))


async def _kill(scene: FaultScene, node: Node | None) -> None:
    if node is not None:
        scene.note(node)
        node.process.kill()
        await scene.last()
        node.start()


async def bounce(scene: FaultScene) -> None:
    """Kill a broker and start it again while the controller still takes it for alive."""
    node = scene.choose()
    if node is not None:
        scene.note(node)
        node.process.kill()
        await scene.wait(BOUNCE_S)
        node.start()


async def restart(scene: FaultScene) -> None:
    node = scene.choose()
    if node is None or not node.serving or node.process.paused:
        return
    scene.note(node)
    try:
        await node.process.stop()
    except Crashed:
        return
    await scene.last()
    node.start()


# Standing still


async def pause(scene: FaultScene) -> None:
    await _pause(scene, scene.choose(), scene.chance.expovariate(0.5 / scene.swarm.fault_length_s))


async def short_pause(scene: FaultScene) -> None:
    await _pause(scene, scene.choose(), scene.chance.expovariate(1 / SHORT_PAUSE_S))


async def zombie_leader(scene: FaultScene) -> None:
    """Let a leader stand still until another is elected; its clients stay connected to it."""
    sessions = scene.chance.uniform(1.3, 3.0)
    await _pause(scene, scene.choose_leader(), sessions * scene.swarm.session_s)


async def _pause(scene: FaultScene, node: Node | None, seconds: float) -> None:
    if node is None or node.process.paused:
        return
    scene.note(node)
    life = node.process.life
    node.process.pause()
    await scene.wait(seconds)
    if node.process.alive and node.process.life == life and node.process.paused:
        scene.targets.seen["zombie leader resumed"] += scene.monitor.is_zombie(node)
        node.process.resume()


PROCESS_FAULTS: dict[str, Fault] = {
    "kill": kill,
    "kill of a leader": kill_leader,
    "kill of a coordinator": kill_coordinator,
    "bounce": bounce,
    "orderly restart": restart,
    "pause": pause,
    "short pause": short_pause,
    "zombie leader": zombie_leader,
}
