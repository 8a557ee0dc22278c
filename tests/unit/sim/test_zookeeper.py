"""The faults of the simulated ensemble, which no real server shows on demand."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kits.zookeeper_kit import Calls, States, begun
from moldau.cluster.zookeeper.client.port import (
    BadVersion,
    ConnectionTimedOut,
    NodeKind,
    SessionExpired,
    SessionState,
    SetData,
    UnknownOutcome,
    ZooKeeperSession,
)
from moldau.sim.loop import PROCESS
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SESSION_TIMEOUT_S, SimZooKeeper

SEEDS = range(20)
CONNECTED, SUSPENDED, EXPIRED = (
    SessionState.CONNECTED,
    SessionState.SUSPENDED,
    SessionState.EXPIRED,
)

Scenario = Callable[[World, SimEnsemble], Coroutine[Any, Any, Any]]


def run(scenario: Scenario) -> list[Any]:
    """Run on several seeds; return what came of each."""
    results = []
    for seed in SEEDS:
        with World(seed) as world:
            results.append(world.run(scenario(world, SimEnsemble(world)), limit_s=600))
    return results


async def opened(ensemble: SimEnsemble, name: str) -> tuple[ZooKeeperSession, States]:
    states = States()
    return await SimZooKeeper(ensemble, name).open_session(states), states


def test_a_write_under_way_happens_or_not_when_the_connection_is_lost():
    async def scenario(world: World, ensemble: SimEnsemble) -> tuple[bool, bool]:
        session, states = await opened(ensemble, "broker")
        await session.create("/a", b"")
        writes = [await begun(session.set_data("/a", b"%d" % n, n)) for n in range(8)]
        await asyncio.sleep(world.loop.delay_s(0.004))
        ensemble.lose_connection("broker")
        results = await asyncio.gather(*writes, return_exceptions=True)
        known = sum(not isinstance(result, BaseException) for result in results)
        assert all(isinstance(result, UnknownOutcome) for result in results[known:])
        await session.sync()
        version = (await session.read("/a")).stat.version
        assert known <= version <= 8
        assert states.told == [SUSPENDED, CONNECTED]
        return known < version, version < 8

    outcomes = run(scenario)
    assert any(done_and_unknown for done_and_unknown, _ in outcomes)
    assert any(lost for _, lost in outcomes)


def test_nothing_of_an_old_connection_happens_after_the_next_one():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, states = await opened(ensemble, "broker")
        await session.create("/a")
        ensemble.cut("broker", answers=False)
        write = asyncio.ensure_future(session.set_data("/a", b"late"))
        await asyncio.sleep(0)
        link = session.link
        ensemble.lose_connection("broker", arriving=True)
        with pytest.raises(UnknownOutcome):
            await write
        ensemble.heal("broker")
        await states.until(CONNECTED)
        await session.sync()
        before = await session.read("/a")
        link.up.release()
        await asyncio.sleep(1)
        await session.sync()
        assert await session.read("/a") == before
        assert before.data == b""

    run(scenario)


def test_a_lagging_server_shows_old_data_until_a_sync():
    async def scenario(world: World, ensemble: SimEnsemble) -> bool:
        session, _ = await opened(ensemble, "broker")
        writer, _ = await opened(ensemble, "writer")
        await session.create("/a", b"old")
        await writer.sync()
        watch = Calls()
        await session.read("/a", watch)
        ensemble.lag("broker")
        await writer.set_data("/a", b"new")
        await asyncio.sleep(10)
        # The writer may be connected to the same server, which then has its write.
        is_stale = (await session.read("/a")).data == b"old"
        assert watch.count == (0 if is_stale else 1)
        await session.sync()
        assert (await session.read("/a")).data == b"new"
        assert watch.count == 1
        return is_stale

    assert len(set(run(scenario))) == 2


def test_a_lagging_server_goes_on_when_it_is_let():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, _ = await opened(ensemble, "broker")
        writer, _ = await opened(ensemble, "writer")
        await session.create("/a", b"old")
        await writer.sync()
        ensemble.lag("broker")
        await writer.set_data("/a", b"new")
        watch = Calls()
        data = (await session.read("/a", watch)).data
        ensemble.catch_up()
        if data == b"old":
            await watch.until_called()
        assert (await session.read("/a")).data == b"new"

    run(scenario)


def test_a_write_of_a_tool_is_seen_and_told_as_any_other():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, _ = await opened(ensemble, "broker")
        await session.create("/a", b"old")
        watch = Calls()
        await session.read("/a", watch)
        with pytest.raises(BadVersion):
            ensemble.write_as_tool(SetData("/a", b"wrong", 1))
        ensemble.write_as_tool(SetData("/a", b"new", 0))
        await watch.until_called()
        assert (await session.read("/a")).data == b"new"

    run(scenario)


def test_a_session_never_goes_back_in_time():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, _ = await opened(ensemble, "broker")
        writer, _ = await opened(ensemble, "writer")
        await session.create("/a")
        await writer.sync()
        newest = 0
        for n in range(20):
            if n % 5 == 0:
                ensemble.lag("broker")
            await writer.set_data("/a", b"")
            ensemble.lose_connection("broker")
            version = (await session.read("/a")).stat.version
            assert version >= newest
            newest = version

    run(scenario)


def test_watches_are_kept_over_a_reconnection_or_called():
    async def scenario(world: World, ensemble: SimEnsemble) -> bool:
        session, states = await opened(ensemble, "broker")
        writer, _ = await opened(ensemble, "writer")
        for path in ("/a", "/b"):
            await session.create(path)
        await writer.sync()
        changed, unchanged, missing, children = Calls(), Calls(), Calls(), Calls()
        await session.read("/a", changed)
        await session.read("/b", unchanged)
        await session.exists("/c", missing)
        await session.children("/", children)
        ensemble.lose_connection("broker")
        await states.until(CONNECTED)
        await writer.set_data("/a", b"")
        await session.sync()
        assert changed.count == 1
        assert unchanged.count == missing.count == children.count
        was_kept = not unchanged.count
        await writer.delete("/b")
        await writer.create("/c")
        await session.sync()
        assert [unchanged.count, missing.count, children.count] == [1, 1, 1]
        return was_kept

    assert len(set(run(scenario))) == 2


def test_a_session_expires_when_it_is_cut_off_for_its_timeout():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, states = await opened(ensemble, "broker")
        witness, _ = await opened(ensemble, "witness")
        await session.create("/mine", b"", NodeKind.EPHEMERAL)
        await witness.sync()
        gone = Calls()
        await witness.exists("/mine", gone)
        ensemble.cut("broker")
        await states.until(SUSPENDED)
        assert gone.count == 0, "the client must notice before the others take over"
        await gone.until_called()
        assert session.state is SUSPENDED, "nobody can have told it"
        ensemble.heal("broker")
        await states.until(EXPIRED)
        assert states.told == [SUSPENDED, EXPIRED]

    run(scenario)


def test_a_session_lives_on_after_a_short_silence():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, states = await opened(ensemble, "broker")
        await session.create("/mine", b"", NodeKind.EPHEMERAL)
        ensemble.cut("broker")
        reading = asyncio.ensure_future(session.read("/mine"))
        await asyncio.sleep(SESSION_TIMEOUT_S / 4)
        assert not reading.done()
        ensemble.heal("broker")
        await reading
        await asyncio.sleep(SESSION_TIMEOUT_S * 3)
        assert await session.exists("/mine") is not None
        assert states.told == []

    run(scenario)


def test_answers_that_do_not_come_are_noticed():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, states = await opened(ensemble, "broker")
        ensemble.cut("broker", requests=False)
        write = asyncio.ensure_future(session.create("/a"))
        with pytest.raises(UnknownOutcome):
            await write
        assert states.told == [SUSPENDED]
        ensemble.heal("broker")
        await session.sync()
        assert await session.exists("/a") is not None

    run(scenario)


def test_sessions_live_on_when_the_ensemble_was_gone_for_long():
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        session, states = await opened(ensemble, "broker")
        await session.create("/mine", b"", NodeKind.EPHEMERAL)
        ensemble.stop()
        await states.until(SUSPENDED)
        writing = asyncio.ensure_future(session.set_data("/mine", b"waited"))
        await asyncio.sleep(SESSION_TIMEOUT_S * 5)
        assert session.state is SUSPENDED
        ensemble.cut("broker")
        ensemble.start()
        await asyncio.sleep(SESSION_TIMEOUT_S / 2)
        ensemble.heal("broker")
        await writing
        assert states.told == [SUSPENDED, CONNECTED]
        assert (await session.read("/mine")).data == b"waited"

    run(scenario)


@pytest.mark.parametrize("fault", ["pause", "end"])
def test_the_session_of_a_process_that_does_not_run_expires(fault):
    async def scenario(world: World, ensemble: SimEnsemble) -> None:
        witness, _ = await opened(ensemble, "witness")
        context = contextvars.copy_context()
        context.run(PROCESS.set, "broker#1")
        states = States()

        async def work() -> ZooKeeperSession:
            session = await SimZooKeeper(ensemble, "broker").open_session(states)
            await session.create("/mine", b"", NodeKind.EPHEMERAL)
            return session

        session = await world.loop.create_task(work(), context=context)
        await witness.sync()
        gone = Calls()
        assert await witness.exists("/mine", gone) is not None
        if fault == "end":
            world.loop.end_process("broker#1")
            await gone.until_called()
            assert states.told == []
            return
        world.loop.pause_process("broker#1")
        await gone.until_called()
        assert states.told == []
        world.loop.resume_process("broker#1")
        await states.until(EXPIRED)
        with pytest.raises(SessionExpired):
            await session.sync()

    run(scenario)


STEPS = 300
NAMES = ("one", "two", "three")


class Counting:
    """Clients that count together in one node, while everything goes wrong."""

    def __init__(self, world: World, ensemble: SimEnsemble) -> None:
        self._ensemble = ensemble
        self._chance = world.random("counting")
        self.seen: Counter[str] = Counter()
        self.value = 0

    async def run(self) -> None:
        session, _ = await opened(self._ensemble, "setup")
        await session.create("/count", b"0")
        harming = asyncio.ensure_future(self._harm())
        counting = [asyncio.ensure_future(self._count(name)) for name in NAMES]
        await asyncio.sleep(30)
        harming.cancel()
        self._heal()
        await asyncio.gather(*counting)
        await session.sync()
        node = await session.read("/count")
        self.value = int(node.data)
        assert node.stat.version == self.value

    async def _count(self, name: str) -> None:
        while self.seen[name] < STEPS:
            try:
                session, _ = await opened(self._ensemble, name)
                await session.sync()
                await self._count_in(session, name)
                await session.close()
            except (ConnectionTimedOut, SessionExpired) as error:
                self.seen[type(error).__name__] += 1

    async def _count_in(self, session: ZooKeeperSession, name: str) -> None:
        while self.seen[name] < STEPS:
            await asyncio.sleep(self._chance.expovariate(100))
            self.seen[name] += 1
            watch = Calls()
            node = await session.read("/count", watch)
            try:
                await session.set_data("/count", b"%d" % (int(node.data) + 1), node.stat.version)
            except (BadVersion, UnknownOutcome) as error:
                self.seen[type(error).__name__] += 1
            else:
                self.seen["counted"] += 1
                assert watch.count == 1, "a newer result came before the watch"

    async def _harm(self) -> None:
        ensemble, chance = self._ensemble, self._chance
        of_clients = [ensemble.lose_connection, ensemble.expire, ensemble.lag, ensemble.cut]
        while True:
            await asyncio.sleep(chance.expovariate(10))
            if chance.random() < 0.8:
                chance.choice(of_clients)(chance.choice(NAMES))
            else:
                ensemble.stop()
            await asyncio.sleep(chance.expovariate(5))
            self._heal()

    def _heal(self) -> None:
        if not self._ensemble.is_running:
            self._ensemble.start()
        self._ensemble.catch_up()
        for name in NAMES:
            self._ensemble.heal(name)


def test_what_was_acknowledged_is_there_whatever_happens():
    total: Counter[str] = Counter()
    for seed in SEEDS:
        with World(seed) as world:
            counting = Counting(world, SimEnsemble(world))
            world.run(counting.run(), limit_s=1_000)
            counted, unknown = counting.seen["counted"], counting.seen["UnknownOutcome"]
            assert counted <= counting.value <= counted + unknown
            total += counting.seen
    assert {"BadVersion", "UnknownOutcome", "SessionExpired"} <= set(total)


def test_a_seed_gives_the_same_run_again():
    def digest(seed: int) -> str:
        with World(seed) as world:
            world.run(Counting(world, SimEnsemble(world)).run(), limit_s=1_000)
            return world.trace.digest()

    assert digest(1) == digest(1) != digest(2)
