"""ISR changes on their way to the controller: batches, one request at a time, answers."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.ids import PartitionKey
from moldau.cluster.isr_changes import IsrAnswer
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.replication.leader_state import IsrProposal as LeadersProposal
from moldau.server.nodes import isr_proposals
from moldau.server.nodes.isr_proposals import IsrProposals

OWN = 1


class Partition:
    """A partition that has proposed something, and what it was answered."""

    def __init__(self, number, topic=b"t"):
        self.topic_id = topic * 16
        self.key = PartitionKey("t", number)
        self.pending_isr = None
        self.answers = []

    def proposes(self, *isr, partition_epoch=5):
        epochs = tuple(-1 if member == OWN else 100 + member for member in isr)
        self.pending_isr = LeadersProposal(3, partition_epoch, isr, epochs)
        return self.pending_isr

    def isr_answer(self, proposal, error, **values):
        self.answers.append((proposal, error, values))
        if self.pending_isr is proposal:
            self.pending_isr = None


class Controller:
    """Answers requests when a test lets it."""

    def __init__(self):
        self.asked = []
        self.most_at_once = 0
        self.at_once = 0
        self.results = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, broker_id, broker_epoch, proposals):
        self.asked.append((broker_id, broker_epoch, proposals))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.gate.wait()
        self.at_once -= 1
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return [
            IsrAnswer(
                one.topic_id, one.index, ErrorCode.NONE, OWN, 3,
                tuple(member for member, _ in one.isr), False, one.partition_epoch + 1,
            )
            for one in reversed(proposals)
            if result is None or one.index in result
        ]  # fmt: skip


def in_world(test):
    """Run a coroutine function of a controller and the proposals to it."""

    def run(world):
        async def scenario():
            controller = Controller()
            proposals = IsrProposals(controller, OWN, lambda: 77)
            await test(controller, proposals)
            await proposals.close()

        world.run(scenario())

    return run


@in_world
async def test_what_is_proposed_in_one_turn_leaves_in_one_request(controller, proposals):
    partitions = [Partition(number) for number in range(3)]
    for partition in partitions:
        proposals.propose(partition, partition.proposes(OWN, 2))
    await asyncio.sleep(1)
    ((broker_id, broker_epoch, asked),) = controller.asked
    assert (broker_id, broker_epoch) == (OWN, 77)
    assert [one.index for one in asked] == [0, 1, 2]
    # A leader's own epoch is known here only.
    assert asked[0].isr == ((OWN, 77), (2, 102))
    assert (asked[0].leader_epoch, asked[0].partition_epoch) == (3, 5)


@in_world
async def test_answers_go_to_the_partitions_they_are_for(controller, proposals):
    partitions = [Partition(0), Partition(1), Partition(0, topic=b"u")]
    for number, partition in enumerate(partitions):
        proposals.propose(partition, partition.proposes(OWN, 2 + number))
    await asyncio.sleep(1)
    for number, partition in enumerate(partitions):
        ((_, error, values),) = partition.answers
        assert error is ErrorCode.NONE
        assert values["isr"] == (OWN, 2 + number)
        assert values["partition_epoch"] == 6


@in_world
async def test_one_request_is_under_way_at_a_time(controller, proposals):
    controller.gate.clear()
    first, second, third = (Partition(number) for number in range(3))
    proposals.propose(first, first.proposes(OWN))
    await asyncio.sleep(1)
    for partition in (second, third):
        proposals.propose(partition, partition.proposes(OWN))
        await asyncio.sleep(1)
    assert len(controller.asked) == 1
    controller.gate.set()
    await asyncio.sleep(1)
    assert [[one.index for one in asked] for _, _, asked in controller.asked] == [[0], [1, 2]]
    assert controller.most_at_once == 1


@pytest.mark.parametrize(
    "failure", [ApiError(ErrorCode.NOT_CONTROLLER), StoreFailed("full"), set(), ValueError("a bug")]
)
def test_what_has_no_answer_is_sent_again_while_it_is_pending(world, failure):
    async def scenario():
        controller = Controller()
        controller.results = [failure]
        proposals = IsrProposals(controller, OWN, lambda: 77)
        kept, dropped = Partition(0), Partition(1)
        proposals.propose(kept, kept.proposes(OWN))
        proposals.propose(dropped, dropped.proposes(OWN))
        controller.gate.clear()
        await asyncio.sleep(1)
        dropped.pending_isr = None  # newer metadata has decided
        controller.gate.set()
        await asyncio.sleep(1)
        assert [[one.index for one in asked] for _, _, asked in controller.asked] == [[0, 1], [0]]
        assert (len(kept.answers), len(dropped.answers)) == (1, 0)
        await proposals.close()

    world.run(scenario())


@in_world
async def test_a_newer_proposal_takes_the_place_of_one_that_failed(controller, proposals):
    controller.results = [ApiError(ErrorCode.NOT_CONTROLLER)]
    controller.gate.clear()
    partition = Partition(0)
    proposals.propose(partition, partition.proposes(OWN))
    await asyncio.sleep(1)
    newer = partition.proposes(OWN, 2, partition_epoch=8)
    proposals.propose(partition, newer)
    controller.gate.set()
    await asyncio.sleep(1)
    _, (_, _, (sent,)) = controller.asked
    assert sent.partition_epoch == 8
    assert [proposal for proposal, *_ in partition.answers] == [newer]


@in_world
async def test_a_request_has_a_bounded_number_of_proposals(controller, proposals):
    limit = isr_proposals.PROPOSALS_PER_REQUEST
    partitions = [Partition(number) for number in range(limit + 1)]
    for partition in partitions:
        proposals.propose(partition, partition.proposes(OWN))
    await asyncio.sleep(1)
    assert [len(asked) for _, _, asked in controller.asked] == [limit, 1]
    assert all(partition.answers for partition in partitions)


@in_world
async def test_nothing_is_sent_after_the_close(controller, proposals):
    await proposals.close()
    partition = Partition(0)
    proposals.propose(partition, partition.proposes(OWN))
    await asyncio.sleep(1)
    assert controller.asked == []
