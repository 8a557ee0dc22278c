"""Descriptors that are ready are called in a row, until nobody wants to hear of them."""

from __future__ import annotations

import asyncio
import logging
import select
import socket

import pytest

from moldau.transport.readiness import (
    CALLED_TOGETHER,
    TURN_S,
    EpollReadiness,
    LoopReadiness,
    readiness_of,
)

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no epoll here")


class Pair:
    """Two ends of a connection, of which one is watched."""

    def __init__(self):
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.descriptor = self.near.fileno()
        self.heard = []

    def read(self):
        self.heard.append(self.near.recv(100))

    def write(self):
        self.heard.append("room")

    def close(self):
        self.near.close()
        self.far.close()


@pytest.fixture
def pairs():
    made = [Pair(), Pair()]
    yield made
    for pair in made:
        pair.close()


def on_a_loop(scenario):
    async def run():
        await scenario(EpollReadiness(asyncio.get_running_loop()))

    asyncio.run(run())


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


def test_linux_has_its_own_epoll():
    async def scenario():
        assert isinstance(readiness_of(asyncio.get_running_loop()), EpollReadiness)

    asyncio.run(scenario())


def test_without_epoll_the_loop_itself_watches(monkeypatch):
    async def scenario():
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patched:
            patched.delattr(select, "epoll")
            found = readiness_of(loop)
        assert isinstance(found, LoopReadiness)

    asyncio.run(scenario())


def test_who_has_something_to_read_is_called_and_nobody_else(pairs):
    async def scenario(readiness):
        for pair in pairs:
            readiness.add_reader(pair.descriptor, pair.read)
        pairs[0].far.send(b"one")
        await turns()
        assert [pair.heard for pair in pairs] == [[b"one"], []]
        pairs[1].far.send(b"two")
        await turns()
        assert [pair.heard for pair in pairs] == [[b"one"], [b"two"]]

    on_a_loop(scenario)


def test_a_reader_that_left_something_is_called_again(pairs):
    async def scenario(readiness):
        pair = pairs[0]
        readiness.add_reader(pair.descriptor, lambda: pair.heard.append(pair.near.recv(1)))
        pair.far.send(b"abc")
        await turns(8)
        assert b"".join(pair.heard) == b"abc"

    on_a_loop(scenario)


def test_reading_and_writing_are_watched_apart(pairs):
    async def scenario(readiness):
        pair = pairs[0]
        readiness.add_reader(pair.descriptor, pair.read)
        readiness.add_writer(pair.descriptor, pair.write)
        await turns()
        assert set(pair.heard) == {"room"}
        readiness.remove_writer(pair.descriptor)
        pair.heard.clear()
        pair.far.send(b"one")
        await turns()
        assert pair.heard == [b"one"]
        readiness.add_writer(pair.descriptor, pair.write)
        readiness.remove_reader(pair.descriptor)
        pair.heard.clear()
        pair.far.send(b"two")
        await turns()
        assert set(pair.heard) == {"room"}

    on_a_loop(scenario)


def test_a_peer_that_is_gone_is_told_to_both(pairs):
    async def scenario(readiness):
        pair = pairs[0]
        readiness.add_reader(pair.descriptor, pair.read)
        readiness.add_writer(pair.descriptor, pair.write)
        pair.far.close()
        await turns(1)
        await turns(1)
        assert {b"", "room"} <= set(pair.heard)

    on_a_loop(scenario)


def test_what_is_not_watched_is_removed_without_harm(pairs):
    async def scenario(readiness):
        pair = pairs[0]
        readiness.remove_reader(pair.descriptor)
        readiness.add_reader(pair.descriptor, pair.read)
        readiness.remove_reader(pair.descriptor)
        readiness.remove_reader(pair.descriptor)
        readiness.remove_writer(pair.descriptor)
        pair.far.send(b"one")
        await turns()
        assert pair.heard == []
        readiness.add_reader(pair.descriptor, pair.read)
        await turns()
        assert pair.heard == [b"one"]

    on_a_loop(scenario)


def test_one_that_ends_another_in_the_same_turn_keeps_it_from_being_called(pairs):
    async def scenario(readiness):
        first, second = pairs

        def end_the_other(own, other):
            own.read()
            readiness.remove_reader(other.descriptor)

        readiness.add_reader(first.descriptor, lambda: end_the_other(first, second))
        readiness.add_reader(second.descriptor, lambda: end_the_other(second, first))
        first.far.send(b"one")
        second.far.send(b"two")
        await turns()
        assert sorted([first.heard, second.heard]) in ([[], [b"one"]], [[], [b"two"]])

    on_a_loop(scenario)


def test_a_bug_in_one_is_told_and_harms_no_other(pairs, caplog):
    async def scenario(readiness):
        bad, good = pairs

        def fail():
            bad.read()
            raise ValueError("a bug")

        readiness.add_reader(bad.descriptor, fail)
        readiness.add_reader(good.descriptor, good.read)
        bad.far.send(b"one")
        good.far.send(b"two")
        await turns()
        assert good.heard == [b"two"]

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        on_a_loop(scenario)
    assert "a bug while serving descriptor" in caplog.text


