"""A second broker with the id of one that is there: a copied configuration on an empty machine.

The controller must not let it in while the first one's session lasts. When it does, because the
first one stands still or is cut off for longer, it is as if that broker had lost its disk; and once
more when the twin goes and the first one is back.
"""

from __future__ import annotations

from moldau.base.errors import UserError
from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.crashes import Crashed
from moldau.sim.process import SimBroker


async def twin(scene: FaultScene) -> None:
    if scene.healing.is_set():
        # No wait below would wait. The twin's start would begin only after the place where the twin
        # is ended, and be waited for: it ends when the twin gives up, or serves for ever.
        return
    node = scene.choose(to_lose_disk=True)
    if node is None or not node.serving or node.process.paused or node.has_twin:
        return
    scene.note(node)
    scene.atlas.lost_records(node.id)
    life = node.process.life
    other = node.make_twin()
    starting = scene.targets.world.loop.create_task(_start(other), name=other.name)
    if scene.chance.random() < 0.6:
        node.process.pause()
    await scene.wait(scene.swarm.session_s * scene.chance.uniform(1.2, 3.0))
    if node.process.life == life and node.process.paused:
        node.process.resume()
    await scene.last()
    scene.targets.seen["id taken by a second broker"] += other.serving
    if other.alive:
        scene.atlas.lost_records(node.id)
        other.kill()
    await starting
    if node.process.alive:
        node.process.kill()
    node.start()


async def _start(other: SimBroker) -> None:
    try:
        await other.start()
    except (UserError, Crashed):
        if other.alive:
            other.kill()


TWIN_FAULTS: dict[str, Fault] = {"two brokers with one id": twin}
