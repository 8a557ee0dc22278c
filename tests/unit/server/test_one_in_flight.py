from __future__ import annotations

import asyncio

from kits.hand_executor import turns
from moldau.server.nodes.one_in_flight import PAUSE_S, OneInFlight


class Sender:
    """Takes all that waits, and answers when a test says so."""

    def __init__(self):
        self.waiting = []
        self.sent = []
        self.answers = asyncio.Queue()
        self.requests = OneInFlight("send", self.waiting, self.send)

    def add(self, *items):
        self.waiting += items
        self.requests.begin()

    async def send(self):
        self.sent.append(tuple(self.waiting))
        self.waiting.clear()
        answer = await self.answers.get()
        if answer is not None:
            raise answer


def run(scenario):
    async def work():
        await scenario(Sender())

    asyncio.run(work())


def test_what_comes_meanwhile_leaves_together_in_the_next_request():
    async def scenario(sender):
        sender.add("a")
        await turns()
        sender.add("b")
        sender.add("c")
        await turns()
        assert sender.sent == [("a",)]
        sender.answers.put_nowait(None)
        await turns()
        assert sender.sent == [("a",), ("b", "c")]
        ended = asyncio.create_task(sender.requests.ended())
        await turns()
        assert not ended.done()
        sender.answers.put_nowait(None)
        await ended
        sender.add("d")
        await turns()
        assert sender.sent[-1] == ("d",)
        await sender.requests.cancel()

    run(scenario)


def test_what_is_added_in_one_turn_leaves_in_one_request():
    async def scenario(sender):
        sender.add("a")
        sender.add("b")
        await turns()
        assert sender.sent == [("a", "b")]
        await sender.requests.cancel()

    run(scenario)


def test_a_request_that_fails_does_not_hold_up_what_waits(caplog):
    async def scenario(sender):
        sender.add("a")
        await turns()
        sender.add("b")
        sender.answers.put_nowait(ValueError("a bug"))
        sender.answers.put_nowait(None)
        await sender.requests.ended()
        assert sender.sent == [("a",), ("b",)]

    run(scenario)
    assert "ValueError: a bug" in caplog.text


def test_after_a_bug_there_is_a_pause(monkeypatch):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    async def scenario(sender):
        sender.add("a")
        await turns()
        monkeypatch.setattr("moldau.server.nodes.one_in_flight.asyncio.sleep", pause)
        sender.answers.put_nowait(ValueError("a bug"))
        await sender.requests.ended()
        assert pauses == [PAUSE_S]

    run(scenario)


def test_nothing_is_in_flight_after_a_cancel():
    async def scenario(sender):
        await sender.requests.cancel()
        await sender.requests.ended()
        sender.add("a")
        await turns()
        await sender.requests.cancel()
        assert sender.requests._sending is None

    run(scenario)