def test_a_descriptor_that_was_closed_by_somebody_else_can_be_forgotten(pairs):
    async def scenario(readiness):
        closed, other = pairs
        for pair in pairs:
            readiness.add_reader(pair.descriptor, pair.read)
        closed.near.close()
        readiness.remove_reader(closed.descriptor)
        other.far.send(b"two")
        await turns()
        assert other.heard == [b"two"]

    on_a_loop(scenario)


def test_nothing_stays_open_once_nothing_is_watched(pairs):
    async def scenario(readiness):
        pair = pairs[0]
        for _ in range(3):
            readiness.add_reader(pair.descriptor, pair.read)
            inner = readiness._poll
            assert not inner.closed
            readiness.remove_reader(pair.descriptor)
            assert inner.closed
        assert readiness._poll is None

    on_a_loop(scenario)


def test_behind_nobody_is_at_once():
    async def scenario(readiness):
        called = []
        readiness.call_after_batch(lambda: called.append("now"))
        assert called == ["now"]

    on_a_loop(scenario)


@pytest.fixture
def many():
    made = [Pair() for _ in range(CALLED_TOGETHER + 2)]
    yield made
    for pair in made:
        pair.close()


@pytest.mark.parametrize("name", ["call_after_batch", "call_soon"])
def test_those_behind_are_called_behind_a_row_of_those_who_are_ready(many, name):
    async def scenario(readiness):
        order = []

        def reader(pair):
            def read():
                pair.read()
                order.append("read")
                getattr(readiness, name)(lambda: order.append("behind"))

            return read

        for pair in many:
            readiness.add_reader(pair.descriptor, reader(pair))
            pair.far.send(b"one")
        await turns()
        together = CALLED_TOGETHER
        assert order == ["read"] * together + ["behind"] * together + ["read"] * 2 + ["behind"] * 2

    on_a_loop(scenario)


def test_streams_that_take_long_leave_the_loop_its_turns(many, monkeypatch):
    async def scenario(readiness):
        loop, now, called = asyncio.get_running_loop(), [100.0], []
        monkeypatch.setattr(loop, "time", lambda: now[0])

        def reader(number, pair):
            def read():
                pair.read()
                now[0] += TURN_S / CALLED_TOGETHER * 2
                called.append(number)
                pair.far.send(b"more")  # it is ready again at once

            return read

        for number, pair in enumerate(many):
            readiness.add_reader(pair.descriptor, reader(number, pair))
            pair.far.send(b"one")
        while len(called) < 3 * len(many):
            before = len(called)
            await asyncio.sleep(0)
            assert len(called) - before <= CALLED_TOGETHER
        # Nobody is called again before all others were called.
        assert sorted(called[: len(many)]) == list(range(len(many)))
        assert max(map(called[: 3 * len(many)].count, range(len(many)))) <= 4

    on_a_loop(scenario)


def test_what_one_alone_leaves_behind_is_called_at_once(pairs):
    async def scenario(readiness):
        pair, called = pairs[0], []

        def read():
            pair.read()
            readiness.call_soon(lambda: called.append("soon"))
            readiness.call_after_batch(lambda: called.append("at once"))
            called.append("read")

        readiness.add_reader(pair.descriptor, read)
        pair.far.send(b"one")
        await turns()
        assert called == ["at once", "read", "soon"]

    on_a_loop(scenario)


def test_who_is_called_behind_may_bring_another(pairs):
    async def scenario(readiness):
        pair, called = pairs[0], []

        def read():
            pair.read()
            readiness.call_soon(lambda: readiness.call_soon(lambda: called.append("second")))

        readiness.add_reader(pair.descriptor, read)
        pair.far.send(b"one")
        await turns()
        assert called == ["second"]

    on_a_loop(scenario)


def test_a_bug_in_one_behind_is_told_and_harms_no_other(pairs, caplog):
    async def scenario(readiness):
        pair, called = pairs[0], []

        def fail():
            raise ValueError("a bug")

        def read():
            pair.read()
            readiness.call_soon(fail)
            readiness.call_soon(lambda: called.append("good"))

        readiness.add_reader(pair.descriptor, read)
        for _ in range(2):
            pair.far.send(b"one")
            await turns()
        assert called == ["good", "good"]

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        on_a_loop(scenario)
    assert caplog.text.count("a bug behind a row of streams") == 2


def test_one_that_is_cancelled_keeps_nobody_behind_it_waiting(pairs):
    async def scenario(readiness):
        pair, called = pairs[0], []

        def read():
            pair.read()
            readiness.call_soon(lambda: called.append("behind"))
            raise asyncio.CancelledError

        readiness.add_reader(pair.descriptor, read)
        pair.far.send(b"one")
        await turns()
        assert called == ["behind"]

    on_a_loop(scenario)


def test_a_loop_alone_calls_nobody_in_a_row(pairs):
    async def scenario():
        pair, called = pairs[0], []
        readiness = LoopReadiness(asyncio.get_running_loop())

        def read():
            pair.read()
            readiness.call_after_batch(lambda: called.append("behind"))
            called.append("read")

        readiness.add_reader(pair.descriptor, read)
        pair.far.send(b"one")
        await turns()
        readiness.remove_reader(pair.descriptor)
        assert called == ["behind", "read"]

    asyncio.run(scenario())
