"""Faults of the wires between brokers, the controller and clients.

A clogged link keeps what travels on it, so what was sent before may arrive long after.
"""

from __future__ import annotations

from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.nodes import Node

Pair = tuple[str, str]
"""Source and target of a link, or two hosts."""

JOIN_S = 0.3
"""In which a follower has caught up, mostly, and its leader has proposed it for the ISR."""


async def _clog(scene: FaultScene, pairs: list[Pair]) -> None:
    """Let nothing pass between pairs of hosts, in one direction or in both."""
    directions = scene.chance.choice(("there", "back", "both"))
    links = [pair for pair in pairs if directions != "back"]
    links += [(other, one) for one, other in pairs if directions != "there"]
    for link in links:
        scene.network.clog(*link)
    await scene.last()
    for link in links:
        scene.network.unclog(*link)


async def part_brokers(scene: FaultScene) -> None:
    names = _shuffled_names(scene)
    cut = scene.chance.randrange(1, len(names))
    await _clog(scene, [(one, other) for one in names[:cut] for other in names[cut:]])


async def part_from_controller(scene: FaultScene) -> None:
    controller = scene.nodes.controller
    if controller is None:
        return
    others = [node.name for node in scene.nodes.all if node is not controller]
    chosen = scene.chance.sample(others, scene.chance.randrange(1, len(others) + 1))
    await _clog(scene, [(controller.name, other) for other in chosen])


async def part_clients(scene: FaultScene) -> None:
    brokers = [node.name for node in scene.nodes.all]
    clients = [host for host in scene.network.hosts if host not in brokers]
    pairs = [(broker, client) for broker in brokers for client in clients]
    await _clog(scene, [pair for pair in pairs if scene.chance.random() < 0.4])


async def isolate(scene: FaultScene) -> None:
    """Cut one broker off from all others, but not from clients."""
    name = scene.chance.choice(scene.nodes.all).name
    await _clog(scene, [(name, node.name) for node in scene.nodes.all if node.name != name])


async def part_in_a_ring(scene: FaultScene) -> None:
    """Let each broker reach its two neighbours only."""
    names = _shuffled_names(scene)
    count = len(names)
    pairs = [
        (names[one], names[other])
        for one in range(count)
        for other in range(one + 2, count)
        if (other + 1) % count != one
    ]
    await _clog(scene, pairs or [(names[0], names[-1])])


async def swizzle(scene: FaultScene) -> None:
    """Clog some links one after the other, and unclog them in another order."""
    names = [node.name for node in scene.nodes.all]
    links = [(one, other) for one in names for other in names if one != other]
    chosen = scene.chance.sample(links, scene.chance.randrange(1, len(links) + 1))
    step_s = scene.swarm.fault_length_s / len(chosen)
    for link in chosen:
        scene.network.clog(*link)
        await scene.last(step_s)
    scene.chance.shuffle(chosen)
    for link in chosen:
        scene.network.unclog(*link)
        await scene.last(step_s)


async def lose_isr_answers(scene: FaultScene) -> None:
    """Let a leader ask for another ISR, hear no answer, and be replaced or hear it late.

    A follower is cut off from its leader, which therefore asks for an ISR without it. The
    controller hears that and decides, but nothing that it sends reaches the leader. Or the same
    happens when the follower is back: the leader asks for an ISR with it, and then it is cut off
    again.
    """
    leader, controller = scene.choose_leader(), scene.nodes.controller
    if leader is None or controller is None or leader is controller:
        return
    follower = choose_follower(scene, leader, controller)
    if follower is None:
        return
    scene.note(leader)
    answers = [(controller.name, leader.name)]
    fetches = [(leader.name, follower.name), (follower.name, leader.name)]
    is_join = scene.chance.random() < 0.5
    if is_join:
        await _leave_and_return(scene, fetches, answers)
    links = answers + fetches
    for link in fetches if is_join else links:
        scene.network.clog(*link)
    await scene.wait(scene.swarm.lag_s * scene.chance.uniform(1.0, 2.0))
    killed = leader.process.alive and scene.chance.random() < 0.7
    if killed:
        leader.process.kill()
        await scene.wait(scene.swarm.session_s * scene.chance.uniform(0.2, 2.0))
    for link in links:
        scene.network.unclog(*link)
    if killed:
        leader.start()


async def _leave_and_return(scene: FaultScene, fetches: list[Pair], answers: list[Pair]) -> None:
    """Let a follower leave the ISR and fetch again, when its leader hears no answers any more."""
    for link in fetches:
        scene.network.clog(*link)
    await scene.wait(scene.swarm.lag_s * scene.chance.uniform(1.5, 2.5))
    for link in answers:
        scene.network.clog(*link)
    for link in fetches:
        scene.network.unclog(*link)
    await scene.wait(JOIN_S * scene.chance.uniform(0.2, 2.0))


def choose_follower(scene: FaultScene, leader: Node, controller: Node) -> Node | None:
    """Choose a broker that is in sync with this leader and is not the controller."""
    in_sync = {
        broker_id
        for topic in scene.nodes.image.topics.values()
        for partition in topic.partitions
        if partition.leader == leader.id
        for broker_id in partition.isr
        if broker_id not in (leader.id, controller.id)
    }
    return scene.nodes.by_id(scene.chance.choice(sorted(in_sync))) if in_sync else None


async def reset(scene: FaultScene) -> None:
    hosts = scene.network.hosts
    for one in scene.nodes.all:
        for other in hosts:
            if other != one.name and scene.chance.random() < 0.3:
                scene.network.reset(one.name, other)


def _shuffled_names(scene: FaultScene) -> list[str]:
    names = [node.name for node in scene.nodes.all]
    scene.chance.shuffle(names)
    return names


NETWORK_FAULTS: dict[str, Fault] = {
    "broker partition": part_brokers,
    "controller partition": part_from_controller,
    "client partition": part_clients,
    "isolation": isolate,
    "ring partition": part_in_a_ring,
    "swizzled partition": swizzle,
    "lost ISR answers": lose_isr_answers,
    "reset": reset,
}
