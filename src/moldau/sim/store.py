"""The metadata store port for several brokers, on virtual time and in memory.

`SharedMetadata` is what an ensemble or a quorum would keep: the changes in order, and who is the
controller. A `SimStore` is one broker's view of it. It hears of changes some time after they were
made, by a drawn delay, so brokers are at different versions; the order is the same for all.

`SharedMetadata` is what decides and is never wrong. A store may be: it may hold a controllership
that is over and not know it. That is what fencing is for.

    shared = SharedMetadata(world)
    first, second = shared.store(1), shared.store(2)
    controllership = await first.claim()      # await second.claim() is None
    shared.end_session(1)                     # second may claim; first hears of it later
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from moldau.base.checks import invariant
from moldau.base.errors import MoldauError
from moldau.base.ids import BrokerId
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.listeners import Listeners
from moldau.cluster.store import ControllerFenced, Listener, StoreFailed, VersionConflict
from moldau.sim.world import World

REQUEST_MEAN_S: Final = 0.002
"""How long a request takes to reach what all share."""

NOTICE_MEAN_S: Final = 0.01
"""How long news takes to reach a broker that did not ask for it."""


class SharedMetadata:
    """What the stores of all brokers have in common."""

    def __init__(self, world: World, cluster_id: str = "simulated-cluster-id") -> None:
        self.loop = world.loop
        self.image = MetadataImage(cluster_id=cluster_id)
        self._epoch = 0
        self._controllership: SimControllership | None = None
        self._followers: list[SimStore] = []

    def store(self, broker_id: BrokerId) -> SimStore:
        """Make the store of one broker; it has to be started."""
        return SimStore(self, broker_id)

    def write(self, changes: Sequence[Change]) -> int:
        """Change something without being the controller, as old tools write into ZooKeeper."""
        version = self.image.version + len(changes)
        invariant(version > self.image.version, "a write without changes")
        self.image = self.image.apply(changes, version)
        for store in self._followers:
            store.expect(changes, self.image)
        return version

    def end_session(self, broker_id: BrokerId) -> None:
        """Take the controllership from a broker that has it; it will hear of that some time."""
        ended = self._controllership
        if ended is not None and ended.broker_id == broker_id:
            self._controllership = None
            self.loop.call_later(self.loop.delay_s(NOTICE_MEAN_S), ended.lose)

    # What stores do

    def follow(self, store: SimStore) -> MetadataImage:
        """Let a store hear of all changes after the image that is returned."""
        self._followers.append(store)
        return self.image

    def leave(self, store: SimStore) -> None:
        """Forget a store that is closed; its controllership is free."""
        self._followers.remove(store)
        if self._controllership is not None and self._controllership.store is store:
            self._controllership = None

    def claim(self, store: SimStore) -> SimControllership | None:
        """Grant the controllership unless another store has it."""
        if self._controllership is None:
            self._epoch += 1
            self._controllership = SimControllership(store, self._epoch)
        return self._controllership if self._controllership.store is store else None

    def commit(
        self, controllership: SimControllership, expected_version: int, changes: Sequence[Change]
    ) -> int:
        """Write changes for the controller; nobody else gets in between."""
        if controllership is not self._controllership:
            raise ControllerFenced(controllership.epoch)
        invariant(controllership.epoch == self._epoch, "an old controllership is in force")
        if expected_version != self.image.version:
            raise VersionConflict(expected_version, self.image.version)
        return self.write(changes) if changes else expected_version


class SimControllership:
    """One store's right to commit, or what it still takes for that."""

    def __init__(self, store: SimStore, epoch: int) -> None:
        self.store = store
        self.broker_id = store.broker_id
        self.epoch = epoch
        self._lost = False
        self._callbacks: list[Callable[[], None]] = []

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        return await self.store.commit(self, expected_version, tuple(changes))

    def on_lost(self, callback: Callable[[], None]) -> None:
        if self._lost:
            callback()
        else:
            self._callbacks.append(callback)

    def lose(self) -> None:
        """Tell the holder, the first time only."""
        self._lost = True
        callbacks, self._callbacks = self._callbacks, []
        if self.store.is_open:
            for callback in callbacks:
                callback()


class SimStore:
    """A `MetadataStore` of one broker among several."""

    def __init__(self, shared: SharedMetadata, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.is_open = False
        self._shared = shared
        self._listeners = Listeners()
        self._image = MetadataImage()
        self._held: SimControllership | None = None
        """What this broker was granted last, whether or not it is over."""
        self._coming: deque[tuple[Sequence[Change], MetadataImage]] = deque()
        """Changes on their way to this broker, in order."""

    @property
    def image(self) -> MetadataImage:
        return self._image

    async def start(self, log_directories: Sequence[str] | None = None) -> None:
        del log_directories  # nothing of it lies on a disk
        await self._request()
        self._image = self._shared.follow(self)
        self.is_open = True

    async def caught_up(self) -> None:
        """Return at once: the image was taken at the start."""

    def on_failed(self, callback: Callable[[MoldauError], None]) -> None:
        """Never call."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.subscribe(listener)

    async def claim(self) -> SimControllership | None:
        await self._request()
        self._check_open()
        granted = self._shared.claim(self)
        if granted is None:
            return None
        if self._held is not None and self._held is not granted:
            # Nobody may believe to hold two: that the old one is over comes before the new one.
            self._held.lose()
        self._held = granted
        self._catch_up()
        return granted

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._coming.clear()
            self._shared.leave(self)

    async def commit(
        self, controllership: SimControllership, expected_version: int, changes: Sequence[Change]
    ) -> int:
        """Commit for the holder of a controllership."""
        self._check_open()
        await self._request()
        self._check_open()
        try:
            version = self._shared.commit(controllership, expected_version, changes)
        except ControllerFenced:
            controllership.lose()
            raise
        except VersionConflict:
            self._catch_up()
            raise
        self._catch_up()
        return version

    def expect(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Hear of changes after a while."""
        self._coming.append((changes, image))
        loop = self._shared.loop
        # Each delay is drawn anew, yet each timer takes the oldest: late, but never out of order.
        loop.call_later(loop.delay_s(NOTICE_MEAN_S), self._take_next)

    def _take_next(self) -> None:
        if self._coming:
            changes, image = self._coming.popleft()
            invariant(image.version > self._image.version, "changes came twice or out of order")
            self._image = image
            self._listeners.tell(changes, image)

    def _catch_up(self) -> None:
        while self._coming:
            self._take_next()

    def _check_open(self) -> None:
        if not self.is_open:
            raise StoreFailed("the metadata store is not open")

    async def _request(self) -> None:
        await asyncio.sleep(self._shared.loop.delay_s(REQUEST_MEAN_S))
