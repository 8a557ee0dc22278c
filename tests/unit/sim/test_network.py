"""The simulated network delays, breaks and hides as told, and catches what sockets forgive."""

from __future__ import annotations

import asyncio
import random

import pytest

from moldau.base.files import FileRegion
from moldau.sim.crashes import Crashed
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.sim.network import CONNECT_TIMEOUT_S, SimNetwork
from moldau.sim.stream import SCRIBBLE
from moldau.sim.world import World

SEEDS = range(25)
PORT = 9092


class End:
    """One end of a stream: what came, in which pieces, and how it ended."""

    def __init__(self, stream):
        self.stream = stream
        self.pieces: list[bytes] = []
        self.kept: list[memoryview] = []
        self.ends: list[Exception | None] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def received(self, data):
        self.pieces.append(bytes(data))
        self.kept += [data, data[:]]
        return len(data)

    def drained(self):
        pass

    def closed(self, error):
        self.ends.append(error)


async def connect(network, source="client", target="server", receiver=End):
    """The server's end and the client's, on port 9092."""
    accepted = asyncio.get_running_loop().create_future()

    def accept(stream):
        end = receiver(stream)
        accepted.set_result(end)
        return end

    ends = []

    def begin(stream):
        ends.append(End(stream))
        return ends[0]

    host = network.host(target)
    listener = await host.listen("", PORT, accept)
    await network.host(source).connect(target, PORT, begin)
    listener.close()
    return await accepted, ends[0]


def run(scenario, seed=1, **options):
    with World(seed) as world:
        network = SimNetwork(world, **options)
        network.host("server")
        network.host("client")
        return world.run(scenario(network))


def test_pieces_come_in_odd_sizes_but_in_order():
    flood = random.Random(1).randbytes(200_000)

    async def scenario(network):
        server, client = await connect(network)
        client.stream.send([flood])
        await asyncio.sleep(10)
        assert server.data == flood
        return {len(piece) for piece in server.pieces}

    sizes = set().union(*(run(scenario, seed) for seed in range(5)))
    assert min(sizes) < 16
    assert max(sizes) > 8_000


def test_one_byte_at_a_time_is_a_mode():
    async def scenario(network):
        server, client = await connect(network)
        client.stream.send([b"0123456789"])
        await asyncio.sleep(10)
        return server.pieces

    assert run(scenario, chunk_size_max=1) == [b"%d" % number for number in range(10)]


def test_a_view_that_was_kept_shows_nothing_of_the_data():
    async def scenario(network):
        server, client = await connect(network, receiver=End)
        client.stream.send([b"secret"])
        await asyncio.sleep(1)
        whole, part = server.kept[:2]
        with pytest.raises(ValueError, match="released"):
            bytes(whole)
        assert bytes(part) == SCRIBBLE * len(part)

    run(scenario)


def test_no_more_than_the_window_is_ever_under_way():
    async def scenario(network):
        server, client = await connect(network)
        server.stream.pause()
        client.stream.send([bytes(10_000)])
        await asyncio.sleep(100)
        assert client.stream.unsent == 9_000
        server.stream.resume()
        await asyncio.sleep(100)
        assert client.stream.unsent == 0
        assert len(server.data) == 10_000

    run(scenario, window_size=1_000)


def test_a_clogged_link_delays_one_direction_and_loses_nothing():
    async def scenario(network):
        server, client = await connect(network)
        network.clog("client", "server")
        client.stream.send([b"to the server"])
        server.stream.send([b"to the client"])
        await asyncio.sleep(1000)
        assert client.data == b"to the client"
        assert server.data == b""
        assert not server.ends
        network.unclog("client", "server")
        await asyncio.sleep(1)
        assert server.data == b"to the server"

    for seed in SEEDS:
        run(scenario, seed)


