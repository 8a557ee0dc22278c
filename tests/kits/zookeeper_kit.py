"""ZooKeeper for tests of what stands on its port: a real server and the simulated ensemble.

Both have the same faults by the same names. Of the real one they are made by a TCP proxy before
each client, and by a second client that takes a session over and closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from kazoo.client import KazooClient

from kits.tcp_proxy import TcpProxy
from moldau.cluster.zookeeper.client.connect_string import parse_connect_string
from moldau.cluster.zookeeper.client.kazoo_session import (
    KazooSession,
    KazooZooKeeper,
    ZooKeeperSettings,
)
from moldau.cluster.zookeeper.client.port import SessionState, ZooKeeperSession
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper

T = TypeVar("T")

SESSION_TIMEOUT_S = 8.0
"""Within what the harness's server grants."""

_PAUSE_S = 0.01


class States:
    """The states that a session has told."""

    def __init__(self) -> None:
        self.told: list[SessionState] = []

    def __call__(self, state: SessionState) -> None:
        self.told.append(state)

    async def until(self, state: SessionState) -> None:
        """Wait until the newest state is this one."""
        await until(lambda: self.told[-1:] == [state])


class Calls:
    """A watch that counts how often it was called."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1

    async def until_called(self) -> None:
        await until(lambda: self.count)


async def begun(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin a call before anything that is begun later; the simulation shuffles tasks."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    return task


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds; the test has a deadline."""
    while not condition():  # noqa: ASYNC110 - what is waited for sets no event
        await asyncio.sleep(_PAUSE_S)


async def until_true(look: Callable[[], Awaitable[object]]) -> None:
    """Ask again and again until the answer is true."""
    while not await look():  # noqa: ASYNC110 - the answer comes from a server
        await asyncio.sleep(_PAUSE_S)


class ZooKeeperBench(Protocol):
    """An ensemble, its clients by name, and what can happen to them."""

    async def open(self, name: str, chroot: str = "") -> tuple[ZooKeeperSession, States]: ...

    def lose_connection(self, name: str) -> None:
        """Reset the connection of a client; requests that have not arrived are lost."""

    def cut(self, name: str, *, requests: bool = True, answers: bool = True) -> None:
        """Hold what a client sends, what it is sent, or both, also on new connections."""

    def heal(self, name: str) -> None: ...

    async def expire(self, name: str) -> None:
        """End the session of a client at the servers, and let the client find out."""


class KazooBench:
    """A real server, through kazoo; each bench has a chroot of its own."""

    def __init__(self, port: int, chroot: str) -> None:
        self._port = port
        self._chroot = chroot
        self._proxies: dict[str, TcpProxy] = {}
        self._ports: dict[str, int] = {}
        self._identities: dict[str, tuple[int, bytes]] = {}
        self._sessions: list[KazooSession] = []

    async def open(self, name: str, chroot: str = "") -> tuple[ZooKeeperSession, States]:
        if name not in self._proxies:
            self._proxies[name] = TcpProxy(self._port)
            self._ports[name] = await self._proxies[name].start()
        connect = parse_connect_string(f"127.0.0.1:{self._ports[name]}{self._chroot}{chroot}")
        states = States()
        zookeeper = KazooZooKeeper(ZooKeeperSettings(connect, session_timeout_s=SESSION_TIMEOUT_S))
        session = await zookeeper.open_session(states)
        self._identities[name] = session._client.client_id
        self._sessions.append(session)
        return session, states

    def lose_connection(self, name: str) -> None:
        self._proxies[name].reset()

    def cut(self, name: str, *, requests: bool = True, answers: bool = True) -> None:
        self._proxies[name].cut(requests=requests, answers=answers)

    def heal(self, name: str) -> None:
        self._proxies[name].heal()

    async def expire(self, name: str) -> None:
        await asyncio.to_thread(close_session, self._port, self._identities[name])
        self._proxies[name].reset()

    async def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.heal()
        for session in self._sessions:
            await session.close()
        for proxy in self._proxies.values():
            await proxy.close()


def close_session(port: int, identity: tuple[int, bytes]) -> None:
    """Take a session over by its id and password, and close it."""
    client = KazooClient(f"127.0.0.1:{port}", client_id=identity, timeout=SESSION_TIMEOUT_S)
    client.start()
    client.stop()
    client.close()


class SimBench:
    """The simulated ensemble."""

    def __init__(self, ensemble: SimEnsemble) -> None:
        self.ensemble = ensemble

    async def open(self, name: str, chroot: str = "") -> tuple[ZooKeeperSession, States]:
        states = States()
        zookeeper = SimZooKeeper(
            self.ensemble, name, chroot=chroot, session_timeout_s=SESSION_TIMEOUT_S
        )
        return await zookeeper.open_session(states), states

    def lose_connection(self, name: str) -> None:
        self.ensemble.lose_connection(name, arriving=False)

    def cut(self, name: str, *, requests: bool = True, answers: bool = True) -> None:
        self.ensemble.cut(name, requests=requests, answers=answers)

    def heal(self, name: str) -> None:
        self.ensemble.heal(name)

    async def expire(self, name: str) -> None:
        self.ensemble.expire(name)
