"""Network, disk, executor and loop together: a small durable server under crashes.

It proves three things about the simulation itself: a run is decided by its seed alone, also in
another process with another hash seed; a server that is right survives every run; and one that
acknowledges before it syncs, or trusts what it finds after a crash, is caught.
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
import subprocess
import sys
import zlib

import pytest

from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.network import SimNetwork
from moldau.sim.world import World

PORT = 9092
RECORD = struct.Struct(">II")
RUN_S = 6.0


def record(number: int) -> bytes:
    return RECORD.pack(number, zlib.crc32(number.to_bytes(4)))


def valid_numbers(data: bytes) -> list[int]:
    """The numbers up to the first record that is torn."""
    numbers = []
    for number, checksum in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]):
        if checksum != zlib.crc32(number.to_bytes(4)):
            break
        numbers.append(number)
    return numbers


class Server:
    """Appends numbers to a file, syncs, acknowledges. One instance is one process."""

    def __init__(self, world: World, network: SimNetwork, disk: SimDisk, mistake: str) -> None:
        self.disk = disk
        self.executor = SimExecutor(world)
        self._mistake = mistake
        self._network = network.host("server")
        self._file = disk.open("/log", create=True)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        size = self._file.size()
        if self._mistake != "trusts what it finds":
            size = RECORD.size * len(valid_numbers(self._file.read(0, size)))
        self._file.truncate(size)
        await self.executor.run(self._file.sync)
        if self._mistake != "forgets the folder":
            self.disk.sync_folder("/")
        await self._network.listen("", PORT, self._accept)

    def _accept(self, stream):
        return Peer(stream, self._asked)

    def _asked(self, stream, number: int) -> None:
        self._file.append([record(number)])
        self._tasks.append(asyncio.ensure_future(self._acknowledge(stream, number)))

    async def _acknowledge(self, stream, number: int) -> None:
        if self._mistake != "acknowledges before it syncs":
            await self.executor.run(self._file.sync)
        stream.send([number.to_bytes(4)])

    def die(self) -> None:
        self.executor.kill()
        for task in self._tasks:
            task.cancel()


class Peer:
    """Takes numbers of four bytes."""

    def __init__(self, stream, tell) -> None:
        self.stream = stream
        self._tell = tell
        self.ended = asyncio.get_running_loop().create_future()

    def received(self, data: memoryview) -> int:
        whole = len(data) // 4 * 4
        for position in range(0, whole, 4):
            self._tell(self.stream, int.from_bytes(data[position : position + 4]))
        return whole

    def drained(self) -> None:
        pass

    def closed(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Client:
    """Sends numbers one by one, each until it is acknowledged or its connection is lost."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network.host("client")
        self.acknowledged: list[int] = []
        self._next = 0

    def _heard(self, stream, number: int) -> None:
        self.acknowledged.append(number)
        self._ask(stream)

    def _ask(self, stream) -> None:
        self._next += 1
        stream.send([self._next.to_bytes(4)])

    async def work(self) -> None:
        while True:
            peers: list[Peer] = []

            def begin(stream, peers=peers):
                peers.append(Peer(stream, self._heard))
                return peers[0]

            try:
                stream = await self._network.connect("server", PORT, begin)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            self._ask(stream)
            try:
                await asyncio.wait_for(peers[0].ended, 0.5)
            except TimeoutError:
                stream.abort()


async def scenario(world: World, mistake: str) -> tuple[list[int], list[int]]:
    """Crash the server again and again; return what was acknowledged and what is there."""
    network = SimNetwork(world)
    network.reset_chance = 0.002
    chance = world.random("nemesis")
    disk = SimDisk(world.random("disk"), trace=world.trace)
    client = Client(network)
    network.host("server")
    working = asyncio.ensure_future(client.work())
    end_s = world.loop.time() + RUN_S
    while world.loop.time() < end_s:
        server = Server(world, network, disk, mistake)
        await server.start()
        await asyncio.sleep(chance.expovariate(5.0))
        power = chance.random() < 0.7
        network.crash("server", silent=power and chance.random() < 0.5)
        server.die()
        disk = disk.power_cut() if power else disk.kill()
        await asyncio.sleep(chance.expovariate(10.0))
    working.cancel()
    found = valid_numbers(disk.open("/log").read(0, 1 << 30)) if disk.exists("/log") else []
    return client.acknowledged, found


def simulate(seed: int, mistake: str = "") -> tuple[str, list[int], list[int]]:
    with World(seed) as world:
        acknowledged, found = world.run(scenario(world, mistake))
        return world.trace.digest(), acknowledged, found


def lost(seed: int, mistake: str = "") -> set[int]:
    _, acknowledged, found = simulate(seed, mistake)
    return set(acknowledged) - set(found)


def test_nothing_acknowledged_is_lost_by_a_server_that_is_right():
    for seed in range(6):
        _, acknowledged, found = simulate(seed)
        assert len(acknowledged) > 20
        assert set(acknowledged) <= set(found)


@pytest.mark.parametrize(
    "mistake", ["acknowledges before it syncs", "trusts what it finds", "forgets the folder"]
)
def test_a_server_with_a_mistake_is_caught(mistake):
    assert any(lost(seed, mistake) for seed in range(20))


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first = simulate(1)
    random.seed(999)
    assert simulate(1) == first
    assert simulate(2)[0] != first[0]


def test_the_run_does_not_depend_on_the_interpreters_hash_seed():
    digests = set()
    for hash_seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, __file__, "3"]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        digests.add(done.stdout)
    assert digests == {simulate(3)[0] + "\n"}


if __name__ == "__main__":
    print(simulate(int(sys.argv[1]))[0])
