"""Checks all brokers after every turn of the loop, and counts elections, truncations and the like.

The invariants, with the numbers that they have in the whole simulation:

    I1  the high watermark lies in the log, and does not move back under one leader
    I2  one broker appends in a leader epoch
    I3  what a leader has ever called committed is on every replica that could be elected: those in
        sync, those about to be, and eligible leaders; and enough replicas were in sync
    I4  a leader is in the ISR, and the ISR has replicas in service only
    I7  the log's start lies below the high watermark
    I12 all images of the metadata are states of one history, in which a deleted topic does not
        come back and blocks of producer ids do not overlap
    I13 nothing waits for a commit where another broker leads, or for longer than its time-out
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moldau.base.ids import BrokerId, PartitionKey, TopicId
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Partition as PartitionState
from moldau.cluster.zookeeper.history import controller_epoch_of
from moldau.replication.partition import Partition
from moldau.replication.role import Role
from moldau.sim.cluster.atlas import Atlas
from moldau.sim.cluster.nodes import Node, Nodes
from moldau.sim.history import Violation


class _Observed(NamedTuple):
    """One replica as it was found last."""

    partition: Partition
    role: Role
    start: int
    high_watermark: int
    end: int

    def still_shows(self, partition: Partition) -> bool:
        """Tell whether a replica is as it was; False also if it may be."""
        log = partition.log
        return (
            self.partition is partition
            and self.role is partition.role
            and self.end == log.log_end_offset
            and self.high_watermark == partition.high_watermark
            and self.start == log.log_start_offset
        )


def _isr_problems(
    image: MetadataImage,
) -> Iterator[tuple[PartitionKey, tuple[PartitionState, str]]]:
    """Return the partitions whose ISR cannot be right, and why."""
    for topic in image.topics.values():
        for state in topic.partitions:
            if state.leader < 0:
                continue
            key = PartitionKey(topic.name, state.index)
            if state.leader not in state.isr or not set(state.isr) <= set(state.replicas):
                yield key, (state, "its leader is not in it, or one that is no replica is")
            for member in state.isr:
                broker = image.brokers.get(member)
                if broker is None or broker.fenced:
                    yield key, (state, f"broker {member} is fenced")


class Monitor:
    """Checks the invariants that hold at any time."""

    def __init__(self, nodes: Nodes, atlas: Atlas, seen: Counter[str]) -> None:
        self._nodes = nodes
        self._atlas = atlas
        self._seen = seen
        self._image = MetadataImage()
        self._history: dict[int, MetadataImage] = {}
        """By version, what was first found."""
        self._node_images: dict[int, MetadataImage] = {}
        self._inherited: dict[PartitionKey, PartitionState] = {}
        """What was wrong when an elected controller began, and is not decided on yet."""
        self._observed: defaultdict[int, dict[PartitionKey, _Observed]] = defaultdict(dict)
        """By node."""
        self._appenders: dict[tuple[PartitionKey, int], int] = {}
        self._committed: dict[tuple[TopicId, int], int] = {}
        """The highest high watermark of any leader. A new one's may be behind it for a while."""
        self.deleted: set[TopicId] = set()
        """The ids of topics that were deleted."""

    def look(self, nodes: Sequence[Node]) -> None:
        """Check everything that has changed since the last look; no other node has."""
        newest = self._nodes.image
        if newest is not self._image:
            self._take_newest(newest)
        for node in nodes:
            process = node.process
            if process.serving and process.broker is not None:
                parts = process.broker.parts
                if parts.store.image is not self._node_images.get(node.id):
                    self._take_image(node, parts.store.image)
                observed = self._observed[node.id]
                for partition in parts.partitions:
                    old = observed.get(partition.key)
                    if old is None or not old.still_shows(partition):
                        self._look_at(node, partition)

    # Metadata

    def _take_image(self, node: Node, image: MetadataImage) -> None:
        self._node_images[node.id] = image
        first = self._history.setdefault(image.version, image)
        if first is not image and first != image:
            raise Violation(f"I12: {node.name} knows another version {image.version}")

    def _take_newest(self, image: MetadataImage) -> None:
        if image.version < self._image.version:
            raise Violation(f"I12: the controller is back at version {image.version}")
        self._check_history(self._image, image)
        self._check_isrs(image)
        self._count_changes(self._image, image)
        self._image = image
        self._atlas.follow(image)

    def _check_history(self, old: MetadataImage, new: MetadataImage) -> None:
        self.deleted.update(old.topic_names.keys() - new.topic_names.keys())
        if back := self.deleted & new.topic_names.keys():
            names = sorted(new.topic_names[one] for one in back)
            raise Violation(f"I12: deleted topics are back: {names}")
        if new.next_producer_id < old.next_producer_id:
            raise Violation(f"I12: producer ids from {new.next_producer_id} on are given out twice")

    def _check_isrs(self, image: MetadataImage) -> None:
        problems = dict(_isr_problems(image))
        if controller_epoch_of(image.version) != controller_epoch_of(self._image.version):
            # An elected controller begins with what it has found, and decides on that next.
            self._inherited = {key: state for key, (state, _) in problems.items()}
        for key, (state, problem) in problems.items():
            if self._inherited.get(key) != state:
                raise Violation(f"I4: {key}: {problem}: {state}")

    def _count_changes(self, old: MetadataImage, new: MetadataImage) -> None:
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is None or before is topic:
                continue
            for one, other in zip(before.partitions, topic.partitions, strict=False):
                if one is not other:
                    self._count_partition(PartitionKey(name, one.index), one, other)
        for broker_id, broker in new.brokers.items():
            known = old.brokers.get(broker_id)
            if known is not None and known.fenced and not broker.fenced:
                self._seen["unfenced return"] += 1

    def _count_partition(self, key: PartitionKey, old: PartitionState, new: PartitionState) -> None:
        self._nodes.trace.note(
            "partition", str(key), f"leader {new.leader} epoch {new.leader_epoch} ISR {new.isr}"
        )
        if len(new.isr) < len(old.isr):
            self._seen["ISR shrunk"] += 1
        elif len(new.isr) > len(old.isr):
            self._seen["ISR expanded"] += 1
        if new.leader < 0 or new.leader == old.leader:
            return
        self._seen["election"] += 1
        if new.leader not in old.isr and new.leader in old.eligible_leaders:
            self._seen["election of an eligible leader replica"] += 1
        if self._is_change_pending(key, old.leader):
            self._seen["election during a pending ISR change"] += 1

    def _is_change_pending(self, key: PartitionKey, leader: BrokerId) -> bool:
        known = self._observed[leader].get(key)
        return known is not None and known.partition.pending_isr is not None

    def is_zombie(self, node: Node) -> bool:
        """Tell whether a broker believes to lead a partition that it does not lead any more."""
        broker = node.process.broker
        return (
            node.serving
            and broker is not None
            and any(
                one.leads and self._current_epoch(one.key) != one.role.leader_epoch
                for one in broker.parts.partitions
            )
        )

    def is_former_controller(self, node: Node) -> bool:
        """Tell whether a broker believes to be the controller, and another one is."""
        broker = node.process.newest_broker
        part = None if broker is None else broker.parts.elected or broker.parts.quorum
        if part is None:
            return False
        tenure = part.store.tenure
        return (
            tenure is not None
            and not tenure.is_over
            and tenure.epoch < self._nodes.controller_epoch
        )

    def _current_epoch(self, key: PartitionKey) -> int:
        state = self._nodes.image.partition(key)
        return -1 if state is None else state.leader_epoch

    # Partitions

    def _look_at(self, node: Node, partition: Partition) -> None:
        log = partition.log
        now = _Observed(
            partition,
            partition.role,
            log.log_start_offset,
            partition.high_watermark,
            log.log_end_offset,
        )
        observed = self._observed[node.id]
        old = observed.get(partition.key)
        if old == now or log.offline:
            return
        observed[partition.key] = now
        where = f"{partition.key} on {node.name}"
        if now.high_watermark > now.end:
            raise Violation(f"I1: {where}: high watermark {now.high_watermark} of {now.end}")
        if now.start > now.high_watermark:
            raise Violation(f"I7: {where}: starts at {now.start}, beyond {now.high_watermark}")
        if old is not None and old.partition is partition:
            self._compare(node, where, old, now)
        if partition.leads:
            self._check_committed(where, now)
        elif partition.delayed_count:
            raise Violation(f"I13: {where}: {partition.delayed_count} wait, another broker leads")
        elif old is not None and now.end < old.end:
            self._check_complete(where, partition)

    def _compare(self, node: Node, where: str, old: _Observed, now: _Observed) -> None:
        """Compare a replica with what it was in the same life of its broker."""
        if now.end < old.end:
            self._seen["truncation"] += 1
            if now.partition.leads and now.role is old.role:
                raise Violation(f"I2: {where}: a leader cut its log from {old.end} to {now.end}")
        epoch = now.role.leader_epoch
        if not now.partition.leads or old.role.leader_epoch != epoch:
            return
        if now.high_watermark < old.high_watermark:
            raise Violation(f"I1: {where}: back from {old.high_watermark} in epoch {epoch}")
        if now.high_watermark > old.high_watermark and now.role is old.role:
            self._check_enough_in_sync(where, now)
        if now.end > old.end:
            appender = self._appenders.setdefault((now.partition.key, epoch), node.id)
            if appender != node.id:
                raise Violation(f"I2: {where}: broker {appender} appended in epoch {epoch}, too")

    def _check_enough_in_sync(self, where: str, now: _Observed) -> None:
        """I3: nothing is committed while fewer replicas are in sync than the topic asks for."""
        wanted = min(now.partition.log.config.min_insync_replicas, len(now.role.replicas))
        if len(now.role.isr) < wanted:
            raise Violation(f"I3: {where}: {now.high_watermark} is committed by {now.role.isr}")

    def _check_committed(self, where: str, now: _Observed) -> None:
        """Take what a leader calls committed, unless its epoch is over.

        Such a one may count with replicas that follow another leader now.
        """
        state = self._nodes.image.partition(now.partition.key)
        if state is None or state.leader_epoch != now.role.leader_epoch:
            return
        place = now.partition.topic_id, now.partition.key.partition
        self._committed[place] = max(self._committed.get(place, 0), now.high_watermark)
        self._check_complete(where, now.partition)

    def _check_complete(self, where: str, partition: Partition) -> None:
        """I3, the cheap part: whoever may be elected has all offsets that are committed.

        A broker that knows more than was seen of a controller that is just ending cannot be judged.
        """
        key, pending = partition.key, partition.pending_isr
        state = self._nodes.image.partition(key)
        if state is None or key in self._atlas.exceeded:
            return
        if state.partition_epoch < partition.role.partition_epoch:
            return
        committed = self._committed.get((partition.topic_id, key.partition), 0)
        may_lead = {*state.isr, *state.eligible_leaders, *(() if pending is None else pending.isr)}
        for broker_id in sorted(may_lead):
            found = self._observed[broker_id].get(key)
            if found is None or self._atlas.is_damaged(key, broker_id):
                continue
            if self._nodes.by_id(broker_id).has_twin:
                continue  # that one may be meant, and it is not observed
            if found.partition.topic_id != partition.topic_id:
                continue
            if found.partition.log.log_end_offset < committed:
                raise Violation(
                    f"I3: {where}: {committed} is committed, broker {broker_id} ends at "
                    f"{found.partition.log.log_end_offset}; ISR {state.isr}, eligible leaders "
                    f"{state.eligible_leaders}, pending {pending}"
                )