def test_order_survives_a_clog():
    async def scenario(network):
        server, client = await connect(network)
        flood = random.Random(1).randbytes(30_000)
        for first in range(0, 30_000, 1_000):
            client.stream.send([flood[first : first + 1_000]])
            if first % 7_000 == 0:
                network.clog("client", "server")
            await asyncio.sleep(0.001)
            if first % 5_000 == 0:
                network.heal()
        network.heal()
        await asyncio.sleep(10)
        assert server.data == flood

    for seed in SEEDS:
        run(scenario, seed)


def test_what_was_set_aside_arrives_after_what_another_connection_sent_later():
    async def scenario(network):
        late_server, late_client = await connect(network)
        network.clog("client", "server")
        late_client.stream.send([b"early"])
        await asyncio.sleep(1)
        let_arrive = network.set_aside("client", "server")
        server, client = await connect(network)
        client.stream.send([b"later"])
        await asyncio.sleep(1000)
        assert (server.data, late_server.data) == (b"later", b"")
        let_arrive()
        await asyncio.sleep(1)
        assert late_server.data == b"early"

    for seed in SEEDS:
        run(scenario, seed)


def test_a_request_of_a_process_that_crashed_may_arrive_after_its_next_life_has_spoken():
    async def scenario(network):
        late_server, late_client = await connect(network)
        network.clog("client", "server")
        late_client.stream.send([b"early"])
        await asyncio.sleep(1)
        network.crash("client")
        await asyncio.sleep(1)
        let_arrive = network.set_aside("client", "server")
        server, client = await connect(network)
        client.stream.send([b"later"])
        await asyncio.sleep(1)
        assert (server.data, late_server.data, late_server.ends) == (b"later", b"", [])
        let_arrive()
        await asyncio.sleep(1)
        assert late_server.ends
        return late_server.data

    assert b"early" in {run(scenario, seed) for seed in SEEDS}


def test_a_partition_cuts_two_groups_from_each_other_only():
    async def scenario(network):
        for name in ("a", "b", "c"):
            network.host(name)
        network.partition(["a"], ["b", "c"])
        _, inside = await connect(network, "b", "c")
        inside.stream.close()
        attempt = asyncio.ensure_future(connect(network, "b", "a"))
        await asyncio.sleep(100)
        assert not attempt.done()
        network.heal()
        server, client = await attempt
        client.stream.send([b"x"])
        await asyncio.sleep(1)
        assert server.data == b"x"

    run(scenario)


@pytest.mark.parametrize("direction", [("client", "server"), ("server", "client")])
def test_connecting_across_a_clogged_link_times_out(direction):
    async def scenario(network):
        network.clog(*direction)
        loop = asyncio.get_running_loop()
        before = loop.time()
        with pytest.raises(TimeoutError):
            await connect(network)
        assert loop.time() == pytest.approx(before + CONNECT_TIMEOUT_S)

    run(scenario)


def test_a_connection_given_up_at_any_moment_ends_at_the_server_too():
    async def scenario(network):
        ends = []

        def accept(stream):
            ends.append(End(stream))
            return ends[-1]

        await network.host("server").listen("", PORT, accept)
        attempt = network.host("client").connect("server", PORT, End)
        try:
            stream = await asyncio.wait_for(attempt, 0.0008)
        except TimeoutError:
            pass
        else:
            stream.close()
        await asyncio.sleep(10)
        assert all(len(end.ends) == 1 for end in ends)
        return len(ends)

    assert {run(scenario, seed) for seed in range(60)} == {0, 1}


def test_an_unknown_host_is_an_error_at_once():
    async def scenario(network):
        with pytest.raises(OSError, match="no host nowhere"):
            await network.host("client").connect("nowhere", PORT, End)

    run(scenario)


def test_a_reset_breaks_both_ends_in_the_middle_of_what_travels():
    async def scenario(network):
        server, client = await connect(network)
        client.stream.send([bytes(100_000)])
        await asyncio.sleep(0.002)
        network.reset("client", "server")
        await asyncio.sleep(10)
        for end in (server, client):
            assert [type(error) for error in end.ends] == [ConnectionResetError]
        return len(server.data)

    sizes = {run(scenario, seed) for seed in SEEDS}
    assert any(0 < size < 100_000 for size in sizes)


