"""Faults at named points of a broker's code: its process or its machine ends between two steps."""

from __future__ import annotations

import contextlib
import functools

from moldau.cluster.journal import CRASH_POINTS as JOURNAL_POINTS
from moldau.cluster.journal import FOLLOWER_CRASH_POINTS
from moldau.cluster.snapshots import CRASH_POINTS as SNAPSHOT_POINTS
from moldau.coordination.crash_points import CRASH_POINTS as COORDINATION_POINTS
from moldau.sim.cluster.crash_plans import ANY_POINT
from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.nodes import Node
from moldau.sim.crashes import Crashed
from moldau.sim.nemesis import STARTING_POINTS, STOPPING_POINTS
from moldau.storage.crash_points import CRASH_POINTS

REPLICATION_POINTS = tuple(
    point for point in CRASH_POINTS if point.startswith(("log.truncate", "log.restart"))
)
"""Those that only a follower passes."""

POINTS = (
    CRASH_POINTS + JOURNAL_POINTS + FOLLOWER_CRASH_POINTS + SNAPSHOT_POINTS + COORDINATION_POINTS
)
VISITS_MAX = 60
"""Of any point: about what a busy broker passes in a second."""


async def _crash(scene: FaultScene, *, power: bool) -> None:
    node = scene.choose()
    if node is None:
        return
    scene.note(node)
    point, hit = _choose_point(scene)
    scene.crashes.arm(node.name, point, hit, functools.partial(_end, scene, node, power=power))
    if point.startswith(STARTING_POINTS) and node.process.alive:
        _end(scene, node, power=power)
        node.start()
    await scene.last(1.0)
    if point.startswith(STOPPING_POINTS) and node.serving and not node.process.paused:
        with contextlib.suppress(Crashed):
            await node.process.stop()
    scene.crashes.disarm(node.name)
    if not node.process.alive:
        await scene.last()
        node.start()


def _choose_point(scene: FaultScene) -> tuple[str, int]:
    dice = scene.chance.random()
    if dice < 0.4:
        return ANY_POINT, scene.chance.randrange(1, VISITS_MAX)
    points = REPLICATION_POINTS if dice < 0.6 else POINTS
    return scene.chance.choice(points), scene.chance.choice((1, 1, 2, 5))


def _end(scene: FaultScene, node: Node, *, power: bool) -> None:
    if power:
        scene.atlas.lost_records(node.id)
        node.process.power_cut(silent=scene.chance.random() < 0.5)
    else:
        node.process.kill()


async def crash(scene: FaultScene) -> None:
    await _crash(scene, power=False)


async def crash_of_machine(scene: FaultScene) -> None:
    await _crash(scene, power=True)


CRASH_FAULTS: dict[str, Fault] = {
    "crash point": crash,
    "power cut at a crash point": crash_of_machine,
}
