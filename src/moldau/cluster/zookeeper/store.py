"""The metadata store of a broker whose cluster keeps its metadata in ZooKeeper.

Every broker has one. It owns the broker's sessions, the watch on `/controller`, and the image. An
image comes from one of two sides: while this broker is the controller, from its own tenure, which
reads the tree and commits to it; otherwise from the updates of the controller (`take_update`).

At the start the tree is read once, so that logs can be loaded with their configs. That image is no
state of the history yet: the first update, or the first tenure, takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

from moldau.base.clock import Clock, Random
from moldau.base.errors import MoldauError, UserError
from moldau.base.files import Files
from moldau.base.ids import BrokerId, random_uuid, uuid_text
from moldau.cluster.changes import Change
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.formatting import FIRST_FEATURES, ClusterIdentity, identify_directories
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import difference_in_pieces
from moldau.cluster.in_turns import in_turns
from moldau.cluster.store import ControllerFenced, Listener, StoreFailed
from moldau.cluster.zookeeper.client.port import (
    NodeExists,
    RequestRefused,
    SessionExpired,
    UnknownOutcome,
    ZooKeeper,
    ZooKeeperError,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.commands.fencing import CommandFence
from moldau.cluster.zookeeper.election import NOBODY_KNOWN, current_controller, win_seat
from moldau.cluster.zookeeper.eviction import free_seat, remove_unheld_seat
from moldau.cluster.zookeeper.history import History
from moldau.cluster.zookeeper.lives import Lives
from moldau.cluster.zookeeper.moved_tree import refuse_moved
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.cluster_nodes import decode_cluster_id, encode_cluster_id
from moldau.cluster.zookeeper.nodes.controller_nodes import decode_controller_epoch
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.tree_image import read_tree
from moldau.cluster.zookeeper.roots import create_roots, missing_roots
from moldau.cluster.zookeeper.tenure import Tenure
from moldau.cluster.zookeeper.tree_following import TreeFollowing
from moldau.cluster.zookeeper.tree_reader import TreeReader

logger = logging.getLogger(__name__)

DEFERENCE_S: Final = 3.0
"""How long a broker that knows less than others lets them run for a free seat."""

EPOCH_PATIENCE_S: Final = 2.0
"""How long a command of a new controller may wait for ZooKeeper to confirm its election."""


class ZooKeeperStore:
    """A `MetadataStore` on ZooKeeper, for one broker. Owned by the event loop's thread."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        files: Files,
        log_directories: Sequence[str],
        broker_id: BrokerId,
        clock: Clock,
        random: Random,
        *,
        min_insync_replicas: int = 1,
    ) -> None:
        self.lives = Lives(zookeeper)
        self._files = files
        self._log_directories = tuple(log_directories)
        self._broker_id = broker_id
        self._clock = clock
        self._random = random
        self._minimum = ClusterMinimum(min_insync_replicas)
        self._history = History()
        self._identity: ClusterIdentity | None = None
        self._tenure: Tenure | None = None
        self._following: TreeFollowing | None = None
        self._following_task: asyncio.Task[None] | None = None
        self._controller_id = -1
        self.fence = CommandFence()
        """The newest controller that was heard of; this broker itself while it is that."""
        self.unreadable_topics: frozenset[str] = frozenset()
        """Topics that the start could not read. Their logs are kept until somebody repairs them."""
        self._complaint = ""
        """Why no controller could be elected when that was said last."""
        self._seat_changed = asyncio.Event()
        self._seat_changed.set()
        self._is_closed = False
        self.lives.on_ended = self._life_ended
        self.on_new_life: Callable[[], None] = lambda: None
        """Called when there is a session again after one that expired: register anew."""
        self.lives.on_begun = self._life_begun

    # What every broker follows

    @property
    def image(self) -> MetadataImage:
        return self._history.image

    @property
    def identity(self) -> ClusterIdentity:
        """Cluster id, node id and the ids of the log directories; known once started."""
        if self._identity is None:
            raise StoreFailed("the metadata store has not been started")
        return self._identity

    @property
    def leader_id(self) -> int:
        """The broker that is the controller, as far as is known; -1 while nobody is."""
        return self._controller_id

    @property
    def has_heard_leader(self) -> bool:
        """Whether ZooKeeper names a controller."""
        return self._controller_id >= 0

    @property
    def leader_epoch(self) -> int:
        """The newest controller epoch that is known here."""
        return self.fence.controller_epoch

    @property
    def kraft_version(self) -> int:
        """0: there is no quorum."""
        return 0

    @property
    def metadata_directory_id(self) -> bytes:
        """The id of the first log directory: the metadata has none of its own."""
        return self.identity.metadata_directory_id

    async def start(self, log_directories: Sequence[str] | None = None) -> None:
        if log_directories is not None:
            self._log_directories = tuple(log_directories)
        try:
            await self.lives.begin()
            session = self.lives.session
            await refuse_moved(session)
            await self.create_roots()
            cluster_id = await self._agree_on_cluster(session)
            self._identity = identify_directories(
                self._files,
                self._log_directories,
                self._log_directories[0],
                self._broker_id,
                self._random,
                self._clock.wall_ms(),
                cluster_id,
                founds_cluster=False,
                on_zookeeper=True,
            )
            nodes = await TreeReader(session).read_tree()
        except (ZooKeeperError, MalformedNode) as error:
            raise UserError(f"cannot read the metadata in ZooKeeper: {error}") from error
        reading = await in_turns(read_tree(nodes, 0))
        self._history.image = reading.image
        owners = (paths.topic_of(one.path) for one in reading.refused)
        self.unreadable_topics = frozenset(one for one in owners if one is not None)

    async def _agree_on_cluster(self, session: ZooKeeperSession) -> str:
        """Return the id of the cluster; the first broker draws it."""
        reader = TreeReader(session)
        while True:
            node = await reader.read(paths.CLUSTER_ID)
            if node is not None:
                return decode_cluster_id(node.data)
            drawn = uuid_text(random_uuid(self._random))
            with contextlib.suppress(NodeExists, UnknownOutcome):
                await session.create(paths.CLUSTER_ID, encode_cluster_id(drawn))

    async def check_cluster(self) -> None:
        """Raise UserError if the tree is not that of this broker's cluster any more.

        The servers may have lost their data, or others may have their addresses. The topics of this
        cluster are not in such a tree: by its image the broker would delete all of its logs.
        """
        session, own_id = self.lives.session, self.identity.cluster_id
        await session.sync()
        await refuse_moved(session)
        node = await TreeReader(session).read(paths.CLUSTER_ID)
        try:
            cluster_id = "gone" if node is None else decode_cluster_id(node.data)
        except MalformedNode:
            return  # it names no other cluster
        if cluster_id != own_id:
            raise UserError(
                f"{paths.CLUSTER_ID} in ZooKeeper was {own_id}, and is {cluster_id} now: this"
                " broker stops and keeps its logs. Restore ZooKeeper's data, then start it again"
            )

    async def create_roots(self) -> None:
        """Create the nodes that every cluster has, with their parents, where they are missing."""
        await create_roots(self.lives.session)

    async def _restore_roots(self, session: ZooKeeperSession) -> None:
        """Create again what somebody has deleted: without it no controller can read the tree.

        Not the parent of all topics. Each topic would count as deleted, and so would its logs.
        """
        missing = await missing_roots(session)
        if not missing:
            return
        await self.check_cluster()
        if paths.TOPICS in missing and self.image.topics:
            problem = "it is gone, but topics are known: restore ZooKeeper's data"
            raise MalformedNode(paths.TOPICS, problem)
        logger.warning("nodes that every cluster has are created again: %s", ", ".join(missing))
        await create_roots(session)

    async def caught_up(self) -> None:
        """Return at once: the start has read the tree."""

    def on_failed(self, callback: Callable[[MoldauError], None]) -> None:
        """Never call: a session that is lost is opened again."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._history.listeners.subscribe(listener)

    async def close(self) -> None:
        self._is_closed = True
        self._seat_changed.set()
        await self._end_following()
        if self._tenure is not None:
            await self._tenure.close()
            self._tenure = None
        await self.lives.close()

    # Following the controller

    def heard_of_controller(self) -> None:
        """Follow the controller that the fence knows; an own tenure before it is over."""
        if self._tenure is not None and self._tenure.epoch < self.fence.controller_epoch:
            self._tenure.end()
        if not self.is_controller:
            self._controller_id = self.fence.controller_id

    async def newest_elected_epoch(self) -> int | None:
        """Return the epoch of the newest controller; None if ZooKeeper does not tell now."""
        if not self.lives.is_connected:
            return None
        try:
            async with asyncio.timeout(EPOCH_PATIENCE_S):
                session = self.lives.session
                await session.sync()
                return decode_controller_epoch((await session.read(paths.CONTROLLER_EPOCH)).data)
        except (TimeoutError, StoreFailed, ZooKeeperError, MalformedNode) as error:
            logger.debug("the epoch of the newest controller is not known: %s", error)
            return None

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._tenure is not None and not self._tenure.is_over

    def take_step(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Take a step of the history that the controller has told."""
        self._history.advance(changes, image)

    # Being the controller

    async def seat_free(self) -> None:
        """Return when this broker, which is registered, should try to become the controller.

        A seat that has its id is that of an earlier life, and is freed.
        """
        while not self._is_closed:
            self._seat_changed.clear()
            try:
                controller = await current_controller(self.lives.session, self._seat_changed.set)
            except (StoreFailed, SessionExpired):
                await self._seat_changed.wait()  # the next session begins with it
                continue
            if controller is None:
                if await self._is_its_turn():
                    return
                continue
            if await self._free_seat_of_nobody(controller):
                continue
            if controller != NOBODY_KNOWN:  # else who was told last may be it still
                self._controller_id = controller
            await self._seat_changed.wait()

    async def _is_its_turn(self) -> bool:
        """Tell whether this broker may run for a free seat, or whether another one has taken it.

        One that could not read a topic lets the others run first. It would tell them that there is
        no such topic, and they would delete its logs. Who knows the topic repairs it.
        """
        if self.unreadable_topics <= self.image.topics.keys():
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEFERENCE_S):
                await self._seat_changed.wait()
                return False
        return True

    async def _free_seat_of_nobody(self, controller: BrokerId) -> bool:
        """Free a seat of an earlier life of this broker, or of no session; tell whether it was."""
        try:
            session = self.lives.session
            if controller == self._broker_id and await free_seat(session, controller):
                return True
            return await remove_unheld_seat(session)
        except (StoreFailed, SessionExpired):
            return False

    async def claim(self) -> Tenure | None:
        if self._is_closed:
            raise StoreFailed("the metadata store is closed")
        if self._tenure is not None and not self._tenure.is_over:
            return self._tenure
        await self._end_following()
        try:
            return await self._claim(self.lives.session)
        except UserError:
            if self._tenure is not None:
                self._tenure.resign()
            raise
        except MalformedNode as malformed:
            self._complain(f"no controller can be elected: {malformed}")
            return None
        except (StoreFailed, ControllerFenced, ZooKeeperError) as error:
            if isinstance(error, RequestRefused):
                self._complain(f"no controller can be elected: {error}")
            logger.debug("not elected: %s", error)
            if self._tenure is not None:
                self._tenure.resign()
            return None

    def _complain(self, problem: str) -> None:
        """Say what is wrong once: it is tried again ten times in a second."""
        if problem != self._complaint:
            self._complaint = problem
            logger.error("%s", problem)

    async def _claim(self, session: ZooKeeperSession) -> Tenure | None:
        await self._restore_roots(session)
        seat = await win_seat(
            session, self._broker_id, self._clock.wall_ms(), self.fence.controller_epoch
        )
        if seat is None:
            return None
        tenure = Tenure(session, seat, self._history)
        self._tenure = tenure
        await refuse_moved(session)
        # From now on no step of an earlier controller is taken: what is read below has them all.
        self.fence.hear_of(self._broker_id, seat.epoch)
        self._complaint = ""
        following = TreeFollowing(tenure)
        image = await following.begin(self.image)
        if image.cluster_id != self.identity.cluster_id:
            await self.check_cluster()
        changes = await _difference(self.image, image)
        if tenure.is_over:
            return None
        self._controller_id = self._broker_id
        self._history.advance(changes, image)
        self._following = following
        self._following_task = asyncio.ensure_future(following.run())
        if not image.features:
            await self._commit_first_changes(tenure)
        logger.info("broker %d is the controller, epoch %d", self._broker_id, seat.epoch)
        return tenure

    async def _commit_first_changes(self, tenure: Tenure) -> None:
        changes: list[Change] = list(FIRST_FEATURES)
        after = self.image.apply(changes, self.image.version)
        await tenure.commit(self.image.version, [*changes, *self._minimum.stated(after)])

    @property
    def tenure(self) -> Tenure | None:
        """This broker's time as the controller, if it is that; it may be over."""
        return self._tenure

    @property
    def following(self) -> TreeFollowing | None:
        """What tells the controller what others write; None unless this broker is it."""
        return self._following

    async def _end_following(self) -> None:
        task, self._following_task, self._following = self._following_task, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # Lives

    def _life_ended(self) -> None:
        if self._tenure is not None:
            self._tenure.end()
        self._controller_id = -1

    def _life_begun(self) -> None:
        self._seat_changed.set()
        self.on_new_life()


async def _difference(old: MetadataImage, new: MetadataImage) -> list[Change]:
    """Return what leads from one image to another; others have their turn in between."""
    changes: list[Change] = []
    for count, piece in enumerate(difference_in_pieces(old, new), 1):
        changes.extend(piece)
        if not count % 200:
            await asyncio.sleep(0)
    return changes
