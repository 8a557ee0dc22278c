"""What every connection may rely on: over real sockets, and in the simulation for several seeds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moldau.base.errors import ProtocolError
from moldau.base.files import FileRegion, Files
from moldau.base.network import Listener, Network, Stream
from moldau.server.workers.executor import PoolExecutor
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.world import World
from moldau.storage.disk import Disk
from moldau.transport.sockets import SocketNetwork

SEEDS = range(8)

SOCKETS_TIMEOUT_S = 60
"""Only ever reached by a failure: nothing here waits for a time to pass."""


@dataclass
class Surroundings:
    """Two ends of a network, a disk, and how much overfills what lies between the ends."""

    server: Network
    client: Network
    host: str
    files: Files
    folder: str
    flood_size: int


Scenario = Callable[[Surroundings], Coroutine[Any, Any, None]]


def run_on_sockets(scenario: Scenario, folder: Path) -> None:
    async def main() -> None:
        executor = PoolExecutor()
        network = SocketNetwork(executor)
        around = Surroundings(network, network, "127.0.0.1", Disk(), str(folder), 24_000_000)
        try:
            async with asyncio.timeout(SOCKETS_TIMEOUT_S):
                await scenario(around)
        finally:
            await executor.close()

    asyncio.run(main())


def simulate(scenario: Scenario, *, flood_size: int, **options: int) -> None:
    for seed in SEEDS:
        with World(seed) as world:
            network = SimNetwork(world, **options)
            ends = network.host("server"), network.host("client")
            disk = SimDisk(world.random("disk"), trace=world.trace)
            world.run(scenario(Surroundings(*ends, "server", disk, "", flood_size)))


def run_simulated(scenario: Scenario, folder: Path) -> None:
    simulate(scenario, flood_size=300_000)


def run_byte_by_byte(scenario: Scenario, folder: Path) -> None:
    simulate(scenario, flood_size=600, window_size=80, chunk_size_max=1)


@pytest.fixture(
    params=[run_on_sockets, run_simulated, run_byte_by_byte],
    ids=["sockets", "simulated", "byte-by-byte"],
)
def run(request, tmp_path) -> Callable[[Scenario], None]:
    return lambda scenario: request.param(scenario, tmp_path)


class Recorder:
    """Remembers what a stream told it, and lets a test wait for more."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.data = bytearray()
        self.shown: list[int] = []
        self.drained_count = 0
        self.ends: list[Exception | None] = []
        self._changed = asyncio.Event()

    def received(self, data: memoryview) -> int:
        assert not self.ends
        self.shown.append(len(data))
        used = self.use(data)
        self._changed.set()
        return used

    def use(self, data: memoryview) -> int:
        self.data += data
        return len(data)

    def drained(self) -> None:
        assert self.stream.unsent == 0
        self.drained_count += 1
        self._changed.set()

    def closed(self, error: Exception | None) -> None:
        self.ends.append(error)
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def until_size(self, size: int) -> bytes:
        await self.until(lambda: len(self.data) >= size)
        return bytes(self.data)

    async def until_closed(self) -> Exception | None:
        await self.until(lambda: self.ends)
        assert len(self.ends) == 1
        return self.ends[0]


