"""Faults of a quorum: of its leader, of its majority, of what only some of the voters have.

Voters that the settings name have their disks for the whole run (`InQuorum`). Whatever else ends or
is cut off comes back, and then the quorum has to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from moldau.sim.cluster.administrator import ClusterAdministrator
from moldau.sim.cluster.controller_faults import (
    false_suspicion,
    kill_controller,
    restart_controller,
)
from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.late_requests import PATIENCE_S, SENT_S, late_isr_proposal, late_join
from moldau.sim.cluster.metadata_keeping import VOTER_IDS
from moldau.sim.cluster.network_faults import Pair
from moldau.sim.cluster.nodes import Node
from moldau.sim.cluster.quorum_nodes import leading, life_of
from moldau.sim.cluster.swarm import TopicPlan

DIRECTIONS = ("there", "back", "both")

REPLACED_S = 15.0
"""Within which a voter with a new disk has taken its place, mostly: it asks twice, each time after
the fetch time-out."""

BURST = 3
"""Topics that are asked for at once."""


def _leader(scene: FaultScene) -> Node | None:
    """Return the node that leads in the newest epoch."""
    process = leading(node.process for node in scene.nodes.all)
    return (
        None
        if process is None
        else next(node for node in scene.nodes.all if node.process is process)
    )


def _epoch(scene: FaultScene) -> int:
    """Return the epoch of the newest leader; -1 while nobody leads."""
    node = _leader(scene)
    life = None if node is None else life_of(node.process)
    return -1 if life is None else life.epoch


def _voters(scene: FaultScene) -> list[Node]:
    return [scene.nodes.by_id(one) for one in VOTER_IDS]


async def _wait_for_another(scene: FaultScene, epoch: int, limit_s: float = PATIENCE_S) -> bool:
    """Wait until somebody leads in a later epoch; tell whether it has come to that."""
    return await scene.wait_until(lambda: _epoch(scene) > epoch, limit_s)


# The leader


async def zombie_leader(scene: FaultScene) -> None:
    """Let the leader stand still until others have elected another one, and longer."""
    node, epoch = _leader(scene), _epoch(scene)
    if node is None or node.process.paused:
        return
    scene.note(node)
    life = node.process.life
    node.process.pause()
    await _wait_for_another(scene, epoch)
    await scene.last()
    if node.process.alive and node.process.life == life and node.process.paused:
        scene.targets.seen["zombie controller resumed"] += scene.monitor.is_former_controller(node)
        node.process.resume()


async def cut_leader_from_voters(scene: FaultScene) -> None:
    """Let the leader and the other voters not reach each other; observers reach all of them."""
    node = _leader(scene)
    if node is not None:
        others = [one.name for one in _voters(scene) if one is not node]
        await _clog(scene, [(node.name, other) for other in others])


async def cut_leader_from_observers(scene: FaultScene) -> None:
    node = _leader(scene)
    if node is not None:
        others = [one.name for one in scene.nodes.all if one.id not in VOTER_IDS]
        await _clog(scene, [(node.name, other) for other in others])


async def cut_leader_from_one_voter(scene: FaultScene) -> None:
    """Let one voter alone lose its leader: it must not unseat it."""
    node = _leader(scene)
    if node is not None:
        others = [one.name for one in _voters(scene) if one is not node]
        await _clog(scene, [(node.name, scene.chance.choice(others))])


async def _clog(scene: FaultScene, pairs: Collection[Pair]) -> None:
    direction = scene.chance.choice(DIRECTIONS)
    links = [pair for pair in pairs if direction != "back"]
    links += [(other, one) for one, other in pairs if direction != "there"]
    for link in links:
        scene.network.clog(*link)
    await scene.last()
    for link in links:
        scene.network.unclog(*link)


async def fill_disk_of_leader(scene: FaultScene) -> None:
    """Let the leader have no room for a commit: it has to resign, and another one leads."""
    node, epoch = _leader(scene), _epoch(scene)
    if node is None:
        return
    scene.note(node)
    scene.targets.disks_failed = True
    node.process.disk.faults.fill_up(scene.chance.randrange(400))
    changing = _ask_for_topics(scene, node)
    has_resigned = await _wait_for_another(scene, epoch)
    scene.targets.seen["leader without room replaced"] += has_resigned
    node.process.disk.faults.heal()
    await scene.last()  # it may take part again, before its partitions are repaired by a restart
    if node.process.alive:
        node.process.kill()
    node.start()
    await changing


async def power_cut_of_leader(scene: FaultScene) -> None:
    node = _leader(scene)
    if node is not None:
        await _cut_power(scene, [node])


async def power_cut_of_all_voters(scene: FaultScene) -> None:
    await _cut_power(scene, [node for node in _voters(scene) if node.process.alive])


async def _cut_power(scene: FaultScene, nodes: list[Node]) -> None:
    for node in nodes:
        scene.note(node)
        scene.atlas.lost_records(node.id)
        node.process.power_cut(silent=scene.chance.random() < 0.5)
    await scene.last()
    for node in nodes:
        node.start()


# The majority


async def kill_majority(scene: FaultScene) -> None:
    await _kill(scene, scene.chance.sample(_voters(scene), len(VOTER_IDS) // 2 + 1))


async def kill_all_voters(scene: FaultScene) -> None:
    await _kill(scene, _voters(scene))


async def _kill(scene: FaultScene, nodes: list[Node]) -> None:
    """Kill nodes in one moment, and start them one after the other."""
    killed = [node for node in nodes if node.process.alive]
    for node in killed:
        scene.note(node)
        node.process.kill()
    await scene.last()
    scene.chance.shuffle(killed)
    for node in killed:
        node.start()
        await scene.wait(scene.chance.expovariate(1 / 0.2))


# What only some have


class _TailWriter(ClusterAdministrator):
    """Asks one node for what it cannot commit, before it asks others."""

    preferred: int | None = None

    def any_node(self) -> int:
        preferred, self.preferred = self.preferred, None
        return super().any_node() if preferred is None else preferred


async def uncommitted_tail(scene: FaultScene) -> None:
    """Let the leader append what nobody else gets, and others lead meanwhile; then it is back."""
    node, epoch = _leader(scene), _epoch(scene)
    life = None if node is None else life_of(node.process)
    if node is None or life is None or scene.healing.is_set():
        return
    scene.note(node)
    links = [(node.name, one.name) for one in scene.nodes.all if one is not node]
    if scene.chance.random() < 0.5:
        links += [(other, one) for one, other in links]
    for link in links:
        scene.network.clog(*link)
    changing = _ask_for_topics(scene, node)
    has_tail = await scene.wait_until(lambda: life.log.end_offset > life.high_watermark, PATIENCE_S)
    ending = scene.chance.choice(("none", "kill", "power cut"))
    if node.process.alive and ending == "kill":
        node.process.kill()
    elif node.process.alive and ending == "power cut":
        scene.atlas.lost_records(node.id)
        node.process.power_cut(silent=scene.chance.random() < 0.5)
    is_replaced = await _wait_for_another(scene, epoch)
    scene.targets.seen["tail of a former leader"] += has_tail and is_replaced
    for link in links:
        scene.network.unclog(*link)
    if not node.process.alive:
        node.start()
    await changing


def _ask_for_topics(scene: FaultScene, node: Node) -> asyncio.Future[list[None]]:
    """Have some topics created, as this node is to decide first, and deleted again."""
    count = scene.chance.randint(1, BURST)
    return asyncio.gather(*(_create_and_delete(scene, node) for _ in range(count)))


async def _create_and_delete(scene: FaultScene, node: Node) -> None:
    seen = scene.targets.seen
    seen["topic made in a burst"] += 1
    number = seen["topic made in a burst"]
    administrator = _TailWriter(scene.targets, f"burst-{number}")
    administrator.preferred = node.id
    topic_id = await administrator.create(TopicPlan(f"burst-{number}", 3, 2, 1))
    await administrator.delete(topic_id)
    administrator.close()


# Voters


async def replace_voter(scene: FaultScene) -> None:
    """Let a voter lose its metadata: it has to take its own place as another voter (KIP-853).

    One at a time: what a voter forgets is safe with the others.
    """
    if not scene.quorum.names_voters or not _all_vote(scene):
        return
    node = scene.chance.choice(_voters(scene))
    scene.note(node)
    if node.process.alive:
        node.process.kill()
    scene.quorum.lose_metadata(node.process.disk, node.id, node.clock.wall_ms())
    await scene.last(0.5)
    node.start()
    is_replaced = await scene.wait_until(lambda: _all_vote(scene), REPLACED_S)
    scene.targets.seen["voter replaced"] += is_replaced


def _all_vote(scene: FaultScene) -> bool:
    """Tell whether the leader's voters are the nodes that should be, with the disks they have."""
    node = _leader(scene)
    life = None if node is None else life_of(node.process)
    wanted = tuple(scene.quorum.replica(one) for one in VOTER_IDS)
    return life is not None and life.voters.keys == wanted


