"""Faults of the way to ZooKeeper, and of whoever is the controller there.

Each broker has one session. Silence is noticed by nobody before a time-out; a lost connection at
once, but then nobody knows which of the writes under way have arrived.
"""

from __future__ import annotations

import json

from moldau.base.ids import TopicId
from moldau.cluster.zookeeper.client.port import SetData
from moldau.cluster.zookeeper.nodes import paths
from moldau.sim.cluster.administrator import ClusterAdministrator
from moldau.sim.cluster.controller_faults import (
    false_suspicion,
    kill_controller,
    restart_controller,
)
from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.late_requests import LATE_REQUESTS
from moldau.sim.cluster.nodes import Node
from moldau.sim.cluster.process_faults import pause_for
from moldau.sim.cluster.swarm import TopicPlan

DIRECTIONS = ((True, True), (True, False), (False, True))
"""Whether requests are held, and whether answers are."""

QUICK_LOSSES_MAX = 4


async def expire_session(scene: FaultScene) -> None:
    node = scene.choose()
    if node is not None:
        scene.note(node)
        scene.ensemble.expire(node.name)


async def lose_connection(scene: FaultScene) -> None:
    """Break the connection of a broker, often of the controller, a few times in a row."""
    for _ in range(scene.chance.randint(1, QUICK_LOSSES_MAX)):
        node = scene.nodes.controller if scene.chance.random() < 0.5 else scene.choose()
        if node is not None:
            scene.note(node)
            scene.ensemble.lose_connection(node.name)
        await scene.wait(scene.chance.expovariate(1 / 0.3))


async def silence(scene: FaultScene) -> None:
    await _silence(scene, scene.choose())


async def silence_controller(scene: FaultScene) -> None:
    await _silence(scene, scene.nodes.controller)


async def _silence(scene: FaultScene, node: Node | None) -> None:
    if node is not None:
        scene.note(node)
        requests, answers = scene.chance.choice(DIRECTIONS)
        scene.ensemble.cut(node.name, requests=requests, answers=answers)
        await scene.last()
        scene.ensemble.heal(node.name)


async def lag(scene: FaultScene) -> None:
    """Let the server of one broker show it an old tree."""
    node = scene.choose()
    if node is not None:
        scene.note(node)
        scene.ensemble.lag(node.name)
        await scene.last()
        scene.ensemble.catch_up()


async def stop_ensemble(scene: FaultScene) -> None:
    scene.ensemble.stop()
    await scene.last()
    scene.ensemble.start()


# The controller


async def zombie_controller(scene: FaultScene) -> None:
    """Let the controller stand still until another one is elected."""
    sessions = scene.chance.uniform(1.3, 3.0)
    await pause_for(scene, scene.nodes.controller, sessions * scene.swarm.session_s)


# Deletions


async def delete_with_broker_away(scene: FaultScene) -> None:
    """Delete a topic while one of its replicas is on a broker that does not run."""
    seen = scene.targets.seen
    seen["topic made to be deleted"] += 1
    number = seen["topic made to be deleted"]
    administrator = ClusterAdministrator(scene.targets, f"deleter-{number}")
    topic_id = await administrator.create(TopicPlan(f"passing-{number}", 2, 2, 1))
    node = _choose_holder(scene, topic_id)
    if node is not None:
        scene.note(node)
        node.process.kill()
    # The broker comes back in any case: without it there may be no controller that deletes.
    deleting = scene.targets.world.loop.create_task(administrator.delete(topic_id))
    await scene.last()
    if node is not None:
        seen["deletion with a broker away"] += deleting.done() and not node.process.alive
        node.start()
    await deleting
    administrator.close()


def _choose_holder(scene: FaultScene, topic_id: TopicId) -> Node | None:
    """Choose a node with a replica of a topic, whose broker has a process."""
    topic = scene.nodes.image.topic_by_id(topic_id)
    holders = () if topic is None else topic.partitions[0].replicas
    nodes = [node for node in map(scene.nodes.by_id, holders) if node.process.alive]
    return scene.chance.choice(nodes) if nodes else None


# Tools


async def erase_topic_id(scene: FaultScene) -> None:
    """Let a tool of an older Kafka write a topic node as it is, without the id (KAFKA-14190).

    The controller restores the id, also one that is elected later and has never heard of it.
    """
    topics = _topics_of_controller(scene)
    path = paths.topic(scene.chance.choice(topics)) if topics else ""
    node = scene.ensemble.find(path)
    if node is None or not scene.ensemble.is_running:
        return
    scene.targets.world.trace.note("tool writes", path)
    fields = json.loads(node.data)
    scene.targets.seen["topic id erased"] += "topic_id" in fields
    erased = json.dumps({"version": 1, "partitions": fields["partitions"]}).encode()
    scene.ensemble.write_as_tool(SetData(path, erased))


def _topics_of_controller(scene: FaultScene) -> list[str]:
    """Return the topics that the controller knows; none unless it has read the tree."""
    node = scene.nodes.controller
    broker = None if node is None or not node.process.alive else node.process.newest_broker
    if broker is None or broker.parts.elected is None:
        return []
    store = broker.parts.elected.store
    return list(store.image.topics) if store.is_controller and store.following else []


ZOOKEEPER_FAULTS: dict[str, Fault] = {
    "session expiry": expire_session,
    "lost connection to ZooKeeper": lose_connection,
    "silence towards ZooKeeper": silence,
    "silence of the controller": silence_controller,
    "lagging ZooKeeper server": lag,
    "ZooKeeper gone": stop_ensemble,
    "kill of the controller": kill_controller,
    "orderly restart of the controller": restart_controller,
    "zombie controller": zombie_controller,
    "refused in its name": false_suspicion,
    "deletion with a broker away": delete_with_broker_away,
    "topic id erased by a tool": erase_topic_id,
    **LATE_REQUESTS,
}
