"""One life of a test broker: the real broker on this machine's ports, in an event loop of its own.

The loop runs in a thread, so a test may block as it likes. A life ends in order (`stop`) or as
`kill -9` ends it (`kill`): nothing more is written, connections break, the mark of a clean stop is
missing, and the next life has to recover.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable, Mapping
from typing import Any

from moldau.base.clock import SystemClock, system_random
from moldau.base.memory_budget import MemoryBudget
from moldau.base.network import Accept, Address, Listener, Stream
from moldau.engine.portal import Portal
from moldau.server.broker import Broker
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports
from moldau.server.stores import node_store
from moldau.server.workers.executor import PoolExecutor
from moldau.testing.disk import Killed, MortalDisk
from moldau.transport.sockets import SocketNetwork


class _Network(SocketNetwork):
    """This machine's network, which knows what it has opened, and can be cut from other ports."""

    def __init__(self, executor: PoolExecutor, memory: MemoryBudget) -> None:
        super().__init__(executor, memory=memory)
        self._listeners: list[Listener] = []
        self._streams: list[tuple[int, Stream]] = []
        """Those that were opened from here, with the ports at the other end."""
        self._cut: frozenset[int] = frozenset()

    async def listen(self, host: str, port: int, accept: Accept) -> Listener:
        listener = await super().listen(host, port, accept)
        self._listeners.append(listener)
        return listener

    async def connect(self, host: str, port: int, receiver: Accept) -> Stream:
        if port in self._cut:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "cut off by the test")
        stream = await super().connect(host, port, receiver)
        if port in self._cut:  # meanwhile
            stream.abort()
        self._streams.append((port, stream))
        return stream

    def cut(self, ports: frozenset[int]) -> None:
        """Reach none of these ports from now on; connections to them break."""
        self._cut = ports
        for port, stream in self._streams:
            if port in ports:
                stream.abort()
        self._streams = [(port, stream) for port, stream in self._streams if port not in ports]

    def close_all(self) -> None:
        """Close the ports that are listened on, and break what was opened from here."""
        for listener in self._listeners:
            listener.close()
        for _, stream in self._streams:
            stream.abort()


class BrokerLife:
    """A broker that serves from its making until `stop` or `kill`; UserError if it cannot."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        resolved = BrokerSettings.load(None, settings, strict=True)
        self._portal = Portal("test-broker")
        self._portal.loop.set_exception_handler(_report)
        self._executor = PoolExecutor()
        self._disk = MortalDisk()
        self._memory = resolved.memory_budget()
        self._network = _Network(self._executor, self._memory)
        try:
            self._broker = self._portal.call(self._start(resolved))
        except BaseException:
            self._portal.close()
            raise

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._broker.addresses[0]

    @property
    def controller_address(self) -> Address:
        """Where other nodes reach its controller; only a voter has one."""
        return self._broker.controller_addresses[0]

    def cut_off(self, ports: Iterable[int]) -> None:
        """Reach none of these ports of other brokers from now on."""
        self._portal.loop.call_soon_threadsafe(self._network.cut, frozenset(ports))

    async def _start(self, settings: BrokerSettings) -> Broker:
        ports = Ports(
            clock=SystemClock(),
            random=system_random(),
            files=self._disk,
            network=self._network,
            executor=self._executor,
            cleaner=self._executor,
            make_store=node_store,
            memory=self._memory,
        )
        broker = Broker(settings, ports)
        try:
            await broker.start()
        except BaseException:
            await broker.stop()
            await self._executor.close()
            raise
        return broker

    def stop(self) -> None:
        """End in order; what is under way is finished."""
        try:
            self._portal.call(self._stop())
        finally:
            self._portal.close()

    async def _stop(self) -> None:
        await self._broker.stop()
        await self._executor.close()

    def kill(self) -> None:
        """End as a process does that is killed: what was written stays, all else is gone."""
        try:
            self._portal.call(self._die())
        finally:
            self._portal.close()

    async def _die(self) -> None:
        self._disk.kill()
        self._network.close_all()
        self._broker.abort_connections()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await self._executor.close()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what nobody handled, except that a killed broker was one."""
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)
