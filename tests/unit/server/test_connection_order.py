"""Requests after one that has taken effect are handled at once; answers stay in order."""

import asyncio

import pytest

from kits.connection_kit import Later, connect, frame, scripted
from kits.leaks import run_without_leaks
from moldau.base.errors import ProtocolError
from moldau.base.prompt_future import PromptFuture
from moldau.server.network.connection import ANSWER_BYTES_BEHIND, ANSWERS_BEHIND


def test_requests_behind_one_that_has_taken_effect_are_handled_and_answered_in_order():
    async def scenario():
        first, second = Later(is_applied=True), Later(is_applied=True)
        dispatch, seen = scripted({b"first": first, b"second": second})
        connection, stream, _ = connect(dispatch)
        contents = [b"before", b"first", b"a", b"second", b"b"]
        data = b"".join(frame(content) for content in contents)
        assert connection.received(memoryview(data)) == len(data)
        assert seen == contents
        assert stream.sent == [b"before"]
        assert not stream.paused
        connection.received(memoryview(frame(b"c")))
        second.future.set_result(b"2nd")
        await asyncio.sleep(0)
        assert stream.sent == [b"before"]
        first.future.set_result(b"1st")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stream.sent == [b"before", b"1st", b"a", b"2nd", b"b", b"c"]
        connection.received(memoryview(frame(b"d")))
        assert stream.sent[-1] == b"d"

    run_without_leaks(scenario())


def test_an_answer_that_is_told_at_once_leaves_within_the_same_turn():
    """A producer that waits for its followers does not wait for another turn of the loop."""

    async def scenario():
        first = Later(is_applied=True)
        first.future = PromptFuture()
        dispatch, _ = scripted({b"first": first})
        connection, stream, _ = connect(dispatch)
        connection.received(memoryview(frame(b"first") + frame(b"behind")))
        first.future.set_result(b"1st")
        assert stream.sent == [b"1st", b"behind"]

    run_without_leaks(scenario())


def test_nobody_passes_one_behind_it_that_has_not_taken_effect():
    async def scenario():
        applied, parked = Later(is_applied=True), Later()
        dispatch, seen = scripted({b"applied": applied, b"parked": parked})
        connection, stream, _ = connect(dispatch)
        data = frame(b"applied") + frame(b"parked") + frame(b"next")
        used = connection.received(memoryview(data))
        assert data[used:] == frame(b"next")
        assert stream.paused
        applied.future.set_result(b"1st")
        await asyncio.sleep(0)
        assert stream.sent == [b"1st"]
        assert stream.paused
        parked.future.set_result(b"2nd")
        await asyncio.sleep(0)
        assert stream.sent == [b"1st", b"2nd"]
        assert not stream.paused
        assert seen == [b"applied", b"parked"]

    run_without_leaks(scenario())


@pytest.mark.parametrize(
    ("content", "most"), [(b"x", ANSWERS_BEHIND), (bytes(2000), ANSWER_BYTES_BEHIND // 2000 + 1)]
)
def test_only_so_many_answers_wait_behind_one(content, most):
    async def scenario():
        applied = Later(is_applied=True)
        dispatch, seen = scripted({b"applied": applied})
        connection, stream, _ = connect(dispatch, frame_limit=4000)
        data = frame(b"applied") + frame(content) * 200
        while used := connection.received(memoryview(data)):
            data = data[used:]
            await asyncio.sleep(0)
        assert len(seen) == 1 + most
        assert stream.paused
        applied.future.set_result(b"1st")
        await asyncio.sleep(0)
        assert len(stream.sent) == 1 + most
        assert not stream.paused

    run_without_leaks(scenario())


def test_a_malformed_request_behind_it_closes_when_the_answers_before_are_sent():
    async def scenario():
        applied = Later(is_applied=True)
        dispatch, seen = scripted({b"applied": applied, b"bad": ProtocolError("not the protocol")})
        connection, stream, _ = connect(dispatch)
        contents = [b"applied", b"good", b"bad", b"late"]
        connection.received(memoryview(b"".join(frame(content) for content in contents)))
        assert stream.ended is None
        assert stream.paused
        applied.future.set_result(b"1st")
        await asyncio.sleep(0)
        assert stream.sent == [b"1st", b"good"]
        assert stream.ended == "closed"
        assert stream.paused
        assert seen == contents[:3]

    run_without_leaks(scenario())


@pytest.mark.parametrize("error", [ProtocolError("refused late"), RuntimeError("a bug")])
def test_nothing_is_answered_behind_one_that_ends_the_talk(error):
    async def scenario():
        first, second = Later(is_applied=True), Later(is_applied=True)
        dispatch, _ = scripted({b"first": first, b"second": second})
        connection, stream, _ = connect(dispatch)
        connection.received(memoryview(frame(b"first") + frame(b"a") + frame(b"second")))
        first.future.set_exception(error)
        await asyncio.sleep(0)
        assert stream.sent == []
        assert stream.ended == ("closed" if isinstance(error, ProtocolError) else "aborted")
        assert second.abandoned

    run_without_leaks(scenario())


def test_all_that_wait_are_given_up_when_their_client_leaves():
    async def scenario():
        waiting = {b"%d" % number: Later(is_applied=True) for number in range(3)}
        dispatch, _ = scripted(waiting)
        connection, _, _ = connect(dispatch)
        connection.received(memoryview(b"".join(frame(content) for content in waiting)))
        connection.closed(None)
        assert all(later.abandoned for later in waiting.values())

    run_without_leaks(scenario())


def test_a_stop_waits_for_work_behind_one_that_only_waits():
    async def scenario():
        applied, work = Later(is_applied=True), Later()
        work.work = work.future
        dispatch, _ = scripted({b"applied": applied, b"work": work})
        connection, _, _ = connect(dispatch)
        connection.received(memoryview(frame(b"applied")))
        assert connection.finish() is None
        connection, _, _ = connect(dispatch)
        connection.received(memoryview(frame(b"applied") + frame(b"work")))
        assert connection.finish() is work.future

    run_without_leaks(scenario())
