"""Requests that arrive late, when the cluster has moved on.

All were right when they were sent. What they ask for would now do harm.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from moldau.base.ids import TopicId
from moldau.cluster.zookeeper.history import controller_epoch_of
from moldau.sim.cluster.administrator import ClusterAdministrator
from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.network_faults import JOIN_S, Pair, choose_follower
from moldau.sim.cluster.nodes import Node
from moldau.sim.cluster.swarm import TopicPlan

PATIENCE_S = 3.0
"""Within which a broker has heard of a topic, or a follower has caught up, mostly."""

SENT_S = 0.005
"""In which a broker has sent what it is about to send, and a free link would have it arrive."""


async def late_update(scene: FaultScene) -> None:
    """Let a broker hear of a change (UpdateMetadata) when another controller has told it more."""
    controller, node = scene.nodes.controller, scene.choose()
    if controller is None or node is None or node is controller:
        return
    scene.note(node)
    scene.network.clog(controller.name, node.name)
    await scene.wait_until(lambda: _version(controller) > _version(node) >= 0, PATIENCE_S)
    await scene.wait(SENT_S)
    if not scene.healing.is_set():  # at the end of a run nobody loses a session any more
        epoch = controller_epoch_of(_version(node))
        scene.ensemble.expire(controller.name)
        is_told = await scene.wait_until(
            lambda: controller_epoch_of(_version(node)) > epoch, PATIENCE_S
        )
        await scene.last()
        scene.targets.seen["update of a former controller"] += is_told
    scene.network.unclog(controller.name, node.name)


def _version(node: Node) -> int:
    """Return the version of the metadata of a broker that serves, -1 if it does not."""
    broker = node.process.broker
    return broker.parts.store.image.version if node.serving and broker is not None else -1


async def late_stop_replica(scene: FaultScene) -> None:
    """Let a broker hear that it is to delete a topic when that was created anew.

    The broker knows already that the topic is gone. Then it hears no more of the controller that
    says so (StopReplica), and another controller creates the topic again.
    """
    controller, node = scene.nodes.controller, scene.choose()
    if controller is None or node is None or node is controller or scene.healing.is_set():
        return
    scene.note(node)
    seen = scene.targets.seen
    seen["topic made to return"] += 1
    number = seen["topic made to return"]
    plan = TopicPlan(f"returning-{number}", 3, 3, 1)
    administrator = ClusterAdministrator(scene.targets, f"returner-{number}")
    topic_id = await administrator.create(plan)
    await scene.wait_until(partial(_has_topic, node, topic_id), PATIENCE_S)
    deleting = scene.targets.world.loop.create_task(administrator.delete(topic_id))
    await scene.wait_until(lambda: not _has_topic(node, topic_id), PATIENCE_S)
    scene.network.clog(controller.name, node.name)
    await scene.wait(JOIN_S)
    scene.ensemble.expire(controller.name)
    await deleting
    topic_id = await administrator.create(plan)
    is_back = await scene.wait_until(partial(_has_topic, node, topic_id), PATIENCE_S)
    seen["topic back before a late deletion"] += is_back
    scene.network.unclog(controller.name, node.name)
    administrator.close()


def _has_topic(node: Node, topic_id: TopicId) -> bool:
    """Tell whether the metadata of a broker that serves has a topic."""
    broker = node.process.broker
    if not node.serving or broker is None:
        return False
    return broker.parts.store.image.topic_by_id(topic_id) is not None


class _Actors(NamedTuple):
    """Who takes part in a proposal of an ISR."""

    leader: Node
    follower: Node
    controller: Node

    @property
    def fetches(self) -> list[Pair]:
        """The links that the follower needs."""
        leader, follower = self.leader.name, self.follower.name
        return [(leader, follower), (follower, leader)]

    @property
    def requests(self) -> Pair:
        """The link that the leader's proposals take."""
        return self.leader.name, self.controller.name


