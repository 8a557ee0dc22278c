"""Faults of processes: brokers that are killed, stopped in order, or stand still."""

from __future__ import annotations

from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.nodes import Node
from moldau.sim.crashes import Crashed

BOUNCE_S = 0.02
"""In which a broker is back: far less than any session."""

SHORT_PAUSE_S = 0.2


async def kill(scene: FaultScene) -> None:
    await kill_for_a_while(scene, scene.choose())


async def kill_leader(scene: FaultScene) -> None:
    await kill_for_a_while(scene, scene.choose_leader())


async def kill_coordinator(scene: FaultScene) -> None:
    await kill_for_a_while(scene, scene.choose_leader(of_coordinators=True))


async def kill_for_a_while(scene: FaultScene, node: Node | None) -> None:
    """Kill a broker, if there is one to kill, and start it again later."""
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
    await restart_in_order(scene, scene.choose())


async def restart_in_order(scene: FaultScene, node: Node | None) -> None:
    """Stop a broker in order, if it serves, and start it again later."""
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
    await pause_for(
        scene, scene.choose(), scene.chance.expovariate(0.5 / scene.swarm.fault_length_s)
    )


async def short_pause(scene: FaultScene) -> None:
    await pause_for(scene, scene.choose(), scene.chance.expovariate(1 / SHORT_PAUSE_S))


async def zombie_leader(scene: FaultScene) -> None:
    """Let a leader stand still until another is elected; its clients stay connected to it."""
    sessions = scene.chance.uniform(1.3, 3.0)
    await pause_for(scene, scene.choose_leader(), sessions * scene.swarm.session_s)


async def pause_for(scene: FaultScene, node: Node | None, seconds: float) -> None:
    """Let a broker stand still, if there is one that does not."""
    if node is None or not node.process.alive or node.process.paused:
        return
    scene.note(node)
    life = node.process.life
    node.process.pause()
    await scene.wait(seconds)
    if node.process.alive and node.process.life == life and node.process.paused:
        scene.targets.seen["zombie leader resumed"] += scene.monitor.is_zombie(node)
        scene.targets.seen["zombie controller resumed"] += scene.monitor.is_former_controller(node)
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
