"""Produce on a broker that stops: what it refuses is sent on once, and the leader is named."""

from __future__ import annotations

import asyncio

import pytest

from kits.log_kit import make_batch
from kits.metadata_samples import after, with_brokers, with_topic
from kits.request_kit import context, session
from moldau.base.ids import BrokerId
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.topics import NewTopic
from moldau.engine.errors import ConnectionLost
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.server.nodes.leader_hints import LeaderHints
from moldau.server.nodes.successors import PATIENCE_S, SuccessorProduce
from moldau.sim.world import World

OWN, NEXT, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
VERSION = 10
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
ACCEPTED = ErrorCode.NONE
EVERYBODY = (OWN, NEXT, THIRD)


def response(*codes, base_offset=-1):
    results = [PartitionProduceResponse(at, code, base_offset) for at, code in enumerate(codes)]
    return ProduceResponse([TopicProduceResponse("t", partition_responses=results)])


def request(*records):
    data = [PartitionProduceData(at, each) for at, each in enumerate(records)]
    return ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=data)])


class Scene:
    """Broker 1 has handed both partitions of a topic over to broker 2, and stops."""

    def __init__(self, world, own=None):
        image = with_topic(with_brokers(EVERYBODY), NewTopic("t", 2))
        self.topic_id = image.topics["t"].id
        self.image = image
        for partition in (0, 1):
            self.lead(partition, NEXT)
        self.own = own or (lambda request: response(*[NOT_LEADER] * count_of(request)))
        self.answers = []
        """What brokers answer, one by one; the last one again and again."""
        self.sent = []
        self.handler = SuccessorProduce(
            self.handle, self, LeaderHints(lambda: self.image), OWN, world.clock
        )

    def lead(self, partition, leader):
        change = PartitionChanged(self.topic_id, partition, EVERYBODY, leader, EVERYBODY)
        self.image = after(self.image, [change])

    def handle(self, asked, _context):
        answer = self.own(asked)
        for topic in asked.topic_data:
            for data in topic.partition_data:
                data.records = None  # as the handler of Produce does
        return answer

    async def call_in(self, broker_id, asked, version):
        records = [bytes(data.records) for data in asked.topic_data[0].partition_data]
        self.sent.append((broker_id, version, records))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def produce(self, asked=None, *, asker=None, version=VERSION):
        answer = self.handler(asked or request(b"r"), context(version, asker=asker))
        return answer if isinstance(answer, ProduceResponse) else await answer


def count_of(asked):
    return len(asked.topic_data[0].partition_data)


def codes_of(answer):
    return [result.error_code for result in answer.responses[0].partition_responses]


def leaders_of(answer):
    results = answer.responses[0].partition_responses
    return [result.current_leader.leader_id for result in results]


def play(scenario, own=None):
    with World(1) as world:
        world.run(scenario(Scene(world, own)))


def test_what_is_not_refused_stays_as_it_is():
    async def scenario(scene):
        answer = await scene.produce()
        assert (codes_of(answer), leaders_of(answer), scene.sent) == ([ACCEPTED], [-1], [])

    play(scenario, own=lambda _: response(ACCEPTED))


def test_an_answer_that_comes_later_is_waited_for():
    async def scenario(scene):
        scene.answers = [response(ACCEPTED)]
        assert codes_of(await scene.produce()) == [ACCEPTED]
        assert len(scene.sent) == 1

    async def refused_later():
        await asyncio.sleep(0.1)
        return response(NOT_LEADER)

    play(scenario, own=lambda _: refused_later())


def test_a_refused_request_is_sent_on_as_it_was_and_the_answer_names_the_leader():
    async def scenario(scene):
        scene.answers = [response(ACCEPTED)]
        buffer = bytearray(b"records")
        coming = scene.handler(request(memoryview(buffer)), context(VERSION))
        buffer[:] = b"-------"  # the next request, in the same receive buffer
        answer = await coming
        assert scene.sent == [(NEXT, VERSION, [b"records"])]
        assert (codes_of(answer), leaders_of(answer)) == ([ACCEPTED], [NEXT])
        (endpoint,) = answer.node_endpoints
        assert endpoint.node_id == NEXT

    play(scenario)


