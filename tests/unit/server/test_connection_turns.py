"""A connection with much to do takes turns with others, on the loop and with large requests."""

import asyncio

import pytest

from kits.connection_kit import connect, frame
from kits.leaks import run_without_leaks
from moldau.base.limits import UNSENT_BYTES_PER_CONNECTION
from moldau.server.network.connection import COST_BETWEEN_LOOKS, REQUEST_COST, TURN_S
from moldau.server.network.turns import Turns


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