# Snapshots


async def snapshot_half_way(scene: FaultScene) -> None:
    """End a node, or its leader, when it has fetched a part of a snapshot."""
    leader, node = _leader(scene), scene.choose()
    if leader is None or node is None or node is leader:
        return
    scene.note(node)
    node.process.kill()
    if node.may_lose_disk:
        scene.atlas.lost_records(node.id)
        node.wipe()
    await scene.last()
    node.start()
    await scene.wait_until(lambda: _is_half_way(node), PATIENCE_S)
    victim = node if scene.chance.random() < 0.5 else leader
    if victim.process.alive:
        victim.process.kill()
    await scene.last(0.5)
    if not victim.process.alive:
        victim.start()


def _is_half_way(node: Node) -> bool:
    life = life_of(node.process)
    download = None if life is None else getattr(life.state, "download", None)
    return download is not None and download.position > 0 and not download.is_complete


# Late requests


async def late_requests(scene: FaultScene) -> None:
    """Let what one voter says to another arrive when a later epoch has a leader.

    Votes, the beginning of an epoch, fetches and heartbeats: whatever is said in the meantime.
    """
    leader, epoch = _leader(scene), _epoch(scene)
    if leader is None:
        return
    first, second = scene.chance.sample([one for one in _voters(scene) if one is not leader], 2)
    one, other = scene.chance.choice(((leader, first), (first, leader), (first, second)))
    scene.note(one)
    links = [(one.name, other.name)]
    scene.network.clog(*links[0])
    await scene.wait(scene.chance.uniform(0.0, 0.5))
    if other is leader:
        # It goes on, and the other two have to reach each other.
        links += [(leader.name, second.name), (second.name, leader.name)]
        for link in links[1:]:
            scene.network.clog(*link)
    elif leader.process.alive:
        leader.process.kill()
        if one is not leader:
            leader.start()  # without it there is no majority
    is_later = await _wait_for_another(scene, epoch)
    await scene.last(0.5)
    scene.targets.seen["request of an earlier epoch"] += is_later
    for link in links:
        scene.network.unclog(*link)
    await scene.wait(SENT_S)  # the end of its connections must not arrive before the rest
    if not leader.process.alive:
        leader.start()


QUORUM_FAULTS: dict[str, Fault] = {
    "kill of the controller": kill_controller,
    "orderly restart of the controller": restart_controller,
    "refused in its name": false_suspicion,
    "zombie leader of the quorum": zombie_leader,
    "leader cut off from voters": cut_leader_from_voters,
    "leader cut off from observers": cut_leader_from_observers,
    "leader cut off from one voter": cut_leader_from_one_voter,
    "full disk of the leader": fill_disk_of_leader,
    "power cut of the leader": power_cut_of_leader,
    "power cut of all voters": power_cut_of_all_voters,
    "kill of a majority": kill_majority,
    "kill of all voters": kill_all_voters,
    "uncommitted tail": uncommitted_tail,
    "voter replaced": replace_voter,
    "snapshot half way": snapshot_half_way,
    "late requests of a node": late_requests,
    "late ISR proposal": late_isr_proposal,
    "late join": late_join,
}

RARE_FAULTS: Final = ("zombie leader of the quorum", "full disk of the leader")
"""Every run has one of these. They need a leader and some time, and what they lead to is seldom
seen without."""
