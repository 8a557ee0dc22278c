"""The timer of a fetch session: waits end on time, and the event loop's timer is set seldom."""

from __future__ import annotations

import asyncio

import pytest

from moldau.server.fetch.wait_timer import WaitTimer


class Loop:
    """An event loop's clock and timers, moved by hand."""

    def __init__(self):
        self.now = 0.0
        self.handles = []
        self.set_count = 0

    def time(self):
        return self.now

    def call_at(self, when, callback):
        handle = asyncio.TimerHandle(when, callback, (), self)
        self.handles.append(handle)
        self.set_count += 1
        return handle

    def get_debug(self):
        return False

    def _timer_handle_cancelled(self, handle):
        self.handles.remove(handle)

    def move_to(self, now):
        self.now = now
        for handle in [one for one in self.handles if one.when() <= now]:
            self.handles.remove(handle)
            handle._callback()


@pytest.fixture
def loop(monkeypatch):
    loop = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    return loop


def test_a_wait_that_is_not_stopped_ends_on_time_and_once(loop):
    rung = []
    WaitTimer().start(0.5, lambda: rung.append(loop.now))
    loop.move_to(0.4)
    assert rung == []
    loop.move_to(0.5)
    loop.move_to(5.0)
    assert rung == [0.5]
    assert loop.handles == []


def test_many_waits_that_are_stopped_set_one_timer(loop):
    timer, rung = WaitTimer(), []
    for number in range(400):
        loop.move_to(number / 1000)
        timer.start(0.5, lambda: rung.append(loop.now))
        timer.stop()
    assert loop.set_count == 1
    loop.move_to(0.5)
    assert (rung, loop.handles) == ([], [])


def test_the_timer_of_an_earlier_wait_rings_and_the_later_one_ends_on_time(loop):
    timer, rung = WaitTimer(), []
    timer.start(0.5, lambda: rung.append("first"))
    timer.stop()
    loop.move_to(0.3)
    timer.start(0.5, lambda: rung.append(loop.now))
    loop.move_to(0.5)
    assert rung == []
    loop.move_to(0.8)
    assert rung == [0.8]


def test_a_shorter_wait_is_not_late(loop):
    timer, rung = WaitTimer(), []
    timer.start(60.0, lambda: rung.append("first"))
    timer.stop()
    timer.start(0.1, lambda: rung.append(loop.now))
    loop.move_to(0.1)
    assert rung == [0.1]
    assert loop.handles == []


def test_a_closed_timer_leaves_nothing_behind(loop):
    timer, rung = WaitTimer(), []
    timer.start(0.5, lambda: rung.append(loop.now))
    timer.close()
    assert loop.handles == []
    loop.move_to(1.0)
    assert rung == []