def test_a_client_that_was_told_is_refused_and_others_are_not():
    async def scenario(scene):
        scene.answers = [response(ACCEPTED)]
        first, second = session(), session()
        assert codes_of(await scene.produce(asker=first)) == [ACCEPTED]
        assert codes_of(await scene.produce(asker=first)) == [NOT_LEADER]
        assert codes_of(await scene.produce(asker=second)) == [ACCEPTED]
        assert len(scene.sent) == 2

    play(scenario)


def test_a_leader_that_does_not_know_yet_is_asked_until_it_does():
    async def scenario(scene):
        scene.answers = [response(NOT_LEADER), response(NOT_LEADER), response(ACCEPTED)]
        assert codes_of(await scene.produce()) == [ACCEPTED]
        assert len(scene.sent) == 3

    play(scenario)


def test_a_leader_that_never_knows_is_given_up():
    async def scenario(scene):
        scene.answers = [response(NOT_LEADER)]
        began = asyncio.get_running_loop().time()
        assert codes_of(await scene.produce()) == [NOT_LEADER]
        assert asyncio.get_running_loop().time() - began < PATIENCE_S + 1

    play(scenario)


def test_the_client_is_refused_where_nobody_knows_what_came_of_it():
    async def scenario(scene):
        scene.answers = [ConnectionLost("gone")]
        assert codes_of(await scene.produce()) == [NOT_LEADER]
        scene.answers = [response(ACCEPTED)]  # it was told of no leader
        assert codes_of(await scene.produce()) == [ACCEPTED]

    play(scenario)


def test_another_refusal_of_the_next_leader_is_the_answer():
    async def scenario(scene):
        scene.answers = [response(ErrorCode.NOT_ENOUGH_REPLICAS)]
        answer = await scene.produce()
        assert codes_of(answer) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert leaders_of(answer) == [NEXT]

    play(scenario)


def test_both_partitions_of_a_request_go_to_the_leader_of_both():
    async def scenario(scene):
        scene.answers = [response(ACCEPTED, ACCEPTED)]
        answer = await scene.produce(request(b"a", b"b"))
        assert (codes_of(answer), leaders_of(answer)) == ([0, 0], [NEXT, NEXT])

    play(scenario)


@pytest.mark.parametrize("leader", [THIRD, OWN, -1])
def test_a_request_for_partitions_of_two_leaders_is_not_sent_on(leader):
    async def scenario(scene):
        scene.lead(1, leader)
        assert codes_of(await scene.produce(request(b"a", b"b"))) == [NOT_LEADER, NOT_LEADER]
        assert scene.sent == []

    play(scenario)


def test_a_request_that_was_accepted_in_part_is_not_sent_on():
    async def scenario(scene):
        assert codes_of(await scene.produce(request(b"a", b"b"))) == [NOT_LEADER, ACCEPTED]
        assert scene.sent == []

    play(scenario, own=lambda _: response(NOT_LEADER, ACCEPTED))


def appended_here(_):
    return response(NOT_LEADER, base_offset=7)


@pytest.mark.parametrize(("producer_id", "is_sent_on"), [(-1, False), (4000, True)])
def test_what_was_appended_here_is_sent_on_only_if_it_would_be_recognised(producer_id, is_sent_on):
    async def scenario(scene):
        scene.answers = [response(ACCEPTED)]
        batch = make_batch(producer=(producer_id, 0, 0))
        answer = await scene.produce(request(batch))
        assert codes_of(answer) == [ACCEPTED if is_sent_on else NOT_LEADER]
        assert scene.sent == ([(NEXT, VERSION, [batch])] if is_sent_on else [])

    play(scenario, own=appended_here)


def test_what_the_next_leader_appended_before_it_was_replaced_goes_no_further():
    async def scenario(scene):
        scene.answers = [appended_here(None), response(ACCEPTED)]
        assert codes_of(await scene.produce(request(make_batch()))) == [NOT_LEADER]
        assert len(scene.sent) == 1

    play(scenario)


def test_a_client_that_could_not_be_told_is_refused():
    async def scenario(scene):
        assert codes_of(await scene.produce(version=VERSION - 1)) == [NOT_LEADER]
        assert scene.sent == []

    play(scenario)


def test_a_request_without_acknowledgement_has_no_answer():
    async def scenario(scene):
        assert await scene.handler(request(b"r"), context(VERSION)) is None

    play(scenario, own=lambda _: None)
