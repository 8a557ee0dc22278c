"""Mutants of a cluster on ZooKeeper: the controller, its commands, and what it takes for gone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kits.mutants.cluster_runs import QUICK_LAG, on_zookeeper
from kits.mutants.mutant import Mutant
from kits.mutants.replication import LEADER_ALONE
from moldau.base.ids import PartitionKey, TopicId, random_uuid
from moldau.cluster import broker_controller, isr_changes
from moldau.cluster.controller_queue import ControllerQueue
from moldau.cluster.zookeeper import tool_decisions, tree_following
from moldau.cluster.zookeeper.client.port import CheckVersion
from moldau.cluster.zookeeper.commands import incoming
from moldau.cluster.zookeeper.commands.fencing import NO_EPOCH, CommandFence
from moldau.cluster.zookeeper.election import Seat
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.tenure import Tenure
from moldau.protocol.errors import ErrorCode
from moldau.server.handlers import commands
from moldau.server.handlers.commands import CommandHandlers
from moldau.server.zookeeper import gone_brokers

Patch = pytest.MonkeyPatch

CONTROLLERS = ("zombie controller", "silence of the controller", "kill of the controller")
SESSIONS = ("session expiry", "kill", "lost connection to ZooKeeper")
REPLACED = ("refused in its name", "silence of the controller")
SUSPICIONS = ("refused in its name", "kill of a leader")

LONG_SESSIONS = {
    **QUICK_LAG,
    "zookeeper.session.timeout.ms": "3000",
    "broker.session.timeout.ms": "3000",
}
"""A controller that hears nothing of ZooKeeper keeps its session when it is replaced."""


def write_without_the_epoch(patch: Patch) -> None:
    """Let the check of the controller epoch at the head of every multi hold for any epoch."""
    patch.setattr(Seat, "check", CheckVersion(paths.CONTROLLER_EPOCH, None))


def obey_every_controller(patch: Patch) -> None:
    """Carry out commands of a controller that was replaced, also if they are older than the image.

    Roles come with UpdateMetadata. LeaderAndIsr only asks whether they were taken over.
    """

    def check(self, controller_id, controller_epoch, broker_epoch, own_broker_epoch):
        self.controller_id, self.controller_epoch = controller_id, controller_epoch
        is_own = broker_epoch in (NO_EPOCH, own_broker_epoch)
        return None if is_own else ErrorCode.STALE_BROKER_EPOCH

    whole = commands.updated_image

    def updated_image(image, update):
        if update.version < image.version:
            image = replace(image, version=update.base_version)
        return whole(image, update)

    patch.setattr(CommandFence, "check", check)
    patch.setattr(incoming, "_check_header", lambda *_: None)
    patch.setattr(commands, "updated_image", updated_image)


def forget_to_look_at_brokers(patch: Patch) -> None:
    """Do not read again who is alive when the watch on `/brokers/ids` was called."""
    whole = tree_following.TreeFollowing._look_at

    async def look_at(self, path):
        if path != paths.BROKER_IDS:
            await whole(self, path)

    patch.setattr(tree_following.TreeFollowing, "_look_at", look_at)


def go_on_when_fenced(patch: Patch) -> None:
    """Let a controller that has lost its session or its seat go on as if nothing had been."""
    whole = ControllerQueue.claim

    def claim(self):
        self._decisions = None  # it would notice that it claims what it holds
        return whole(self)

    patch.setattr(ControllerQueue, "claim", claim)
    patch.setattr(Tenure, "end", lambda _: None)


def suspect_without_fencing(patch: Patch) -> None:
    """Decide that a broker is gone, and leave its node and its epoch as they are."""

    async def evict(tenure, broker):
        following = tenure.following
        following._brokers.pop(broker.id, None)
        following._tell(tree_following.BrokersSeen(dict(following._brokers)))
        return True

    whole = tree_following.TreeFollowing.__init__

    def init(self, tenure):
        whole(self, tenure)
        tenure.following = self

    patch.setattr(tree_following.TreeFollowing, "__init__", init)
    patch.setattr(gone_brokers, "evict_broker", evict)


def delete_whatever_the_epoch(patch: Patch) -> None:
    """Delete what StopReplica names, as Kafka's brokers do, and look at none of its epochs.

    Our brokers delete what their metadata says. StopReplica only asks whether they have.
    """
    whole = CommandHandlers.stop_replica

    async def stop_replica(self, request, context):
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = PartitionKey(topic.topic_name, state.partition_index)
                if self._partitions.get(*key) is not None:
                    self._follower._drop(key)
        return await whole(self, request, context)

    patch.setattr(CommandHandlers, "stop_replica", stop_replica)


def draw_topic_ids_again(patch: Patch) -> None:
    """Give a topic whose node has lost its id a new one, not the one that it had."""
    whole = tool_decisions.restored_topic

    def restored(image, name, node, topic_id):
        drawn = TopicId(random_uuid(random.Random(topic_id)))
        return whole(image, name, node, drawn)

    patch.setattr(tool_decisions, "restored_topic", restored)


def take_proposals_of_earlier_lives(patch: Patch) -> None:
    """Let an earlier life of a leader change the ISR.

    Its proposal is old in three ways: the broker epoch of the request, the leader epoch, and the
    broker epoch that it names for the leader. Each of the checks would refuse it, so such a
    proposal is taken for one of the current life as a whole.
    """
    whole = isr_changes.alter_partitions

    def alter_partitions(image, broker_id, broker_epoch, proposals, **options):
        broker = image.brokers.get(broker_id)
        if broker is not None and broker_epoch < broker.epoch:
            proposals = [_renewed(image, broker, one) for one in proposals]
            broker_epoch = broker.epoch
        return whole(image, broker_id, broker_epoch, proposals, **options)

    patch.setattr(broker_controller, "alter_partitions", alter_partitions)


def _renewed(image, broker, proposal):
    """Return a proposal as the current life of its leader would make it."""
    topic = image.topic_by_id(proposal.topic_id)
    if topic is None:
        return proposal
    partition = topic.partitions[proposal.index]
    return replace(
        proposal,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple(
            (member, broker.epoch if member == broker.id else epoch)
            for member, epoch in proposal.isr
        ),
    )


ANY = "[IP][0-9]+|not finished"

MUTANTS = {
    "a controller on ZooKeeper writes without its epoch": Mutant(
        write_without_the_epoch,
        on_zookeeper(*REPLACED, settings=LONG_SESSIONS, fault_length_s=1.5),
        ANY,
    ),
    "commands of a former controller are executed": Mutant(
        obey_every_controller,
        on_zookeeper("late UpdateMetadata", fault_mean_s=1.0),
        f"{ANY}|E10",
    ),
    "live brokers are not read again": Mutant(
        forget_to_look_at_brokers, on_zookeeper(*SESSIONS), ANY
    ),
    "a fenced controller goes on": Mutant(
        go_on_when_fenced, on_zookeeper(*CONTROLLERS), f"{ANY}|.*epoch was granted twice"
    ),
    "a process is declared dead but not fenced": Mutant(
        suspect_without_fencing, on_zookeeper(*SUSPICIONS), ANY
    ),
    "StopReplica ignores its epoch": Mutant(
        delete_whatever_the_epoch, on_zookeeper("late StopReplica", fault_mean_s=2.0), ANY
    ),
    "a topic id is generated again": Mutant(
        draw_topic_ids_again, on_zookeeper("topic id erased by a tool", *SESSIONS), ANY
    ),
    "AlterPartition of an earlier incarnation is accepted": Mutant(
        take_proposals_of_earlier_lives,
        on_zookeeper("late ISR proposal", settings=QUICK_LAG, fault_mean_s=1.0, **LEADER_ALONE),
        ANY,
    ),
}