def test_connections_break_by_chance():
    async def scenario(network):
        network.reset_chance = 0.1
        server, client = await connect(network)
        client.stream.send([bytes(400_000)])
        await asyncio.sleep(10)
        return [type(error) for error in server.ends]

    outcomes = [run(scenario, seed) for seed in SEEDS]
    assert [ConnectionResetError] in outcomes


def test_peers_of_a_process_that_crashed_are_reset_and_it_hears_nothing():
    async def scenario(network):
        server, client = await connect(network)
        network.crash("server")
        await asyncio.sleep(1)
        assert [type(error) for error in client.ends] == [ConnectionResetError]
        assert server.ends == []
        with pytest.raises(ConnectionRefusedError):
            await network.host("client").connect("server", PORT, End)

    for seed in SEEDS:
        run(scenario, seed)


def test_a_process_that_crashed_cannot_use_the_network():
    async def scenario(network):
        old = network.host("server")
        network.crash("server")
        with pytest.raises(Crashed):
            await old.listen("", PORT, End)
        with pytest.raises(Crashed):
            await old.connect("client", PORT, End)
        assert network.host("server") is not old

    run(scenario)


def test_a_machine_that_went_silently_is_noticed_only_when_it_is_back():
    async def scenario(network):
        server, client = await connect(network)
        network.crash("server", silent=True)
        client.stream.send([b"hello?"])
        await asyncio.sleep(1000)
        assert client.ends == []
        with pytest.raises(TimeoutError):
            await network.host("client").connect("server", PORT, End)
        network.host("server")
        await asyncio.sleep(1)
        assert [type(error) for error in client.ends] == [ConnectionResetError]
        assert server.data == b""

    for seed in SEEDS:
        run(scenario, seed)


def test_connecting_to_a_machine_that_comes_back_in_time_succeeds():
    async def scenario(network):
        network.crash("server", silent=True)
        attempt = asyncio.ensure_future(network.host("client").connect("server", PORT, End))
        await asyncio.sleep(5)
        assert not attempt.done()
        await network.host("server").listen("", PORT, End)
        stream = await asyncio.wait_for(attempt, 10)
        assert not stream.over

    for seed in SEEDS:
        run(scenario, seed)


def test_an_idle_peer_learns_of_a_silent_restart_when_it_speaks():
    async def scenario(network):
        _, client = await connect(network)
        network.crash("server", silent=True)
        network.host("server")
        await asyncio.sleep(1000)
        assert client.ends == []
        client.stream.send([b"hello?"])
        await asyncio.sleep(1)
        assert [type(error) for error in client.ends] == [ConnectionResetError]

    for seed in SEEDS:
        run(scenario, seed)


def test_a_region_is_read_when_it_is_sent_and_waits_for_cold_pages():
    async def scenario(network):
        disk = SimDisk(random.Random(1))
        file = disk.open("/segment", create=True)
        content = random.Random(2).randbytes(150_000)
        file.append([content])
        disk.chill("/segment")
        server, client = await connect(network)
        server.stream.send([FileRegion(file, 0, len(content))])
        assert server.stream.unsent == len(content)
        assert not file.resident(0, len(content))
        await asyncio.sleep(10)
        assert client.data == content
        assert file.resident(0, len(content))

    for seed in range(5):
        run(scenario, seed)


def test_a_disk_that_fails_while_sending_ends_the_stream():
    async def scenario(network):
        disk = SimDisk(random.Random(1))
        file = disk.open("/segment", create=True)
        file.append([bytes(100_000)])
        disk.faults.fail(Operation.READ, "/segment", skip=3)
        server, client = await connect(network)
        server.stream.send([FileRegion(file, 0, 100_000)])
        await asyncio.sleep(10)
        assert isinstance(server.ends[0], OSError)
        assert len(client.ends) == 1
        assert len(client.data) < 100_000

    for seed in range(5):
        run(scenario, seed)