class Frames(Recorder):
    """Takes frames of a one-byte length, and nothing before one is whole."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.frames: list[bytes] = []

    def use(self, data: memoryview) -> int:
        used = 0
        while used < len(data) and len(data) > used + data[used]:
            self.frames.append(bytes(data[used + 1 : used + 1 + data[used]]))
            used += 1 + data[used]
            if not self.go_on():
                break
        return used

    def go_on(self) -> bool:
        return True


async def connect(
    around: Surroundings, server: type[Recorder] = Recorder, client: type[Recorder] = Recorder
) -> tuple[Recorder, Recorder, Listener]:
    """Both ends of a new connection, server first."""
    accepted: asyncio.Future[Recorder] = asyncio.get_running_loop().create_future()

    def accept(stream: Stream) -> Recorder:
        recorder = server(stream)
        accepted.set_result(recorder)
        return recorder

    ours: list[Recorder] = []

    def begin(stream: Stream) -> Recorder:
        ours.append(client(stream))
        return ours[0]

    listener = await around.server.listen(around.host, 0, accept)
    stream = await around.client.connect(around.host, listener.address.port, begin)
    assert stream is ours[0].stream
    return await accepted, ours[0], listener


async def finish(server: Recorder, client: Recorder, listener: Listener) -> None:
    client.stream.close()
    assert await client.until_closed() is None
    await server.until_closed()
    listener.close()


def test_bytes_arrive_whole_and_in_order_both_ways(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        there = random.Random(1).randbytes(around.flood_size // 3)
        back = random.Random(2).randbytes(around.flood_size // 5)
        client.stream.send([there[:7], bytearray(there[7:100]), memoryview(there)[100:]])
        server.stream.send([back[:1]])
        server.stream.send([])
        server.stream.send([b"", back[1:]])
        assert await server.until_size(len(there)) == there
        assert await client.until_size(len(back)) == back
        assert client.stream.unsent == 0
        await finish(server, client, listener)

    run(scenario)


def test_both_ends_agree_who_they_are(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        assert listener.address.port > 0
        assert client.stream.peer.port == listener.address.port
        assert client.stream.local == server.stream.peer
        assert client.stream.peer == server.stream.local
        await finish(server, client, listener)

    run(scenario)


def test_what_was_not_used_is_shown_again_with_more_behind(run):
    async def scenario(around):
        server, client, listener = await connect(around, server=Frames)
        payloads = [random.Random(n).randbytes(n % 200) for n in range(0, 400, 30)]
        for payload in payloads:
            client.stream.send([bytes([len(payload)]), payload])
        await server.until(lambda: len(server.frames) == len(payloads))
        assert server.frames == payloads
        await finish(server, client, listener)

    run(scenario)


def test_a_frame_larger_than_any_buffer_between_arrives(run):
    async def scenario(around):
        size = around.flood_size

        class Whole(Recorder):
            def use(self, data: memoryview) -> int:
                self.stream.expect(size)
                return super().use(data) if len(data) == size else 0

        server, client, listener = await connect(around, server=Whole)
        frame = random.Random(1).randbytes(size)
        client.stream.send([frame])
        assert await server.until_size(size) == frame
        await finish(server, client, listener)

    run(scenario)


def test_file_regions_travel_between_buffers(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        content = random.Random(1).randbytes(around.flood_size // 3)
        file = around.files.open(f"{around.folder}/segment", create=True)
        file.append([content])
        half = len(content) // 2
        server.stream.send(
            [
                b"head",
                FileRegion(file, 10, half - 10),
                b"middle",
                FileRegion(file, half, len(content) - half),
                FileRegion(file, 0, 0),
                b"tail",
            ]
        )
        expected = b"head" + content[10:half] + b"middle" + content[half:] + b"tail"
        assert await client.until_size(len(expected)) == expected
        assert server.stream.unsent == 0
        file.close()
        await finish(server, client, listener)

    run(scenario)


def test_a_region_that_is_not_there_ends_the_stream_with_an_error(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        file = around.files.open(f"{around.folder}/segment", create=True)
        file.append([b"short"])
        server.stream.send([FileRegion(file, 0, 100)])
        assert isinstance(await server.until_closed(), OSError)
        await client.until_closed()
        file.close()
        listener.close()

    run(scenario)


def test_a_region_that_was_cut_while_it_waited_is_never_sent(run):
    """What is written in its place would arrive as if it were the old bytes."""

    async def scenario(around):
        server, client, listener = await connect(around)
        client.stream.pause()
        file = around.files.open(f"{around.folder}/segment", create=True)
        file.append([b"a" * around.flood_size, b"b" * 100])
        size = around.flood_size + 100
        server.stream.send([FileRegion(file, 0, size)])
        assert server.stream.unsent > 200
        file.cut_off_regions(around.flood_size)
        file.truncate(around.flood_size)
        file.append([b"c" * 100])
        client.stream.resume()
        assert isinstance(await server.until_closed(), OSError)
        await client.until_closed()
        assert set(client.data) <= set(b"a")
        file.close()
        listener.close()

    run(scenario)


def test_a_region_below_the_cut_is_sent(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        file = around.files.open(f"{around.folder}/segment", create=True)
        file.append([b"0123456789"])
        file.cut_off_regions(5)
        file.truncate(5)
        server.stream.send([FileRegion(file, 2, 3)])
        assert await client.until_size(3) == b"234"
        file.close()
        await finish(server, client, listener)

    run(scenario)


def test_a_reader_that_pauses_is_felt_by_the_sender(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        server.stream.pause()
        flood = random.Random(1).randbytes(around.flood_size)
        client.stream.send([flood])
        assert client.stream.unsent > 0
        server.stream.send([b"still alive"])
        await client.until_size(11)
        assert client.stream.unsent > 0
        assert client.drained_count == 0
        assert server.data == b""
        server.stream.resume()
        await client.until(lambda: client.drained_count)
        assert client.stream.unsent == 0
        assert await server.until_size(len(flood)) == flood
        assert client.drained_count == 1
        await finish(server, client, listener)

    run(scenario)


def test_pausing_in_the_middle_keeps_the_rest_until_resumed(run):
    class OneByOne(Frames):
        def go_on(self) -> bool:
            self.stream.pause()
            return False

    async def scenario(around):
        server, client, listener = await connect(around, server=OneByOne)
        client.stream.send([b"\x03one\x03two\x05three"])
        for count, frame in enumerate([b"one", b"two", b"three"], start=1):
            await server.until(lambda count=count: len(server.frames) >= count)
            assert len(server.frames) == count
            assert server.frames[-1] == frame
            server.stream.resume()
            assert len(server.frames) == count
        await finish(server, client, listener)

    run(scenario)


def test_closing_sends_what_is_queued_first(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        flood = random.Random(1).randbytes(around.flood_size)
        client.stream.send([flood])
        client.stream.close()
        client.stream.send([b"too late"])
        assert await server.until_closed() is None
        assert server.data == flood
        assert await client.until_closed() is None
        client.stream.close()
        client.stream.abort()
        assert len(client.ends) == 1
        listener.close()

    run(scenario)


def test_aborting_ends_both_sides_and_forgets_what_is_queued(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        server.stream.pause()
        client.stream.send([bytes(around.flood_size)])
        client.stream.abort()
        assert client.ends == [None]
        assert client.stream.unsent == 0
        server.stream.resume()
        await server.until_closed()
        assert len(server.data) < around.flood_size
        listener.close()

    run(scenario)


def test_raising_while_receiving_closes_the_stream_with_that_error(run):
    class Picky(Recorder):
        def use(self, data: memoryview) -> int:
            raise ProtocolError("not for me")

    async def scenario(around):
        server, client, listener = await connect(around, server=Picky)
        client.stream.send([b"hello"])
        error = await server.until_closed()
        assert isinstance(error, ProtocolError)
        await client.until_closed()
        listener.close()

    run(scenario)


def test_what_is_called_soon_comes_behind_what_is_being_received(run):
    async def scenario(around):
        called: list[str] = []

        class Calling(Recorder):
            def use(self, data: memoryview) -> int:
                self.call_soon("soon")
                called.append("received")
                return super().use(data)

            def call_soon(self, name: str) -> None:
                around.server.call_soon(lambda: self.note(name))

            def note(self, name: str) -> None:
                called.append(name)
                self._changed.set()

        server, client, listener = await connect(around, server=Calling)
        client.stream.send([b"x"])
        await server.until(lambda: len(called) == 2)
        server.call_soon("alone")
        assert called == ["received", "soon"]
        await server.until(lambda: len(called) == 3)
        await finish(server, client, listener)

    run(scenario)


def test_closing_while_receiving_shows_nothing_more(run):
    class Enough(Recorder):
        def use(self, data: memoryview) -> int:
            self.stream.close()
            return 0

    async def scenario(around):
        server, client, listener = await connect(around, server=Enough)
        client.stream.send([b"hello"])
        assert await server.until_closed() is None
        assert len(server.shown) == 1
        await client.until_closed()
        listener.close()

    run(scenario)


def test_whoever_closes_a_stream_while_accepting_it_hears_no_more_of_it(run):
    class Full(Recorder):
        def __init__(self, stream: Stream) -> None:
            super().__init__(stream)
            stream.close()

    async def scenario(around):
        server, client, listener = await connect(around, server=Full)
        await client.until_closed()
        assert server.ends == []
        assert server.shown == []
        listener.close()

    run(scenario)


def test_what_is_sent_while_accepting_arrives(run):
    class Greeter(Recorder):
        def __init__(self, stream: Stream) -> None:
            super().__init__(stream)
            stream.send([b"welcome"])

    async def scenario(around):
        server, client, listener = await connect(around, server=Greeter)
        assert await client.until_size(7) == b"welcome"
        await finish(server, client, listener)

    run(scenario)


def test_a_stream_paused_while_it_is_accepted_is_not_read(run):
    class Later(Recorder):
        def __init__(self, stream: Stream) -> None:
            super().__init__(stream)
            stream.pause()

    async def scenario(around):
        server, client, listener = await connect(around, server=Later)
        client.stream.send([b"hello"])
        server.stream.send([b"hello yourself"])
        await client.until_size(14)
        assert server.data == b""
        server.stream.resume()
        assert await server.until_size(5) == b"hello"
        await finish(server, client, listener)

    run(scenario)


def test_a_port_nobody_listens_on_refuses(run):
    async def scenario(around):
        listener = await around.server.listen(around.host, 0, Recorder)
        listener.close()
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await around.client.connect(around.host, listener.address.port, Recorder)

    run(scenario)


def test_a_port_is_given_once(run):
    async def scenario(around):
        listener = await around.server.listen(around.host, 0, Recorder)
        with pytest.raises(OSError):
            await around.server.listen(around.host, listener.address.port, Recorder)
        listener.close()
        again = await around.server.listen(around.host, listener.address.port, Recorder)
        again.close()

    run(scenario)


def test_closing_the_listener_leaves_its_streams(run):
    async def scenario(around):
        server, client, listener = await connect(around)
        listener.close()
        client.stream.send([b"still here"])
        assert await server.until_size(10) == b"still here"
        await finish(server, client, listener)

    run(scenario)
