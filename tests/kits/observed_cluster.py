"""A voter, the brokers that observe it, and the ways between them, in one process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from moldau.base.files import FileRegion
from moldau.cluster.embedded import EmbeddedStore
from moldau.cluster.metadata_feed import MetadataFeed
from moldau.cluster.metadata_source import SourceUnavailable
from moldau.cluster.observer import ObserverStore
from moldau.protocol.compiler import decode, encoder
from moldau.protocol.messages.data import FetchRequest, FetchResponse
from moldau.protocol.messages.raft import FetchSnapshotRequest, FetchSnapshotResponse

VOTER = 1
FETCH_VERSION = 18
SNAPSHOT_VERSION = 1


def wire(message: Any, version: int) -> Any:
    """Return a message as the other side reads it."""
    parts = encoder(type(message), version)(message)
    data = b"".join(
        part.file.read(part.position, part.size) if isinstance(part, FileRegion) else bytes(part)
        for part in parts
    )
    return decode(type(message), version, data)


class DirectSource:
    """Asks a feed in the same process, with every message encoded and decoded on its way."""

    def __init__(self, feed: Callable[[], MetadataFeed | None]) -> None:
        self._feed = feed
        self.fetches: list[FetchRequest] = []
        self.pieces: list[FetchSnapshotRequest] = []

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        self.fetches.append(request)
        answer = self._present().fetch(wire(request, FETCH_VERSION))
        if isinstance(answer, asyncio.Future):
            answer = await answer
        return wire(answer, FETCH_VERSION)

    async def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        self.pieces.append(request)
        await asyncio.sleep(0)
        answer = self._present().fetch_snapshot(wire(request, SNAPSHOT_VERSION))
        return wire(answer, SNAPSHOT_VERSION)

    async def close(self) -> None:
        """End nothing: there is no connection."""

    def _present(self) -> MetadataFeed:
        feed = self._feed()
        if feed is None:
            raise SourceUnavailable("nobody is there")
        return feed


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
            raise SourceUnavailable("the request is lost")
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
            raise SourceUnavailable("the answer is lost")
        return answer

    def _fault(self) -> bool:
        return self._chance.random() < self.faults


class ObservedCluster:
    """One voter that can be stopped and started, and observers on disks of their own."""

    def __init__(
        self, world: Any, disk: Any, voter_directory: str = "/voter", **settings: Any
    ) -> None:
        self.world = world
        self.disk = disk
        self._voter_directory = voter_directory
        self._settings = settings
        self.voter: EmbeddedStore | None = None
        self.feed: MetadataFeed | None = None
        self.source = DirectSource(lambda: self.feed)

    async def start_voter(self) -> EmbeddedStore:
        self.voter = EmbeddedStore(
            self.disk,
            [self._voter_directory],
            VOTER,
            self.world.clock,
            self.world.random("voter"),
            **self._settings,
        )
        await self.voter.start()
        self.feed = MetadataFeed(self.voter.log, self.world.clock)
        return self.voter

    async def stop_voter(self) -> None:
        feed, self.feed = self.feed, None
        await self.voter.close()
        feed.close()

    def new_observer(
        self, disk: Any, node_id: int = 2, directories: Any = ("/data",), **settings: Any
    ) -> ObserverStore:
        settings.setdefault("source", self.source)
        settings.setdefault("cluster_id", self.voter.identity.cluster_id)
        settings.setdefault("voters", (VOTER,))
        return ObserverStore(
            disk,
            directories,
            node_id,
            self.world.clock,
            self.world.random("observer"),
            **settings,
        )

    async def caught_up(self, observer: ObserverStore) -> None:
        """Wait until an observer has all that is committed now."""
        # No listener hears of a version without changes.
        while observer.image.version < self.voter.image.version:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
