"""Producer ids are given out in blocks, and nobody waits long for a controller that is silent."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.ids import BrokerId
from moldau.cluster.controller_requests import ProducerIdBlock
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.transactions.producer_ids import ProducerIds
from moldau.sim.world import World

NONE_YET = "there are no producer ids, new producers have to wait: "
AGAIN = "there are producer ids again"


class SlowController:
    """Answers when it is told to, or never."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: asyncio.Queue[ProducerIdBlock | Exception] = asyncio.Queue()

    async def allocate_producer_ids(self, broker_id, broker_epoch):
        self.asked += 1
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def run():
    """Run a test with a controller and ids from it, on virtual time."""

    def run(test):
        async def main():
            controller = SlowController()
            await test(controller, ProducerIds(controller, BrokerId(1), lambda: 7))

        with World(1) as world:
            world.run(main())

    return run


def told(caplog):
    return [record.getMessage() for record in caplog.records]


def test_many_producers_share_blocks_and_ask_for_one_at_a_time(run, caplog):
    async def test(controller, ids):
        for first in (0, 5):
            controller.answers.put_nowait(ProducerIdBlock(first, first + 5))
        taken = await asyncio.gather(*(ids.take() for _ in range(10)))
        assert sorted(taken) == list(range(10))
        assert controller.asked == 2

    run(test)
    assert told(caplog) == []


def test_who_waits_for_a_silent_controller_is_told_to_try_again(run, caplog):
    async def test(controller, ids):
        for _ in range(3):
            waiting = (ids.take() for _ in range(5))
            for error in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(error, ApiError)
                assert error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert controller.asked == 1
        controller.answers.put_nowait(ProducerIdBlock(40, 50))
        assert await ids.take() == 40
        assert controller.asked == 1

    run(test)
    assert told(caplog) == [f"{NONE_YET}the controller does not answer", AGAIN]


def test_a_refusal_is_logged_once_and_asked_for_again(run, caplog):
    async def test(controller, ids):
        for _ in range(3):
            controller.answers.put_nowait(ApiError(ErrorCode.NOT_CONTROLLER, "nobody is elected"))
            with pytest.raises(ApiError, match="nobody is elected"):
                await ids.take()
        controller.answers.put_nowait(ProducerIdBlock(40, 50))
        assert await ids.take() == 40

    run(test)
    assert told(caplog) == [f"{NONE_YET}NOT_CONTROLLER: nobody is elected", AGAIN]


def test_a_failure_after_everybody_gave_up_is_no_bug(run, caplog):
    async def test(controller, ids):
        with pytest.raises(ApiError):
            await ids.take()
        controller.answers.put_nowait(ApiError(ErrorCode.NOT_CONTROLLER))
        await asyncio.sleep(1)

    run(test)
    assert len(told(caplog)) == 1
