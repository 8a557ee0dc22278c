"""The end of a process is noticed by its connection and its port, and by nothing else."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.network import Address
from moldau.server.nodes.process_watch import ProcessWatch, Sign
from moldau.sim.world import World


class Stream:
    def __init__(self, receiver):
        self.receiver = receiver
        self.is_open = True
        self.sent = []

    def send(self, parts):
        self.sent += parts

    def answer(self):
        self.receiver.received(memoryview(b"answer"))

    def abort(self):
        self.is_open = False

    def end(self):
        if self.is_open:
            self.is_open = False
            self.receiver.closed(None)


class Network:
    """Answers connections as it is told: accepted, refused, or silent."""

    def __init__(self):
        self.answer = "accepted"
        self.streams = []
        self.attempts = 0

    async def connect(self, host, port, receiver):
        assert (host, port) == ("other", 9092)
        self.attempts += 1
        await asyncio.sleep(0.001)
        if self.answer == "refused":
            raise ConnectionRefusedError
        if self.answer == "unreachable":
            raise OSError("no route to host")
        if self.answer == "silent":
            await asyncio.sleep(3600)
        stream = Stream(receiver(None))
        self.streams.append(stream)
        if self.answer == "ended":
            stream.end()
        return stream


@pytest.fixture
def watched():
    """Run a test with a network and the signs that a watch has told."""

    def run(test):
        with World(1) as world:

            async def main():
                network, told = Network(), []
                watch = ProcessWatch(
                    network, Address("other", 9092), lambda: told.append(watch.sign)
                )
                try:
                    await test(network, watch, told)
                finally:
                    await asyncio.gather(watch.cancel(), return_exceptions=True)
                    assert not any(stream.is_open for stream in network.streams)

            world.run(main())

    return run


def test_a_process_that_ends_is_lost_at_once_and_gone_when_its_port_refuses(watched):
    async def test(network, watch, told):
        await asyncio.sleep(10)
        assert told == [Sign.ALIVE]
        network.answer = "refused"
        network.streams[-1].end()
        assert told == [Sign.ALIVE, Sign.LOST]
        assert watch.is_suspicious
        await asyncio.sleep(0.2)
        assert told == [Sign.ALIVE, Sign.LOST, Sign.GONE]

    watched(test)


def test_a_connection_that_ends_alone_is_no_evidence(watched):
    async def test(network, watch, told):
        await asyncio.sleep(10)
        network.streams[-1].end()
        await asyncio.sleep(10)
        assert told == [Sign.ALIVE, Sign.LOST, Sign.ALIVE]
        assert not watch.is_suspicious

    watched(test)


@pytest.mark.parametrize("answer", ["silent", "unreachable", "ended"])
def test_silence_and_a_full_broker_are_no_evidence(watched, answer):
    async def test(network, watch, told):
        await asyncio.sleep(10)
        network.answer = answer
        network.streams[-1].end()
        await asyncio.sleep(60)
        assert Sign.GONE not in told

    watched(test)


def test_a_process_that_was_never_reached_is_gone_if_it_refuses(watched):
    async def test(network, watch, told):
        network.answer = "refused"
        await asyncio.sleep(1)
        assert told == [Sign.GONE]
        network.answer = "accepted"
        await asyncio.sleep(2)
        assert told == [Sign.GONE, Sign.ALIVE]

    watched(test)


def test_one_that_accepts_and_hangs_up_is_not_asked_without_a_pause(watched):
    async def test(network, watch, told):
        network.answer = "ended"
        await asyncio.sleep(60)
        assert network.attempts < 200

    watched(test)


def test_a_port_that_closes_after_its_connections_is_noticed_soon(watched):
    async def test(network, watch, told):
        await asyncio.sleep(10)
        network.answer = "ended"
        network.streams[-1].end()
        await asyncio.sleep(0.01)
        network.answer = "refused"
        await asyncio.sleep(0.2)
        assert told[-1] is Sign.GONE

    watched(test)


def test_a_process_that_answers_probes_is_alive(watched):
    async def test(network, watch, told):
        await asyncio.sleep(1)
        for _ in range(3):
            watch.probe()
            await asyncio.sleep(0.1)
            network.streams[-1].answer()
            await asyncio.sleep(1)
        assert told == [Sign.ALIVE]
        assert not watch.is_suspicious

    watched(test)


def test_one_that_leaves_a_probe_without_an_answer_is_silent_until_it_answers(watched):
    async def test(network, watch, told):
        await asyncio.sleep(1)
        watch.probe()
        await asyncio.sleep(1)
        assert told == [Sign.ALIVE, Sign.SILENT]
        assert watch.is_suspicious
        network.streams[-1].answer()
        assert told == [Sign.ALIVE, Sign.SILENT, Sign.ALIVE]

    watched(test)


def test_one_probe_is_on_its_way_at_a_time(watched):
    async def test(network, watch, told):
        await asyncio.sleep(1)
        for _ in range(100):
            watch.probe()
            await asyncio.sleep(0.01)
        (stream,) = network.streams
        assert sum(map(len, stream.sent)) < 100

    watched(test)


def test_a_silent_process_that_ends_is_gone(watched):
    async def test(network, watch, told):
        await asyncio.sleep(1)
        watch.probe()
        await asyncio.sleep(1)
        network.answer = "refused"
        network.streams[-1].end()
        await asyncio.sleep(0.2)
        assert told == [Sign.ALIVE, Sign.SILENT, Sign.LOST, Sign.GONE]

    watched(test)


def test_a_probe_of_a_connection_that_has_ended_says_nothing_of_the_next_one(watched):
    async def test(network, watch, told):
        await asyncio.sleep(1)
        watch.probe()
        network.streams[-1].end()
        watch.probe()
        await asyncio.sleep(5)
        assert told == [Sign.ALIVE, Sign.LOST, Sign.ALIVE]

    watched(test)