async def late_isr_proposal(scene: FaultScene) -> None:
    """Let a leader's proposal of a larger ISR arrive when the leader was killed and leads again.

    In its next life it leads alone, and goes on while the follower is cut off. By then the follower
    lacks records.
    """
    actors = _choose_actors(scene)
    if actors is None:
        return
    leader = actors.leader
    is_proposed = await _hold_proposal(scene, actors)
    is_killed = leader.process.alive
    if is_killed:
        leader.process.kill()
        await scene.wait(SENT_S)  # the end of the connection must not arrive before the rest
    let_arrive = scene.network.set_aside(*actors.requests)
    if is_killed:
        leader.start()
    leads = await scene.wait_until(lambda: _leads(scene, leader), PATIENCE_S)
    await scene.wait(scene.swarm.session_s * scene.chance.uniform(0.2, 1.0))
    scene.targets.seen["late ISR proposal"] += is_proposed and is_killed and leads
    let_arrive()
    await _let_fetch(scene, actors)


async def late_join(scene: FaultScene) -> None:
    """Let a leader's proposal of an ISR with a follower arrive when that has lost its power.

    The follower is registered again by then, and has lost what it had not synced (KIP-903).
    """
    actors = _choose_actors(scene)
    if actors is None:
        return
    follower = actors.follower
    is_proposed = await _hold_proposal(scene, actors)
    is_cut = follower.process.alive
    if is_cut:
        scene.atlas.lost_records(follower.id)
        follower.process.power_cut(silent=False)
        follower.start()
    is_back = await scene.wait_until(
        lambda: follower.serving and scene.nodes.is_registered(follower.id), PATIENCE_S
    )
    scene.targets.seen["late join"] += is_proposed and is_cut and is_back
    await scene.last(JOIN_S)
    scene.network.unclog(*actors.requests)
    await _let_fetch(scene, actors)


def _choose_actors(scene: FaultScene) -> _Actors | None:
    leader, controller = scene.choose_leader(), scene.nodes.controller
    if leader is None or controller is None or leader is controller:
        return None
    follower = choose_follower(scene, leader, controller)
    if follower is None:
        return None
    scene.note(leader)
    return _Actors(leader, follower, controller)


async def _hold_proposal(scene: FaultScene, actors: _Actors) -> bool:
    """Let a follower leave the ISR and return, then cut it off again.

    What its leader proposes meanwhile does not reach the controller; tell whether it has proposed.
    """
    for link in actors.fetches:
        scene.network.clog(*link)
    await scene.wait(scene.swarm.lag_s * scene.chance.uniform(1.5, 2.5))
    scene.network.clog(*actors.requests)
    for link in actors.fetches:
        scene.network.unclog(*link)
    is_proposed = await scene.wait_until(
        lambda: _is_proposed(actors.leader, actors.follower), PATIENCE_S
    )
    await scene.wait(SENT_S)
    for link in actors.fetches:
        scene.network.clog(*link)
    return is_proposed


async def _let_fetch(scene: FaultScene, actors: _Actors) -> None:
    """Let the follower fetch again, when a proposal that is on its way was decided on."""
    await scene.wait(JOIN_S)
    for link in actors.fetches:
        scene.network.unclog(*link)


def _is_proposed(leader: Node, follower: Node) -> bool:
    """Tell whether a leader has asked for an ISR with this follower, and has no answer yet."""
    broker = leader.process.broker
    if not leader.serving or broker is None:
        return False
    pending = (one.pending_isr for one in broker.parts.partitions)
    return any(one is not None and follower.id in one.isr for one in pending)


def _leads(scene: FaultScene, leader: Node) -> bool:
    """Tell whether a broker leads a partition in its current life."""
    broker = leader.process.broker
    if not leader.serving or broker is None or not scene.nodes.is_registered(leader.id):
        return False
    return any(one.leads for one in broker.parts.partitions)


LATE_REQUESTS: dict[str, Fault] = {
    "late UpdateMetadata": late_update,
    "late StopReplica": late_stop_replica,
    "late ISR proposal": late_isr_proposal,
    "late join": late_join,
}
