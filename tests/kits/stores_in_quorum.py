"""The stores of several voters, without brokers around them, and the ways between them.

What one asks another goes straight to the other's node after a drawn time; bytes are read from its
files as a connection would send them. Three more voters take no part but in votes and commits, so
that there is a majority whatever a test does with its own stores.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

from moldau.base.executor import Executor
from moldau.base.files import Files
from moldau.base.ids import BrokerId
from moldau.cluster.formatting import identify_directories
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.kraft.fetched_batches import fetched_batches
from moldau.cluster.kraft.node import ServedAnswer
from moldau.cluster.kraft.own_node import LogSettings, OwnNode
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.kraft.tenure import Tenure
from moldau.cluster.raft.requests import (
    FetchAnswer,
    FetchSnapshotAnswer,
    QuorumAnswer,
    SentRequest,
    VoteRequest,
)
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshotting import SnapshotPace
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.world import World

CLUSTER_ID = "a-cluster-of-22-chars-"
FOLDER = "/data"
FETCH_BYTES = 1 << 20
MEAN_DELAY_S = 0.002
ARBITERS = (5, 6, 7)
ALL_VOTERS = (1, 2, 3, 4, *ARBITERS)
LOG = LogSettings(SnapshotPace(), MetadataRetention())


def static_voters(*nodes: int) -> VoterSet:
    return VoterSet(tuple(Voter(ReplicaKey(NodeId(node))) for node in nodes))


def format_disk(files: Files, node_id: int, folder: str = FOLDER) -> None:
    """Prepare an empty disk; one that was prepared before stays as it is."""
    dice = random.Random(node_id)
    identify_directories(files, [folder], folder, node_id, dice, 0, CLUSTER_ID)


def quorum_store(
    files: Files,
    node_id: int,
    voters: VoterSet,
    peers: Any,
    world: Any,
    executor: Executor | None = None,
    folder: str = FOLDER,
    log: LogSettings = LOG,
    timeouts: Timeouts | None = None,
) -> RaftStore:
    """Make the store of one node; `world` gives its clock."""
    is_voting = voters.has_node(NodeId(node_id))
    own = OwnNode(BrokerId(node_id), (folder,), folder, voters, is_voting=is_voting)
    dice = random.Random(node_id)
    times = timeouts or Timeouts()
    return RaftStore(own, files, world.clock, dice, peers, times, log, executor)


class DirectPeers:
    """The way from one node to all others of the same process."""

    def __init__(self, quorum: StoresInQuorum, own: int) -> None:
        self._quorum = quorum
        self._own = own

    async def ask(self, to: NodeId | None, request: SentRequest) -> QuorumAnswer:
        quorum = self._quorum
        await quorum.delay()
        node = quorum.chance.choice(ALL_VOTERS) if to is None else to
        store = quorum.stores.get(node)
        if store is None or quorum.is_lost(self._own, node, request):
            raise PeerUnavailable("nobody is there")
        asked = store.node.ask(request, FETCH_BYTES)
        await asyncio.wait((asked,))
        await quorum.delay()
        if asked.cancelled() or quorum.is_lost(node, self._own, request):
            raise PeerUnavailable("the answer is lost")
        return await _received(asked.result())

    def address(self, node: int) -> None:
        """Know none: nobody is connected to."""

    async def close(self) -> None:
        """End nothing: there is no connection."""


async def _received(served: ServedAnswer) -> QuorumAnswer:
    """Return an answer with the bytes that it names."""
    answer, region = served
    if region is None:
        return answer
    data = region.file.read(region.position, region.size)
    if isinstance(answer, FetchSnapshotAnswer):
        return replace(answer, data=data)
    assert isinstance(answer, FetchAnswer)
    return replace(answer, batches=await fetched_batches(data))


class StoresInQuorum:
    """All stores; those of a test are started by the test, the arbiters here."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.chance = world.random("quorum")
        self.stores: dict[int, RaftStore] = {}
        self.cut: set[int] = set()
        """Nodes that nobody hears."""
        self._candidate: int | None = None
        """The only one whose requests for votes arrive; None for all."""
        self._ended: set[Tenure] = set()
        """What others do not respect any more, though its holder may not have heard."""
        self._turn = asyncio.Lock()
        self._voters = static_voters(*ALL_VOTERS)

    async def delay(self) -> None:
        await asyncio.sleep(self._world.loop.delay_s(MEAN_DELAY_S))

    def is_lost(self, sender: int, receiver: int, request: SentRequest) -> bool:
        is_unwanted = isinstance(request, VoteRequest) and self._candidate not in {
            None,
            int(request.candidate.node),
        }
        return is_unwanted or not self.cut.isdisjoint((sender, receiver))

    def _new(self, node_id: int) -> RaftStore:
        disk = SimDisk(self._world.random(f"disk-{node_id}"))
        format_disk(disk, node_id)
        peers = DirectPeers(self, node_id)
        store = quorum_store(
            disk, node_id, self._voters, peers, self._world, SimExecutor(self._world)
        )
        self.stores[node_id] = store
        return store

    async def start_arbiters(self) -> None:
        for node_id in ARBITERS:
            await self._new(node_id).start()

    async def close_arbiters(self) -> None:
        for node_id in ARBITERS:
            await self.stores[node_id].close()

    def store(self, node_id: int) -> ClaimingStore:
        return ClaimingStore(self, self._new(node_id), node_id)

    def end_session(self, node_id: int) -> None:
        """Let all others believe that a node is gone: it hears of it by their votes."""
        self._candidate = None
        tenure = self.stores[node_id].tenure
        if tenure is not None:
            self._ended.add(tenure)
        for other, store in self.stores.items():
            if other != node_id:
                store.node.connection_reset(NodeId(node_id))

    async def claim(self, node_id: int) -> Tenure | None:
        """Let a node lead, unless another one is the controller."""
        async with self._turn:
            store = self.stores[node_id]
            try:
                while (granted := await store.claim()) is None:
                    if self._has_controller(node_id):
                        return None
                    self._make_way(node_id)
                    await asyncio.sleep(0.02)
            finally:
                self._candidate = None
            return granted

    def _has_controller(self, node_id: int) -> bool:
        """Tell whether another node is the controller in the newest epoch."""
        epoch = max(store.leader_epoch for store in self.stores.values())
        others = (store.tenure for one, store in self.stores.items() if one != node_id)
        return any(
            one is not None and one not in self._ended and one.epoch == epoch and not one.is_over
            for one in others
        )

    def _make_way(self, node_id: int) -> None:
        """Let a node be elected next, if its log allows it; else it has to follow somebody."""
        ends = {one: store.node.life.log.end for one, store in self.stores.items()}
        if ends[node_id] < max(ends.values()):
            self._candidate = None
            return
        self._candidate = node_id
        for one, store in self.stores.items():
            if one != node_id and store.leader_id == one:
                store.node.resign()


class ClaimingStore:
    """A store whose claim waits until its node leads, as contracts of the port expect it."""

    def __init__(self, quorum: StoresInQuorum, store: RaftStore, node_id: int) -> None:
        self._quorum = quorum
        self._store = store
        self._node_id = node_id

    async def claim(self) -> Tenure | None:
        return await self._quorum.claim(self._node_id)

    async def close(self) -> None:
        await self._store.close()
        self._quorum.stores.pop(self._node_id, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
