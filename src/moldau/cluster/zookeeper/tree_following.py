"""What others write into the tree, while this broker is the controller.

Brokers register, tools ask for something, tools of older Kafkas write topics and configs. A watch
says that a node may have changed; then it is read again. What the nodes say becomes a step of the
history; what is asked for, and who is alive, becomes an event for whoever carries out the
controller's duties.

A malformed node is left out with one line, and all others count. It is read again when somebody
repairs it. States of partitions are not watched otherwise, so one that is malformed gets a watch
until it can be read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from moldau.base.ids import BrokerId, PartitionKey, uuid_text
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import in_turns, paused
from moldau.cluster.zookeeper.client.port import (
    NodeError,
    NoNode,
    NotEmpty,
    RequestRefused,
    SessionExpired,
    UnknownOutcome,
    ZooKeeperError,
)
from moldau.cluster.zookeeper.events import BrokersSeen, DirectoryFailed, SeenBroker, TreeEvent
from moldau.cluster.zookeeper.history import first_version
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.config_nodes import (
    TOPICS,
    ConfigEntity,
    config_path,
    decode_config_change,
)
from moldau.cluster.zookeeper.nodes.log_dir_nodes import decode_log_dir_event
from moldau.cluster.zookeeper.nodes.node_changes import changed_node, registration_at
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.partition_list_nodes import decode_partitions
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PartitionsWanted,
    ToolRequest,
)
from moldau.cluster.zookeeper.nodes.topic_reading import (
    has_foreign_id,
    read_topic,
    states_to_read,
)
from moldau.cluster.zookeeper.nodes.tree_image import TreeReading, read_tree
from moldau.cluster.zookeeper.nodes.tree_repair import TreeRepair
from moldau.cluster.zookeeper.strays import stray_deletions
from moldau.cluster.zookeeper.tenure import Tenure
from moldau.cluster.zookeeper.tree_reader import WATCHED_PARENTS, TreeReader

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.1
"""Before a node is looked at again that could not be read."""

KEPT_MS: Final = 15 * 60 * 1000
"""How long notifications of changed configs stay; Kafka's number."""

GONE_S: Final = 3.0
"""How long a topic's node is gone before the topic counts as deleted by hand. Somebody may be
deleting the whole tree, and then no log of this cluster may be deleted."""

NOTIFICATIONS_AT_ONCE: Final = 100
"""Looked at in one turn, while commits wait."""

COMPLAINTS_MAX: Final = 10
"""About the notifications below one node, and about nodes that are written again."""


