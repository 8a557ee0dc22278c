"""When a transactional producer in a simulated cluster calls a refusal a broken promise."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Partition, Topic
from moldau.protocol.errors import ErrorCode
from moldau.server.lifecycle.internal_topics import TRANSACTIONS_TOPIC
from moldau.sim.cluster.coordinated_clients import ClusterTransactor
from moldau.sim.cluster.coordination_targets import CoordinationTargets
from moldau.sim.history import Violation
from moldau.sim.network import SimNetwork
from moldau.sim.workload.coordinated import CoordinatorKind
from moldau.sim.workload.targets import TopicTarget
from moldau.sim.workload.transactor import Age, Producer, TransactorPlan
from moldau.sim.world import World

PLAN = TransactorPlan(Age.VERIFIED, timeout_ms=10_000, pause_s=0.1, abandons=False)
SHUT_OUT = "shut out by a former coordinator"


def image(leader: int, leader_epoch: int) -> MetadataImage:
    partition = Partition(0, (1, 2), (1, 2), leader, leader_epoch)
    return MetadataImage(
        topics={TRANSACTIONS_TOPIC: Topic(TRANSACTIONS_TOPIC, b"t" * 16, (partition,))}
    )


FORMER = image(leader=1, leader_epoch=3)
PRESENT = image(leader=2, leader_epoch=4)


class Cluster:
    """What the voter has decided, and what all other brokers know of it."""

    def __init__(self, known_to_brokers: MetadataImage) -> None:
        self.image = PRESENT
        self.known_to_brokers = known_to_brokers

    def by_id(self, _: int) -> SimpleNamespace:
        store = SimpleNamespace(image=self.known_to_brokers)
        broker = SimpleNamespace(parts=SimpleNamespace(store=store))
        return SimpleNamespace(process=SimpleNamespace(broker=broker))


def end_refused(nodes: Cluster, during_call=lambda: None) -> ClusterTransactor:
    """Refuse the end of a transaction that has just begun."""

    async def call(*_):
        during_call()
        return SimpleNamespace(error_code=ErrorCode.INVALID_TXN_STATE)

    async def scenario(producer: ClusterTransactor) -> None:
        link = await producer.connect()
        link._client = SimpleNamespace(call=call)
        link._coordinators[CoordinatorKind.TRANSACTION, producer.name] = 1
        producer._producer = Producer(7, 0)
        producer._plan_transaction()
        await producer._take(link, producer._steps[-1])

    with World(1) as world:
        network = SimNetwork(world)
        cluster = SimpleNamespace(world=world, network=network, nodes=nodes, seen=Counter())
        targets = CoordinationTargets(cluster, atlas=None, clocks_jump=False)
        targets.topics.append(TopicTarget("kept", 1, {}, by_id=False, kept=True))
        producer = ClusterTransactor(targets, "transactor-0", PLAN)
        world.run(scenario(producer))
        return producer


def test_the_present_coordinator_may_not_refuse_a_young_transaction():
    with pytest.raises(Violation, match="P5"):
        end_refused(Cluster(known_to_brokers=PRESENT))


def test_a_former_coordinator_refuses_from_its_memory():
    producer = end_refused(Cluster(known_to_brokers=FORMER))
    assert producer.targets.seen[SHUT_OUT] == 1
    assert producer._producer is None  # it begins anew


def test_it_may_hear_of_its_successor_while_its_answer_is_under_way():
    nodes = Cluster(known_to_brokers=FORMER)

    def catch_up():
        nodes.known_to_brokers = PRESENT

    assert end_refused(nodes, catch_up).targets.seen[SHUT_OUT] == 1


def test_a_successor_may_be_elected_while_the_answer_is_under_way():
    nodes = Cluster(known_to_brokers=PRESENT)

    def elect():
        nodes.image = image(leader=1, leader_epoch=5)

    assert end_refused(nodes, elect).targets.seen[SHUT_OUT] == 1
