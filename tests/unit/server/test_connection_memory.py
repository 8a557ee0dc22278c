"""Requests, work and answers of a connection count against the memory budget."""

import asyncio

import pytest

from kits.connection_kit import FakeStream, Later, frame, scripted
from kits.leaks import run_without_leaks
from kits.request_kit import session
from moldau.base.errors import ProtocolError
from moldau.base.memory_budget import MemoryAccount, MemoryBudget
from moldau.server.network.connection import KEPT_REQUEST_BYTES, Connection


class Holder(FakeStream):
    """A stream with an account."""

    def __init__(self, budget):
        super().__init__()
        self.memory = MemoryAccount(budget, self)


def hold(dispatch, budget):
    """Return a connection whose memory counts."""
    return Connection(
        Holder(budget), session(), dispatch, frame_limit=1 << 20, on_close=lambda _: None
    )


@pytest.mark.parametrize("size", [KEPT_REQUEST_BYTES, KEPT_REQUEST_BYTES - 1 - 4])
def test_a_request_counts_while_its_answer_is_waited_for_unless_it_is_small(size):
    async def scenario():
        later, budget = Later(), MemoryBudget()
        connection = hold(lambda *_: later, budget)
        connection.received(memoryview(frame(bytes(size))))
        assert budget.held == (size + 4 if size >= KEPT_REQUEST_BYTES else 0)
        later.future.set_result(b"answer")
        await asyncio.sleep(0)
        assert budget.held == 0

    run_without_leaks(scenario())


def test_work_has_its_memory_until_the_answer_is_handed_over():
    async def scenario():
        later, budget = Later(), MemoryBudget(256 << 20)
        connection = hold(lambda *_: later, budget)
        connection.received(memoryview(frame(b"")))
        assert connection.reserve(1 << 20).done()
        assert budget.held == 1 << 20
        later.future.set_result(b"answer")
        await asyncio.sleep(0)
        assert budget.held == 0

    run_without_leaks(scenario())


@pytest.mark.parametrize("leaves", [False, True])
def test_work_waits_for_memory_unless_its_client_leaves(leaves):
    async def scenario():
        budget = MemoryBudget(256 << 20)
        connections = [hold(lambda *_: Later(), budget) for _ in range(3)]
        for connection in connections:
            connection.received(memoryview(frame(b"")))
        whole, turn, room = [one.reserve(budget.answers.size) for one in connections]
        assert (whole.done(), turn.done(), room.done()) == (True, True, False)
        if leaves:
            connections[2].closed(None)
            assert room.cancelled()
        else:
            budget.release(connections[0]._stream.memory.work)
            assert room.done()

    run_without_leaks(scenario())


def test_work_that_is_done_for_nobody_has_its_memory_until_it_ends():
    async def scenario():
        later, budget = Later(), MemoryBudget(256 << 20)
        connection = hold(lambda *_: later, budget)
        connection.received(memoryview(frame(b"")))
        connection.reserve(1000)
        connection.closed(None)
        assert budget.held == 1000
        later.future.set_exception(ProtocolError("nobody listens"))
        await asyncio.sleep(0)
        assert budget.held == 0

    run_without_leaks(scenario())


def test_a_large_answer_counts_while_it_waits_behind_another():
    async def scenario():
        waiting, budget = [Later(is_applied=True) for _ in range(2)], MemoryBudget(256 << 20)
        dispatch, _ = scripted(dict(zip((b"first", b"second"), waiting, strict=True)))
        connection = hold(dispatch, budget)
        large = frame(bytes(KEPT_REQUEST_BYTES))
        data = frame(b"first") + large + frame(b"second") + large + frame(b"small")
        connection.received(memoryview(data))
        for later, held in zip(waiting, (KEPT_REQUEST_BYTES, 0), strict=True):
            assert budget.held == held + KEPT_REQUEST_BYTES
            later.future.set_result(b"answer")
            await asyncio.sleep(0)
            assert budget.held == held

    run_without_leaks(scenario())