class TreeFollowing:
    """Follows the tree for one tenure. Owned by the event loop's thread."""

    def __init__(self, tenure: Tenure) -> None:
        self._tenure = tenure
        self._reader = TreeReader(tenure.session, self._changed)
        self._waiting: dict[str, None] = {}
        """Paths whose watch was called, in that order."""
        self._more = asyncio.Event()
        self._brokers_seen: BrokersSeen | None = None
        """The newest, unless it was taken: what was seen before counts no more."""
        self._events: deque[DirectoryFailed | ToolRequest] = deque()
        self._has_events = asyncio.Event()
        self._brokers: dict[BrokerId, SeenBroker] = {}
        self._told_deletions: set[str] = set()
        self._gone_topics: dict[str, float] = {}
        """Known topics without a node, and since when."""
        self._seen_notifications: dict[str, set[str]] = {}
        """By parent."""
        self._bad_notifications: dict[str, int] = {}
        """By parent, how many could not be read."""
        self._complaints: dict[str, str] = {}
        self._malformed_states: set[str] = set()
        """Those that have to be watched when they are looked at next."""

    def _changed(self, path: str) -> None:
        self._waiting[path] = None
        self._more.set()

    async def next_event(self) -> TreeEvent:
        """Wait for what the controller has to look at next.

        Brokers come first, then directories: partitions may be without a leader. Tools may have
        asked for the deletion of thousands of topics.
        """
        while True:
            event, self._brokers_seen = self._brokers_seen, None
            if event is not None:
                return event
            if self._events:
                return self._events.popleft()
            self._has_events.clear()
            await self._has_events.wait()

    def _tell(self, event: TreeEvent) -> None:
        if isinstance(event, BrokersSeen):
            self._brokers_seen = event
        elif isinstance(event, DirectoryFailed):
            self._events.appendleft(event)
        else:
            self._events.append(event)
        self._has_events.set()

    # The beginning

    async def begin(self, known: MetadataImage) -> MetadataImage:
        """Read the whole tree; return the image that this tenure begins with.

        What is known already takes the place of nodes that are malformed (`tree_repair`).
        """
        await self._look_at_seat()
        nodes = await self._reader.read_tree()
        await self._note_versions(nodes)
        async for path in paused(nodes):
            if paths.child(paths.BROKER_IDS, path) is not None:
                self._take_broker(path, nodes[path])
        for seen in self._brokers.values():
            if seen.may_lack_records:
                # It comes when that is decided on: nobody may have done so yet.
                del nodes[paths.broker(seen.broker.id)]
        reading = await self._read_repaired(nodes, known)
        self._tell(BrokersSeen(dict(self._brokers)))
        async for request in paused(reading.requests):
            self._take_requests([request])
        for parent in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
            self._changed(parent)
        # The configs that these tell of have just been read.
        changes = await self._reader.children(paths.CONFIG_CHANGES)
        self._seen_notifications[paths.CONFIG_CHANGES] = {
            f"{paths.CONFIG_CHANGES}/{name}" async for name in paused(changes)
        }
        return reading.image

    async def _read_repaired(
        self, nodes: dict[str, StoredNode], known: MetadataImage
    ) -> TreeReading:
        epoch, version = self._tenure.epoch, first_version(self._tenure.epoch)
        topics = known.topics.values()
        known_ids = {topic.name: topic.id async for topic in paused(topics)}
        repair = TreeRepair(nodes)
        async for name in paused(repair.unclear_topics(known)):
            parent = "" if name is None else paths.partitions(name)
            if parent and (copy := await self._reader.read(parent)) is not None:
                nodes[parent] = copy
        reading = await in_turns(read_tree(nodes, version, known_ids))
        repaired = repair.repair_topics(known, reading.image, reading.refused)
        for topic in await in_turns(repaired):
            states = range(len(topic.partitions))
            repair.nodes |= await self._reader.read_topic(topic.name, states)
        await in_turns(repair.repair_states(reading.image, epoch))
        await in_turns(repair.repair_others(known))
        for multi in repair.multis:
            await self._tenure.write(multi)
        for malformed in repair.refused[:COMPLAINTS_MAX]:
            logger.error("a node of ZooKeeper is written again, as it was known: %s", malformed)
        if len(repair.refused) > COMPLAINTS_MAX:
            more = len(repair.refused) - COMPLAINTS_MAX
            logger.error("%d more nodes of ZooKeeper are written again, as they were known", more)
        if repair.multis:
            reading = await in_turns(read_tree(repair.nodes, version, known_ids))
        for refused in reading.refused:
            self._complain(refused)
        return reading

    async def _note_versions(self, nodes: Mapping[str, StoredNode]) -> None:
        async for path in paused(nodes):
            if paths.state_owner(path) is None:
                self._tenure.versions[path] = nodes[path].version

    # Changes

    async def run(self) -> None:
        """Follow until the tenure is over."""
        while not self._tenure.is_over:
            await self._more.wait()
            self._more.clear()
            while self._waiting and not self._tenure.is_over:
                path = next(iter(self._waiting))
                del self._waiting[path]
                try:
                    async with self._tenure.turn:
                        await self._look_at(path)
                except MalformedNode as malformed:
                    self._complain(malformed)
                except SessionExpired:
                    self._tenure.end()
                    return
                except NoNode as error:
                    if error.path in (*WATCHED_PARENTS, paths.CLUSTER_ID):
                        # Who is elected next creates it again, if it can be, or stops.
                        logger.warning("%s, a new controller is elected", error)
                        self._tenure.resign()
                        return
                    await self._look_again(path, error)
                except (NodeError, UnknownOutcome) as error:
                    await self._look_again(path, error)
                except Exception:
                    logger.exception(
                        "a bug while %s was looked at, another controller may do", path
                    )
                    self._tenure.resign()
                    return

    async def _look_again(self, path: str, error: ZooKeeperError) -> None:
        """Do so later: it went while it was read, or nobody knows whether it was removed."""
        if isinstance(error, RequestRefused):
            self._say_once(error.path, str(error))
        logger.debug("%s is looked at again: %s", path, error)
        await asyncio.sleep(RETRY_S)
        self._changed(path)

    async def _look_at(self, path: str) -> None:
        if path == paths.CONTROLLER:
            await self._look_at_seat()
        elif path == paths.BROKER_IDS:
            await self._look_at_brokers()
        elif paths.child(paths.BROKER_IDS, path) is not None:
            await self._look_at_broker(path)
        elif path == paths.TOPICS:
            await self._look_at_topics()
        elif path == paths.DELETE_TOPICS:
            await self._look_at_deletions()
        elif paths.state_owner(path) is not None:
            await self._look_at_state(path)
        elif path in {paths.CONFIG_CHANGES, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS}:
            await self._look_at_notifications(path)
        else:
            node = await self._reader.read(path, watched=True)
            if node is None and paths.child(paths.TOPICS, path) is not None:
                return  # its parent's watch tells, and it may come back
            await self._look_at_node(path, node)

    async def _look_at_seat(self) -> None:
        """End the tenure if its node is gone: another broker takes this one for dead."""
        session = self._tenure.session
        stat = await session.exists(paths.CONTROLLER, lambda: self._changed(paths.CONTROLLER))
        if stat is None or stat.ephemeral_owner != session.session_id:
            self._tenure.end()

    async def _look_at_state(self, path: str) -> None:
        """Look at a state that was malformed: who leads may have to be decided, if it is no more.

        If it was when it was looked at last, it is watched. So the watch that is left when it has
        become readable is not renewed.
        """
        is_watched = path in self._malformed_states
        self._malformed_states.discard(path)
        before = self._tenure.history.image
        await self._look_at_node(path, await self._reader.read(path, watched=is_watched))
        if self._tenure.history.image is not before:
            self._tell(BrokersSeen(dict(self._brokers)))

    async def _look_at_brokers(self) -> None:
        names = await self._reader.children(paths.BROKER_IDS)
        for name in names:
            number = paths.number(name)
            if number is None or BrokerId(number) not in self._brokers:
                await self._look_at_broker(f"{paths.BROKER_IDS}/{name}", tell=False)
        live = {number for name in names if (number := paths.number(name)) is not None}
        self._brokers = {one: seen for one, seen in self._brokers.items() if one in live}
        self._tell(BrokersSeen(dict(self._brokers)))

    async def _look_at_broker(self, path: str, *, tell: bool = True) -> None:
        node = await self._reader.read(path, watched=True)
        if node is None:
            number = paths.number(paths.child(paths.BROKER_IDS, path) or "")
            if number is not None:
                self._brokers.pop(BrokerId(number), None)
        else:
            self._take_broker(path, node)
        if tell:
            self._tell(BrokersSeen(dict(self._brokers)))

    def _take_broker(self, path: str, node: StoredNode) -> None:
        try:
            broker, may_lack_records = registration_at(path, node)
        except MalformedNode as malformed:
            self._complain(malformed)
        else:
            self._brokers[broker.id] = SeenBroker(broker, may_lack_records)

    async def _look_at_topics(self) -> None:
        names = await self._reader.children(paths.TOPICS)
        image = self._tenure.history.image
        async for name in paused(names):
            path = paths.topic(name)
            if path in self._reader.watched:
                continue
            known = self._tenure.versions.get(path)
            node = await self._read_topic_node(name)
            if node is None or node.version != known:  # else this controller has written it
                await self._look_at_node(path, node)
        await self._look_at_gone(image.topics.keys() - set(names))

    async def _look_at_gone(self, names: Collection[str]) -> None:
        """Take topics for deleted whose nodes are gone for a while, if the rest is there."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._gone_topics = {one: self._gone_topics.get(one, now_s) for one in names}
        overdue = [one for one, since_s in self._gone_topics.items() if since_s + GONE_S <= now_s]
        if overdue:
            session = self._tenure.session
            await session.sync()
            if await session.exists(paths.CLUSTER_ID) is None:
                raise NoNode(paths.CLUSTER_ID)
        for name in sorted(overdue):
            del self._gone_topics[name]
            await self._look_at_node(paths.topic(name), None)
        if self._gone_topics:
            next_s = min(self._gone_topics.values()) + GONE_S
            loop.call_at(next_s, self._changed, paths.TOPICS)

    async def _read_topic_node(self, name: str) -> StoredNode | None:
        return await self._reader.read(paths.topic(name), watched=True)

    async def _look_at_deletions(self) -> None:
        names = await self._reader.children(paths.DELETE_TOPICS)
        for gone in self._told_deletions.difference(names):
            self._tenure.versions.pop(paths.delete_topic(gone), None)
        self._told_deletions.intersection_update(names)
        async for name in paused(names):
            if name not in self._told_deletions:
                # A commit that deletes the topic must not create the mark once more.
                self._tenure.versions.setdefault(paths.delete_topic(name), 0)
                self._take_requests([DeletionWanted(name)])

    async def _look_at_node(self, path: str, node: StoredNode | None) -> None:
        if node is None:
            self._tenure.versions.pop(path, None)
        elif paths.state_owner(path) is None:
            self._tenure.versions[path] = node.version
        reading = await in_turns(changed_node(self._tenure.history.image, path, node))
        for refused in reading.refused:
            self._complain(refused)
        if reading.topic_to_read is not None:
            await self._look_at_topic(reading.topic_to_read, paths.state_owner(path))
        else:
            await self._take(reading.changes, reading.requests)
            if node is not None:
                self._tenure.unreadable.discard(path)

    async def _look_at_topic(self, name: str, changed: PartitionKey | None) -> None:
        """Read a topic; `changed` is the partition whose state has led here."""
        node = await self._read_topic_node(name)
        if node is None:
            return  # its parent's watch tells
        image = self._tenure.history.image
        await self._check_id(image, name, node)
        wanted = await in_turns(states_to_read(image, name, node))
        if changed is not None:
            wanted = [*(one for one in wanted if one != changed.partition), changed.partition]
        nodes = await self._reader.read_topic(name, wanted)
        states: dict[int, StoredNode] = {}
        async for index in paused(wanted):
            state = nodes.get(paths.state(name, index))
            if state is not None:
                states[index] = state
        nodes[paths.topic(name)] = node
        await self._note_versions(nodes)
        config = nodes.get(config_path(ConfigEntity(TOPICS, name)))
        reading = await in_turns(read_topic(image, name, node, states, config))
        for refused in reading.refused:
            self._complain(refused)
        await self._take(reading.changes, reading.requests)

    async def _check_id(self, image: MetadataImage, name: str, node: StoredNode) -> None:
        """Refuse a node whose id is another one than its copy."""
        known = image.topic(name)
        if known is None or uuid_text(known.id).encode() in node.data:
            return
        copy = await self._reader.read(paths.partitions(name))
        if await in_turns(has_foreign_id(image, name, node, copy)):
            raise MalformedNode(paths.topic(name), f"topic_id is not {uuid_text(known.id)}")

    async def _take(self, changes: Iterable[Change], requests: Iterable[ToolRequest]) -> None:
        changes = list(changes)
        if changes:
            await self._tenure.take_over(changes)
        self._take_requests(requests)

    def _take_requests(self, requests: Iterable[ToolRequest]) -> None:
        for request in requests:
            if isinstance(request, DeletionWanted):
                self._told_deletions.add(request.topic)
            elif isinstance(request, PartitionsWanted):
                self._tenure.wanted[request.topic] = request
            self._tell(request)

    # Notifications

    async def _look_at_notifications(self, parent: str) -> None:
        """Look at the first of the new ones. There may be thousands: commits come in between."""
        names = await self._reader.children(parent)
        found = [f"{parent}/{name}" async for name in paused(names)]
        seen = self._seen_notifications.setdefault(parent, set())
        seen.intersection_update(found)
        if parent == paths.CONFIG_CHANGES:
            await self._remove_old(found)
            found = [path async for path in paused(found) if path not in seen]
        batch = found[:NOTIFICATIONS_AT_ONCE]
        new = [path for path in batch if path not in seen]
        nodes = await asyncio.gather(*(self._reader.read(path) for path in new))
        there = {path: node for path, node in zip(new, nodes, strict=True) if node is not None}
        await self._take_notifications(parent, there)
        seen.update(new)
        if parent != paths.CONFIG_CHANGES:
            # Those are for the controller alone. Brokers of others read the configs, too.
            await asyncio.gather(*(self._remove_notification(path) for path in batch))
        if len(found) > len(batch):
            self._changed(parent)

    async def _remove_notification(self, path: str) -> None:
        session = self._tenure.session
        with contextlib.suppress(NoNode):
            try:
                await session.delete(path)
            except NotEmpty:
                for one in await stray_deletions(session, path):
                    await session.delete(one.path)
                await session.delete(path)

    async def _remove_old(self, notifications: list[str]) -> None:
        """Remove notifications that are much older than the newest: all who watch have read them.

        Kafka's brokers do so after 15 minutes. The servers' clocks date both.
        """
        session = self._tenure.session
        newest = await session.exists(notifications[-1]) if notifications else None
        for path in notifications[:-1]:
            stat = await session.exists(path)
            if newest is None or stat is None or newest.ctime_ms - stat.ctime_ms < KEPT_MS:
                return
            await self._remove_notification(path)

    async def _take_notifications(self, parent: str, nodes: Mapping[str, StoredNode]) -> None:
        """Look at what these tell of, once although many of them name it."""
        changed: dict[str, None] = {}
        for path, node in nodes.items():
            try:
                if parent == paths.CONFIG_CHANGES:
                    changed[config_path(decode_config_change(path, node.data))] = None
                elif parent == paths.LOG_DIR_EVENTS:
                    self._tell(DirectoryFailed(decode_log_dir_event(path, node.data)))
                else:
                    for key in await in_turns(decode_partitions(path, node.data)):
                        changed[paths.state(*key)] = None
            except MalformedNode as malformed:
                self._complain_of_notification(parent, malformed)
        async for path in paused(changed):
            try:
                await self._look_at_node(path, await self._reader.read(path))
            except MalformedNode as malformed:
                self._complain(malformed)

    def _complain_of_notification(self, parent: str, malformed: MalformedNode) -> None:
        """Say what is wrong with the first ones. Nobody repairs a notification."""
        count = self._bad_notifications[parent] = self._bad_notifications.get(parent, 0) + 1
        if count <= COMPLAINTS_MAX:
            logger.error("a node of ZooKeeper is left out: %s", malformed)
        if count == COMPLAINTS_MAX:
            logger.error("no more is said about nodes below %s that are left out", parent)

    def _complain(self, malformed: MalformedNode) -> None:
        """Say once what is wrong with a node, and watch it if nothing else tells of its repair."""
        text, path = str(malformed), malformed.path
        if paths.state_owner(path) is not None:
            self._malformed_states.add(path)
            if path not in self._reader.watched:
                self._changed(path)
        elif path == paths.PRODUCER_ID_BLOCK:
            self._tenure.unreadable.add(path)
            if path not in self._reader.watched:
                self._changed(path)
        self._say_once(path, text)

    def _say_once(self, path: str, text: str) -> None:
        if self._complaints.get(path) != text:
            self._complaints[path] = text
            logger.error("a node of ZooKeeper is left out: %s", text)
