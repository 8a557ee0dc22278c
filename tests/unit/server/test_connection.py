"""A connection answers in order, stops reading while it waits, and survives any chunking."""

import asyncio
import struct

import pytest

from kits.leaks import run_without_leaks
from kits.request_kit import session
from moldau.base.errors import ProtocolError
from moldau.base.limits import UNSENT_BYTES_PER_CONNECTION
from moldau.base.memory_budget import MemoryAccount, MemoryBudget
from moldau.base.network import Address
from moldau.server.network.connection import (
    ANSWER_BYTES_BEHIND,
    ANSWERS_BEHIND,
    COST_BETWEEN_LOOKS,
    KEPT_REQUEST_BYTES,
    REQUEST_COST,
    TURN_S,
    Connection,
)
from moldau.server.network.turns import Turns


class FakeStream:
    """Remembers what a connection does to its stream."""

    def __init__(self):
        self.peer = Address("127.0.0.1", 50000)
        self.local = Address("127.0.0.1", 9092)
        self.unsent = 0
        self.sent = []
        self.expected = None
        self.paused = False
        self.ended = None

    def send(self, parts):
        self.sent += [bytes(part) for part in parts]

    def expect(self, size):
        self.expected = size

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def close(self):
        self.ended = self.ended or "closed"

    def abort(self):
        self.ended = "aborted"


class Later:
    """An answer that comes when the test says so."""

    under_way = False

    def __init__(self, *, is_applied=False):
        self.future = asyncio.get_running_loop().create_future()
        self.is_applied = is_applied
        self.abandoned = False

    def framed(self):
        return [self.future.result()]

    def abandon(self):
        self.abandoned = True


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def connect(dispatch, *, frame_limit=1000):
    stream = FakeStream()
    closed = []
    connection = Connection(
        stream, session("127.0.0.1"), dispatch, frame_limit=frame_limit, on_close=closed.append
    )
    return connection, stream, closed


def echo(_connection, content):
    return [b"<", bytes(content), b">"]


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


def test_many_small_requests_in_one_read_take_turns_with_other_connections(monkeypatch):
    step_s = TURN_S / 20

    async def scenario():
        loop, now = asyncio.get_running_loop(), [100.0]
        monkeypatch.setattr(loop, "time", lambda: now[0])

        def dispatch(_connection, content):
            now[0] += step_s
            return [bytes(content)]

        connection, stream, _ = connect(dispatch)
        contents = [b"%04d" % number for number in range(500)]
        data, turns = b"".join(frame(content) for content in contents), 0
        while data:
            began = now[0]
            data = data[connection.received(memoryview(data)) :]
            # The clock is not looked at for every request: twice in a turn nobody looks.
            assert now[0] - began <= TURN_S + 2 * (COST_BETWEEN_LOOKS / REQUEST_COST) * step_s
            assert stream.paused == bool(data)
            await asyncio.sleep(0)
            assert not stream.paused
            turns += 1
        assert turns > 10
        assert stream.sent == contents

    run_without_leaks(scenario())


def test_a_connection_that_is_to_finish_does_not_take_another_turn(monkeypatch):
    async def scenario():
        loop, now = asyncio.get_running_loop(), [100.0]
        monkeypatch.setattr(loop, "time", lambda: now[0])

        def dispatch(_connection, content):
            now[0] += TURN_S
            return [bytes(content)]

        connection, stream, _ = connect(dispatch)
        data = frame(b"small") * 100
        assert connection.received(memoryview(data)) < len(data)
        connection.finish()
        await asyncio.sleep(0)
        assert stream.paused

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


def test_a_request_that_waits_for_its_turn_is_dispatched_again():
    async def scenario():
        turns, seen = Turns(1), []
        other = turns.ask(lambda: None)

        def dispatch(connection, content):
            if content == b"large" and connection.turn is None:
                connection.turn = turns.ask(connection.use_turn)
                return connection.turn
            seen.append(bytes(content))
            return [bytes(content)]

        connection, stream, _ = connect(dispatch)
        data = frame(b"small") + frame(b"large") + frame(b"next")
        used = connection.received(memoryview(data))
        assert data[used:] == frame(b"large") + frame(b"next")
        assert stream.paused
        assert not connection.idle_since(connection.last_active + 1)
        other.end()
        assert not stream.paused
        assert connection.received(memoryview(data[used:])) == len(data) - used
        assert seen == stream.sent == [b"small", b"large", b"next"]

    run_without_leaks(scenario())


def test_who_leaves_while_waiting_for_a_turn_gives_it_up():
    async def scenario():
        turns = Turns(1)
        other = turns.ask(lambda: None)

        def dispatch(connection, _):
            connection.turn = turns.ask(connection.use_turn)
            return connection.turn

        connection, _, _ = connect(dispatch)
        connection.received(memoryview(frame(b"large")))
        behind = turns.ask(lambda: None)
        connection.closed(None)
        other.end()
        assert behind.granted

    run_without_leaks(scenario())


@pytest.mark.parametrize("leaves", [False, True])
def test_who_has_to_read_first_does_not_keep_a_turn_from_others(leaves):
    async def scenario():
        turns = Turns(1)
        other = turns.ask(lambda: None)

        def dispatch(connection, content):
            connection.turn = connection.turn or turns.ask(connection.use_turn)
            return [bytes(content)] if connection.turn.granted else connection.turn

        connection, stream, _ = connect(dispatch)
        connection.received(memoryview(frame(b"large")))
        behind = turns.ask(lambda: None)
        stream.unsent = UNSENT_BYTES_PER_CONNECTION + 1
        other.end()
        if leaves:
            connection.closed(None)
        await asyncio.sleep(0)
        assert behind.granted
        behind.end()
        assert turns.ask(lambda: None).granted, "a turn was lost"
        assert stream.paused
        assert connection.turn is None
        stream.unsent = 0
        connection.drained()
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


# Requests that have taken effect


def scripted(answers):
    """A dispatch with these answers, by the content of a frame; all others are echoed."""
    seen = []

    def dispatch(_connection, content):
        seen.append(bytes(content))
        answer = answers.get(bytes(content), [bytes(content)])
        if isinstance(answer, Exception):
            raise answer
        return answer

    return dispatch, seen


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
        work.under_way = True
        dispatch, _ = scripted({b"applied": applied, b"work": work})
        connection, _, _ = connect(dispatch)
        connection.received(memoryview(frame(b"applied")))
        assert connection.finish() is None
        connection, _, _ = connect(dispatch)
        connection.received(memoryview(frame(b"applied") + frame(b"work")))
        assert connection.finish() is work.future

    run_without_leaks(scenario())


# Memory


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
