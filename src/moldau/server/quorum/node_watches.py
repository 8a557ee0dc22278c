"""Notices at once that the process of another voter is gone, for an election that need not wait.

Each voter's listener is watched by a quiet connection. That its process is gone is told once, and
again only if it was there in between. It is told on good evidence alone: the connection has ended
and the port refuses others. Silence is for the time-outs of the quorum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from moldau.base.network import Address, Network
from moldau.base.tuples import NamedTuple
from moldau.cluster.raft.voters import NodeId
from moldau.server.nodes.process_watch import ProcessWatch, Sign


class _Watched(NamedTuple):
    address: Address
    watch: ProcessWatch


class NodeWatches:
    """The watches of one node. Owned by the event loop's thread."""

    def __init__(self, own: NodeId, network: Network, gone: Callable[[NodeId], None]) -> None:
        """`gone` is told which node's process has ended; it must not raise."""
        self._own = own
        self._network = network
        self._gone = gone
        self._watched: dict[NodeId, _Watched] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def follow(self, voters: Mapping[NodeId, Address]) -> None:
        """Watch these nodes from now on, without this one, and no others."""
        others = {node: address for node, address in voters.items() if node != self._own}
        for node, watched in tuple(self._watched.items()):
            if others.get(node) != watched.address:
                self._end(node)
        for node, address in others.items():
            if node not in self._watched:
                watch = ProcessWatch(self._network, address, partial(self._noticed, node))
                self._watched[node] = _Watched(address, watch)

    def _noticed(self, node: NodeId) -> None:
        # A watch that is being ended still says that its connection is lost, and nothing after it.
        watched = self._watched.get(node)
        if watched is not None and watched.watch.sign is Sign.GONE:
            self._gone(node)

    def _end(self, node: NodeId) -> None:
        task = self._watched.pop(node).watch.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Watch nobody any more."""
        self.follow({})
        await asyncio.gather(*self._ending, return_exceptions=True)
