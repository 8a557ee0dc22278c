"""The network port in memory: hosts, the links between them, and what happens to those.

Each pair of hosts has a link in each direction. A clogged link keeps what travels on it until it
is unclogged, which is how a silent partition looks to TCP: nothing is lost, nothing arrives, and
a new connection waits until it is given up. A process that crashes has its peers told by its
kernel (reset); a machine that goes silently tells nobody, and only when it is back does it refuse
what its peers still send.

    network = SimNetwork(world)
    broker = network.host("broker-1")       # give this to the broker as its network
    network.partition(["broker-1"], ["broker-2", "broker-3"])
    network.heal()
    network.crash("broker-1")
    broker = network.host("broker-1")       # up again, as a new process
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import functools
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from moldau.base.memory_budget import MemoryBudget
from moldau.base.network import Accept, Address
from moldau.sim.crashes import Crashed
from moldau.sim.loop import PROCESS
from moldau.sim.stream import SimStream
from moldau.sim.world import World

MEAN_DELAY_S = 0.0005
"""One way within a data centre."""

WINDOW_SIZE = 64 * 1024
"""Small for a socket buffer, so that runs of ordinary size meet its end."""

CHUNK_SIZE_MAX = 16 * 1024

CONNECT_TIMEOUT_S = 127.0
"""How long Linux tries to reach a machine that does not answer."""

FIRST_RETRY_S = 1.0
"""When Linux first tries again, waiting twice as long each time."""

FIRST_EPHEMERAL_PORT = 32_768

LOOPBACK = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0", "::", "::1"})  # noqa: S104


@dataclass(slots=True)
class _Link:
    """One direction between two hosts."""

    target: str
    clogged: bool = False
    held: list[Callable[[], None]] = field(default_factory=list)


class SimListener:
    """An open port of a simulated host."""

    def __init__(self, host: SimHost, address: Address, accept: Accept) -> None:
        self._host = host
        self.address = address
        self.accept = accept

    def close(self) -> None:
        if self._host.listeners.get(self.address.port) is self:
            del self._host.listeners[self.address.port]


class SimHost:
    """One process on one simulated machine, as the network sees it."""

    def __init__(self, network: SimNetwork, name: str) -> None:
        self._network = network
        self.name = name
        self.alive = True
        self.silent = False
        self.listeners: dict[int, SimListener] = {}
        self.streams: dict[SimStream, None] = {}
        self._next_port = FIRST_EPHEMERAL_PORT

    def _require_alive(self) -> None:
        if not self.alive:
            raise Crashed("a process that has ended used its network")

    def _ephemeral_port(self) -> int:
        self._next_port += 1
        return self._next_port - 1

    def call_soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    async def listen(self, host: str, port: int, accept: Accept) -> SimListener:
        self._require_alive()
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{host}:{port}")
        listener = SimListener(self, Address(host, port or self._ephemeral_port()), accept)
        self.listeners[listener.address.port] = listener
        return listener

    async def connect(self, host: str, port: int, receiver: Accept) -> SimStream:
        """Open a stream; a caller that is cancelled leaves none behind."""
        self._require_alive()
        target = self.name if host in LOOPBACK else host
        local = Address(self.name, self._ephemeral_port())
        stream = SimStream(self._network, local, Address(target, port))
        answer = self._network.call(stream)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await answer
            stream.start(receiver)
        except TimeoutError:
            stream.abort()
            raise TimeoutError(errno.ETIMEDOUT, f"no answer from {stream.peer}") from None
        except BaseException:
            stream.abort()
            raise
        return stream


WIRES: Final = "(wires)"
"""Whose what travels is. Whoever gets it is told within its own process."""


class SimNetwork:
    """All hosts of one run and the wires between them."""

    def __init__(
        self,
        world: World,
        *,
        mean_delay_s: float = MEAN_DELAY_S,
        window_size: int = WINDOW_SIZE,
        chunk_size_max: int = CHUNK_SIZE_MAX,
    ) -> None:
        self._loop = world.loop
        self._trace = world.trace
        self._context = contextvars.copy_context()
        """What travels is not its sender's: it arrives after that has ended."""
        self._context.run(PROCESS.set, WIRES)
        self.chance = world.random("network")
        self.memory = MemoryBudget()
        self.mean_delay_s = mean_delay_s
        self.window_size = window_size
        self.chunk_size_max = chunk_size_max
        """1 sends every byte on its own."""
        self.reset_chance = 0.0
        """How often a piece that arrives breaks its connection instead."""
        self._hosts: dict[str, SimHost] = {}
        self._links: dict[tuple[str, str], _Link] = {}
        self._paused: set[str] = set()
        self.refused: set[str] = set()
        """Hosts in whose name something on the way refuses new connections, as a firewall may."""
        self._answers: dict[SimStream, asyncio.Future[None]] = {}
        self._abandoned: dict[str, list[SimStream]] = {}

    # Hosts

    def host(self, name: str) -> SimHost:
        """The process running on this host, started if there is none."""
        host = self._hosts.get(name)
        if host is None or not host.alive:
            host = self._hosts[name] = SimHost(self, name)
            self._trace.note("host up", name)
            for stream in self._abandoned.pop(name, []):
                stream.refuse_peer()
        return host

    @property
    def hosts(self) -> list[str]:
        """The names of all hosts there ever were, oldest first."""
        return list(self._hosts)

    def is_up(self, host: str) -> bool:
        found = self._hosts.get(host)
        return found is not None and found.alive

    def crash(self, name: str, *, silent: bool = False) -> None:
        """End the process on a host, and with `silent` the machine below it as well."""
        host = self._hosts[name]
        self._trace.note("host down", name, "silent" if silent else "reset")
        self.resume(name)
        host.alive = False
        host.silent = silent
        host.listeners.clear()
        if silent:
            self._abandoned[name] = list(host.streams)
        for stream in list(host.streams):
            stream.vanish(silent=silent)
        host.streams.clear()

    # Links

    def clog(self, source: str, target: str) -> None:
        """Let nothing arrive in this direction until `unclog`."""
        self._trace.note("clog", source, target)
        self._link(source, target).clogged = True

    def unclog(self, source: str, target: str) -> None:
        """Let everything that was kept arrive."""
        self._trace.note("unclog", source, target)
        link = self._link(source, target)
        link.clogged = False
        if target not in self._paused:
            self._release(link)

    def set_aside(self, source: str, target: str) -> Callable[[], None]:
        """Unclog a link, but keep what it has held; return a function that lets that arrive.

        It is as if the packets of some connections took a way that is stuck, while new connections
        take another one. A connection that goes on keeps its order: what it sends next brings what
        was kept.
        """
        link = self._link(source, target)
        held, link.held = link.held, []
        self.unclog(source, target)
        return functools.partial(self._send_off, link, held)

    def _release(self, link: _Link) -> None:
        held, link.held = link.held, []
        self._send_off(link, held)

    def _send_off(self, link: _Link, held: list[Callable[[], None]]) -> None:
        for arrive in held:
            self._after_delay(link, arrive)

    def pause(self, host: str) -> None:
        """Keep what arrives at a host: its process is stopped and reads nothing."""
        self._trace.note("pause", host)
        self._paused.add(host)

    def resume(self, host: str) -> None:
        """Let a host's process read what came meanwhile."""
        if host not in self._paused:
            return
        self._trace.note("resume", host)
        self._paused.remove(host)
        for link in self._links.values():
            if link.target == host and not link.clogged:
                self._release(link)

    def partition(self, side: Iterable[str], other_side: Iterable[str]) -> None:
        """Clog every link between two groups of hosts, both ways."""
        others = list(other_side)
        for one in side:
            for other in others:
                self.clog(one, other)
                self.clog(other, one)

    def heal(self) -> None:
        """Unclog every link."""
        for (source, target), link in list(self._links.items()):
            if link.clogged:
                self.unclog(source, target)

    def reset(self, one: str, other: str) -> None:
        """Break every connection between two hosts, wherever in a frame it is."""
        self._trace.note("reset", one, other)
        for stream in list(self._streams_between(one, other)):
            stream.reset()

    def _streams_between(self, one: str, other: str) -> Iterator[SimStream]:
        host = self._hosts.get(one)
        if host is not None:
            yield from (stream for stream in host.streams if stream.peer.host == other)

    def _link(self, source: str, target: str) -> _Link:
        return self._links.setdefault((source, target), _Link(target))

    # What streams need

    def transmit(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        self._after_delay(self._link(source, target), arrive)

    def _after_delay(self, link: _Link, arrive: Callable[[], None]) -> None:
        delay_s = self.chance.expovariate(1 / self.mean_delay_s)
        self._loop.call_later(delay_s, self._arrive, link, arrive, context=self._context)

    def _arrive(self, link: _Link, arrive: Callable[[], None]) -> None:
        if link.clogged or link.target in self._paused:
            link.held.append(arrive)
        else:
            arrive()

    def later(self, act: Callable[[], None]) -> None:
        delay_s = self.chance.expovariate(1 / self.mean_delay_s)
        self._loop.call_later(delay_s, act, context=self._context)

    def soon(self, act: Callable[[], None]) -> None:
        self._loop.call_soon(act)

    def delivered(self, source: Address, target: Address, size: int) -> bool:
        self._trace.note("deliver", str(source), str(target), size)
        return not self.reset_chance or self.chance.random() >= self.reset_chance

    def ended(self, stream: SimStream) -> None:
        host = self._hosts.get(stream.local.host)
        if host is not None:
            host.streams.pop(stream, None)
        answer = self._answers.pop(stream, None)
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionResetError(errno.ECONNRESET, "reset while connecting"))

    # Connecting

    def call(self, stream: SimStream) -> asyncio.Future[None]:
        """Ask the peer for a connection; the future tells when it is there, or why it is not."""
        if stream.peer.host not in self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"no host {stream.peer.host}")
        answer: asyncio.Future[None] = self._loop.create_future()
        self._answers[stream] = answer
        self._hosts[stream.local.host].streams[stream] = None
        stream.join(SimStream(self, stream.peer, stream.local))
        stream.opened = functools.partial(_resolve, answer)
        self._knock(stream, answer, FIRST_RETRY_S)
        return answer

    def _knock(self, caller: SimStream, answer: asyncio.Future[None], retry_s: float) -> None:
        knocked = functools.partial(self._knocked, caller, answer, retry_s)
        self.transmit(caller.local.host, caller.peer.host, knocked)

    def _knocked(self, caller: SimStream, answer: asyncio.Future[None], retry_s: float) -> None:
        host = self._hosts[caller.peer.host]
        accepted = caller.other
        if accepted.over or caller.over:
            return
        if host.silent and not host.alive:
            knock = functools.partial(self._knock, caller, answer, retry_s * 2)
            self._loop.call_later(retry_s, knock, context=self._context)
            return
        listener = host.listeners.get(caller.peer.port)
        if listener is None or caller.peer.host in self.refused:
            refuse = functools.partial(_refuse, answer, caller.peer)
            self.transmit(caller.peer.host, caller.local.host, refuse)
            return
        self._trace.note("connect", str(caller.local), str(caller.peer))
        host.streams[accepted] = None
        accepted.announce()
        accepted.start(listener.accept)


def _resolve(answer: asyncio.Future[None]) -> None:
    if not answer.done():
        answer.set_result(None)


def _refuse(answer: asyncio.Future[None], peer: Address) -> None:
    if not answer.done():
        text = os.strerror(errno.ECONNREFUSED)
        answer.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, text, str(peer)))
