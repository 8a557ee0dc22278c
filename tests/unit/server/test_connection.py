"""A connection answers in order, stops reading while it waits, and survives any chunking."""

import asyncio
import struct

import pytest

from kits.connection_kit import Later, connect, echo, frame
from kits.leaks import run_without_leaks
from moldau.base.errors import ProtocolError
from moldau.base.limits import UNSENT_BYTES_PER_CONNECTION


def test_answers_leave_in_order_and_in_one_write_for_all_that_came():
    async def scenario():
        connection, stream, _ = connect(echo)
        data = frame(b"one") + frame(b"two")
        assert connection.received(memoryview(data)) == len(data)
        assert b"".join(stream.sent) == b"<one><two>"

    run_without_leaks(scenario())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_any_chunking_gives_the_same_answers(size):
    async def scenario():
        connection, stream, _ = connect(echo)
        data = frame(b"first") + frame(b"") + frame(b"third")
        held = b""
        for start in range(0, len(data), size):
            held += data[start : start + size]
            used = connection.received(memoryview(held))
            held = held[used:]
        assert held == b""
        assert b"".join(stream.sent) == b"<first><><third>"

    run_without_leaks(scenario())


def test_a_frame_that_is_not_all_there_is_asked_for_by_its_size():
    async def scenario():
        connection, stream, _ = connect(echo)
        assert connection.received(memoryview(frame(b"x" * 100)[:50])) == 0
        assert stream.expected == 104

    run_without_leaks(scenario())


def test_requests_behind_one_that_waits_are_not_looked_at():
    async def scenario():
        later = Later()
        seen = []

        def dispatch(_connection, content):
            seen.append(bytes(content))
            return later if content == b"wait" else [bytes(content)]

        connection, stream, _ = connect(dispatch)
        data = frame(b"wait") + frame(b"next")
        used = connection.received(memoryview(data))
        assert seen == [b"wait"]
        assert stream.paused
        later.future.set_result(b"waited")
        await asyncio.sleep(0)
        assert stream.sent == [b"waited"]
        assert not stream.paused
        connection.received(memoryview(data[used:]))
        assert stream.sent == [b"waited", b"next"]

    run_without_leaks(scenario())


def test_a_client_that_does_not_read_is_not_read_from_until_it_does():
    async def scenario():
        connection, stream, _ = connect(echo)
        stream.unsent = UNSENT_BYTES_PER_CONNECTION + 1
        assert connection.received(memoryview(frame(b"more"))) == 0
        assert stream.paused
        stream.unsent = 0
        connection.drained()
        assert not stream.paused

    run_without_leaks(scenario())


def test_what_was_answered_before_a_malformed_request_is_sent_before_closing():
    async def scenario():
        def dispatch(_connection, content):
            if content == b"bad":
                raise ProtocolError("not the protocol")
            return [bytes(content)]

        connection, stream, _ = connect(dispatch)
        connection.received(memoryview(frame(b"good") + frame(b"bad") + frame(b"late")))
        assert stream.sent == [b"good"]
        assert stream.ended == "closed"
        assert stream.paused, "what follows is read as requests until the answers were taken"

    run_without_leaks(scenario())


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_an_impossible_size_ends_the_connection(size):
    async def scenario():
        connection, stream, _ = connect(echo)
        connection.received(memoryview(struct.pack(">i", size)))
        assert stream.ended == "closed"

    run_without_leaks(scenario())


def test_a_parked_request_is_given_up_when_its_client_leaves():
    async def scenario():
        later = Later()
        connection, _, closed = connect(lambda _connection, _content: later)
        connection.received(memoryview(frame(b"wait")))
        connection.closed(None)
        assert later.abandoned
        assert closed == [connection]

    run_without_leaks(scenario())


def test_after_a_wrong_request_that_was_found_out_late_nothing_is_read():
    async def scenario():
        later = Later()
        connection, stream, _ = connect(lambda _connection, _content: later)
        connection.received(memoryview(frame(b"wait")))
        later.future.set_exception(ProtocolError("not the protocol"))
        await asyncio.sleep(0)
        assert stream.ended == "closed"
        assert stream.paused

    run_without_leaks(scenario())


def test_a_bug_in_an_answer_ends_the_connection_and_nothing_else():
    async def scenario():
        later = Later()
        connection, stream, _ = connect(lambda _connection, _content: later)
        connection.received(memoryview(frame(b"wait")))
        later.future.set_exception(RuntimeError("a bug"))
        await asyncio.sleep(0)
        assert stream.ended == "aborted"

    run_without_leaks(scenario())


def test_a_connection_that_waits_for_us_is_not_idle():
    async def scenario():
        connection, _, _ = connect(lambda _connection, _content: Later())
        now = asyncio.get_running_loop().time()
        assert connection.idle_since(now + 1)
        connection.received(memoryview(frame(b"wait")))
        assert not connection.idle_since(now + 1)

    run_without_leaks(scenario())


def test_an_answer_may_come_in_several_steps():
    async def scenario():
        first, second = Later(), Later()
        first.framed = lambda: second
        connection, stream, _ = connect(lambda *_: first)
        assert connection.received(memoryview(frame(b"x") * 2)) == 5
        first.future.set_result(None)
        await asyncio.sleep(0)
        assert stream.paused
        assert not stream.sent
        second.future.set_result(b"answer")
        await asyncio.sleep(0)
        assert stream.sent == [b"answer"]
        assert not stream.paused

    run_without_leaks(scenario())


def test_what_comes_next_is_given_up_too_if_a_client_leaves_between_two_steps():
    async def scenario():
        first, second = Later(), Later()
        first.framed = lambda: second
        connection, _, _ = connect(lambda *_: first)
        connection.received(memoryview(frame(b"x")))
        first.future.set_result(None)
        connection.closed(None)
        await asyncio.sleep(0)
        assert second.abandoned

    run_without_leaks(scenario())
