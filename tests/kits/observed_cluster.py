"""A voter, the brokers that observe it, and the ways between them, in one process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kits.sole_voter import lead, sole_voter
from moldau.base.files import FileRegion
from moldau.cluster.formatting import identify_directories
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.kraft.fetched_batches import fetched_batches
from moldau.cluster.kraft.messages import answer_of, fetched_records, request_message
from moldau.cluster.kraft.own_node import LogSettings, OwnNode
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.raft.requests import FetchAnswer
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshotting import SNAPSHOT_AFTER_BYTES, SNAPSHOT_INTERVAL_S, SnapshotPace
from moldau.protocol.compiler import decode, encoder
from moldau.protocol.messages.data import FetchRequest, FetchResponse
from moldau.protocol.messages.raft import FetchSnapshotRequest, FetchSnapshotResponse
from moldau.server.handlers.raft import RaftHandlers

VOTER = 1
FETCH_VERSION = 18
SNAPSHOT_VERSION = 1
CONTEXT: Any = SimpleNamespace(session=SimpleNamespace(listener="CONTROLLER"))


def wire(message: Any, version: int) -> Any:
    """Return a message as the other side reads it."""
    parts = encoder(type(message), version)(message)
    data = b"".join(
        part.file.read(part.position, part.size) if isinstance(part, FileRegion) else bytes(part)
        for part in parts
    )
    return decode(type(message), version, data)


class DirectSource:
    """Asks a voter in the same process, with every message encoded and decoded on its way."""

    def __init__(self, handlers: Callable[[], RaftHandlers | None]) -> None:
        self._handlers = handlers
        self.fetches: list[FetchRequest] = []
        self.pieces: list[FetchSnapshotRequest] = []

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        self.fetches.append(request)
        return wire(await self._asked(wire(request, FETCH_VERSION)), FETCH_VERSION)

    async def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        self.pieces.append(request)
        return wire(await self._asked(wire(request, SNAPSHOT_VERSION)), SNAPSHOT_VERSION)

    async def _asked(self, request: FetchRequest | FetchSnapshotRequest) -> Any:
        handlers = self._handlers()
        if handlers is None:
            raise PeerUnavailable("nobody is there")
        answer = handlers.fetch(request, CONTEXT)
        if not isinstance(answer, asyncio.Future):
            return answer
        await asyncio.wait((answer,))
        if answer.cancelled():
            raise PeerUnavailable("the node has stopped")
        return answer.result()

    async def close(self) -> None:
        """End nothing: there is no connection."""


class FaultySource:
    """Takes its time, loses requests and answers, and gives old answers once more."""

    def __init__(self, source: DirectSource, chance: random.Random, faults: float = 0.3) -> None:
        self._source = source
        self._chance = chance
        self.faults = faults
        self._earlier: dict[str, list[Any]] = {"fetch": [], "fetch_snapshot": []}
        self._has_repeated = False
        """Old answers do not come twice in a row."""
        self.lost = self.repeated = 0

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        return await self._ask("fetch", self._source.fetch, request)

    async def close(self) -> None:
        """End nothing: there is no connection."""

    async def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        return await self._ask("fetch_snapshot", self._source.fetch_snapshot, request)

    async def _ask(self, kind: str, ask: Any, request: Any) -> Any:
        await asyncio.sleep(self._chance.random() / 50)
        if self._fault():
            self.lost += 1
            raise PeerUnavailable("the request is lost")
        if self._earlier[kind] and self._fault() and not self._has_repeated:
            self.repeated += 1
            self._has_repeated = True
            return self._chance.choice(self._earlier[kind])
        answer = await ask(request)
        self._has_repeated = False
        self._earlier[kind].append(answer)
        await asyncio.sleep(self._chance.random() / 50)
        if self._fault():
            self.lost += 1
            raise PeerUnavailable("the answer is lost")
        return answer

    def _fault(self) -> bool:
        return self._chance.random() < self.faults


class SourcePeers:
    """The way of an observer's node to a voter, over a source of messages."""

    def __init__(self, source: Any, node_id: int, fetch_bytes: int) -> None:
        self._source = source
        self._own = Voter(ReplicaKey(NodeId(node_id)))
        self._fetch_bytes = fetch_bytes

    async def ask(self, to: Any, request: Any) -> Any:
        del to  # there is one voter
        message = request_message(request, self._own, self._fetch_bytes)
        is_fetch = isinstance(message, FetchRequest)
        ask = self._source.fetch if is_fetch else self._source.fetch_snapshot
        response = await ask(message)
        answer = answer_of(request, response)
        if isinstance(answer, FetchAnswer) and not answer.error:
            return replace(answer, batches=await fetched_batches(fetched_records(response)))
        return answer

    def address(self, node: int) -> None:
        """Know none: nobody is connected to."""

    async def close(self) -> None:
        await self._source.close()


def observing_store(
    disk: Any,
    node_id: int,
    clock: Any,
    dice: Any,
    source: Any,
    *,
    directories: Any = ("/data",),
    cluster_id: str | None = None,
    voters: Any = (VOTER,),
    executor: Any = None,
    fetch_bytes: int = 1 << 20,
    snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    snapshot_interval_s: float = SNAPSHOT_INTERVAL_S,
    retention: MetadataRetention = MetadataRetention(),  # noqa: B008 - it never changes
) -> RaftStore:
    """Make a store, not started. Its folders are formatted for a cluster that is named."""
    if cluster_id is not None:
        place = (disk, directories, directories[0], node_id, dice, clock.wall_ms(), cluster_id)
        identify_directories(*place, founds_cluster=False)
    own = OwnNode(
        node_id,
        tuple(directories),
        directories[0],
        VoterSet(tuple(Voter(ReplicaKey(NodeId(one))) for one in voters)),
        is_voting=False,
        has_one_controller=True,
    )
    log = LogSettings(SnapshotPace(snapshot_after_bytes, snapshot_interval_s), retention)
    peers = SourcePeers(source, node_id, fetch_bytes)
    return RaftStore(own, disk, clock, dice, peers, Timeouts(), log, executor)


class ObservedCluster:
    """One voter that can be stopped and started, and observers on disks of their own."""

    def __init__(
        self, world: Any, disk: Any, voter_directory: str = "/voter", **settings: Any
    ) -> None:
        self.world = world
        self.disk = disk
        self._voter_directory = voter_directory
        self._settings = settings
        self.voter: RaftStore | None = None
        self.handlers: RaftHandlers | None = None
        """What serves the log; None while nobody is there."""
        self.source = DirectSource(lambda: self.handlers)

    async def start_voter(self) -> RaftStore:
        self.voter = sole_voter(
            self.disk,
            [self._voter_directory],
            VOTER,
            self.world.clock,
            self.world.random("voter"),
            **self._settings,
        )
        await lead(self.voter)
        self.handlers = RaftHandlers(self.voter.node, NodeId(VOTER))
        return self.voter

    async def stop_voter(self) -> None:
        self.handlers = None
        await self.voter.close()

    def new_observer(self, disk: Any, node_id: int = 2, **settings: Any) -> RaftStore:
        settings.setdefault("source", self.source)
        settings.setdefault("cluster_id", self.voter.identity.cluster_id)
        dice = self.world.random("observer")
        return observing_store(disk, node_id, self.world.clock, dice, **settings)

    async def caught_up(self, observer: RaftStore) -> None:
        """Wait until an observer has all that is committed now."""
        # No listener hears of a version without changes.
        while observer.image.version < self.voter.image.version:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
