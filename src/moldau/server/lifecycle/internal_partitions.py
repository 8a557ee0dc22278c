"""Coordinators on this broker: runtimes that follow the partitions of their internal topics.

`LedPartition` is the port through which a shard writes, reads and hears of commits. `Coordinators`
looks at a partition whenever its role, its disk or its existence changed: shards of partitions that
are led here are loaded, all others are thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import StorageError
from moldau.base.executor import Executor
from moldau.base.ids import NO_LEADER_EPOCH, PartitionKey, TopicId
from moldau.cluster.changes import Change, PartitionChanged, TopicRemoved
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER
from moldau.cluster.store import ClusterMetadata
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.shard import TransactionShard
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import CHECKED_POSITION, BatchHeader, with_append_time
from moldau.replication.delayed import Delayed, Done
from moldau.replication.partition import ACKS_ALL, Partition, ReadLimit, Role
from moldau.replication.partitions import Partitions
from moldau.storage.disk_errors import disk_errors
from moldau.storage.flushing import Flusher
from moldau.storage.producers import Origin
from moldau.storage.topic_config import LONG_MAX, LogConfig

_COORDINATOR: Final = Origin.COORDINATOR
"""As a global, for every append: Python 3.11 looks a member of an enum up by a call."""


CHANGES_PER_SLICE: Final = 500
"""Of leaders, told in one turn of the loop: one change may move all leaders of a broker."""


class LogParts(NamedTuple):
    """The parts of the broker that stand behind every led partition."""

    clock: Clock
    executor: Executor
    flusher: Flusher
    traffic: Traffic
    storage_failed: Callable[[StorageError], None]


class LedPartition:
    """A partition of an internal topic as its shard sees it, in one leader epoch.

    With `flush.messages` a record counts as committed when the disk has it, too: what a coordinator
    answers is an acknowledgement as much as that of a produced batch.
    """

    def __init__(self, partition: Partition, parts: LogParts) -> None:
        self._partition = partition
        self._parts = parts
        self._traffic = parts.traffic.of(partition.key.topic)
        self._flushes: set[asyncio.Task[None]] = set()
        self._seen_role: Role | None = None
        self._seen_config: LogConfig | None = None
        self._largest_at_once = -1
        """As `_look` has found it for these; below 0 if nothing may be appended at once."""
        self.index = partition.key.partition
        self.leader_epoch: int = partition.role.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self._partition.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._partition.log_end_offset

    @property
    def committed_offset(self) -> int:
        return self._partition.committed_offset

    def append(self, batch: bytes, header: BatchHeader) -> None:
        """Append a batch as the coordinator; what stands in its way is the log's own error."""
        partition, config = self._partition, self._partition.config
        self._check_writable()
        if len(batch) > config.max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(batch)} bytes are more than max.message.bytes, {config.max_message_bytes}",
            )
        if config.message_timestamp_type != "CreateTime":
            header, parts = with_append_time(header, batch, self._parts.clock.wall_ms())
            batch = b"".join(parts)
        try:
            partition.append_as_leader(batch, header, ACKS_ALL, _COORDINATOR)
        except StorageError as error:
            self._parts.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        traffic = self._traffic
        traffic.messages_in += header.count
        traffic.bytes_in += len(batch)
        if config.flush_messages != LONG_MAX and partition.flush_is_due:
            self._begin_flush()

    def append_committed(self, checked: bytes, timestamp: int) -> int | None:
        """Append a batch of one record where nobody has to be waited for.

        Whether that may be is a matter of role and configs, which are values: it is found out when
        one of them is another than before, and not for each of a hundred thousand batches. A
        follower that is about to join the ISR changes neither.
        """
        partition = self._partition
        if self._seen_role is not partition.role or self._seen_config is not partition.config:
            self._look()
        size = CHECKED_POSITION + len(checked)
        if size > self._largest_at_once or self._flushes or not partition.commits_at_once:
            return None
        try:
            end_offset = partition.append_checked(checked, timestamp)
        except ApiError:
            return None
        except StorageError as error:
            self._parts.storage_failed(error)
            return None
        traffic = self._traffic
        traffic.messages_in += 1
        traffic.bytes_in += size
        return end_offset

    def _look(self) -> None:
        """Find out whether batches may be appended that are committed at once, and how large."""
        partition = self._partition
        role, config = partition.role, partition.config
        may = (
            role.leader_epoch == self.leader_epoch
            and partition.commits_at_once
            and config.flush_messages == LONG_MAX
            and config.message_timestamp_type == "CreateTime"
        )
        self._largest_at_once = config.max_message_bytes if may else -1
        self._seen_role, self._seen_config = role, config

    def _check_writable(self) -> None:
        """Raise why nothing may be appended, whatever it is."""
        if self._partition.role.leader_epoch != self.leader_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._partition.check_writable(ACKS_ALL)

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Read batches in the executor; cancelling it leaves the read to itself."""
        partition = self._partition
        try:
            start = max(offset, partition.log_start_offset)
            found = partition.read(start, max_bytes, ReadLimit.LOG_END)
            if not found.regions:
                return b""
            file, position, size = found.regions[0]
            with disk_errors(file.path):
                return await self._parts.executor.run(file.read, position, size)
        except StorageError as error:
            self._parts.storage_failed(error)
            raise

    def next_start(self, offset: int) -> int:
        """Return where the segment behind the one with this offset begins, or the end."""
        return self._partition.next_segment_start(offset)

    # Waiting for commits

    def delay(self, offset: int, done: Done, timeout_s: float | None = None) -> Delayed:
        return self._partition.delay(offset, done, timeout_s)

    def _begin_flush(self) -> None:
        task = asyncio.get_running_loop().create_task(self._flush(), name="flush a commit")
        self._flushes.add(task)
        self._partition.sync_began()
        task.add_done_callback(self._flushed)

    async def _flush(self) -> None:
        try:
            await self._partition.flush(self._parts.flusher)
        except StorageError as error:
            self._parts.storage_failed(error)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushes.discard(task)
        self._partition.sync_ended()


class Coordinators:
    """Keeps runtimes in step with the partitions of this broker."""

    def __init__(
        self,
        groups: Runtime[GroupShard],
        transactions: Runtime[TransactionShard],
        partitions: Partitions,
        image: Callable[[], MetadataImage],
        parts: LogParts,
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._runtimes: dict[str, Runtime[GroupShard] | Runtime[TransactionShard]] = {
            groups.topic: groups,
            transactions.topic: transactions,
        }
        self._partitions = partitions
        self._image = image
        self._known = MetadataImage()
        self._counted: dict[str, TopicId] = {}
        """The internal topics whose partitions were counted."""
        self._telling: set[asyncio.Task[None]] = set()
        """News of leaders that take several slices."""
        self._parts = parts

    def follow(self, metadata: ClusterMetadata) -> None:
        """Hear of the cluster's topics from now on."""
        self._known = metadata.image
        self._count_all(metadata.image)
        metadata.subscribe(self._metadata_changed)

    def _metadata_changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Let groups forget topics that are gone, and markers be sent to new leaders."""
        gone = {
            topic.name: topic.id
            for change in changes
            if isinstance(change, TopicRemoved)
            and (topic := self._known.topic_by_id(change.topic_id)) is not None
        }
        self._known = image
        self._count_all(image)
        if gone:
            self._groups.tell_all(lambda shard, now: shard.topics_deleted(gone, now))
        if len(changes) <= CHANGES_PER_SLICE:
            self._tell_leaders(changes, image)
            return
        loop = asyncio.get_running_loop()
        telling = loop.create_task(self._tell_many_leaders(changes, image), name="new leaders")
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell_many_leaders(self, changes: Sequence[Change], image: MetadataImage) -> None:
        # Others may be told meanwhile: whoever hears of a leader only asks it a bit earlier.
        for start in range(0, len(changes), CHANGES_PER_SLICE):
            self._tell_leaders(changes[start : start + CHANGES_PER_SLICE], image)
            await asyncio.sleep(0)

    def _tell_leaders(self, changes: Sequence[Change], image: MetadataImage) -> None:
        moved = frozenset(
            PartitionKey(topic.name, change.index)
            for change in changes
            if isinstance(change, PartitionChanged)
            and change.leader not in {None, NO_LEADER}
            and (topic := image.topic_by_id(change.topic_id)) is not None
        )
        if moved:
            self._transactions.tell_all(lambda shard, _: shard.leaders_changed(moved))

    def partition_changed(self, key: PartitionKey) -> None:
        """Look at a partition that was made, removed, put out of use, or got another role."""
        runtime = self._runtimes.get(key.topic)
        if runtime is None:
            return
        index = key.partition
        partition = self._partitions.get(key.topic, index)
        if partition is None or not self._leads(partition):
            runtime.resign(index)
        elif runtime.leader_epoch(index) != partition.role.leader_epoch:
            self._count_partitions(runtime, self._image())
            runtime.lead(LedPartition(partition, self._parts))

    def _leads(self, partition: Partition) -> bool:
        return partition.fence(NO_LEADER_EPOCH) is ErrorCode.NONE

    def _count_all(self, image: MetadataImage) -> None:
        for runtime in self._runtimes.values():
            self._count_partitions(runtime, image)

    def _count_partitions(
        self, runtime: Runtime[GroupShard] | Runtime[TransactionShard], image: MetadataImage
    ) -> None:
        """Spread keys over the partitions that there are when the topic is first seen.

        Also where none of them is led: every broker tells who coordinates. A topic that grows while
        it is served does not move its keys, as in Kafka: groups at work would be torn from their
        offsets.
        """
        topic = image.topic(runtime.topic)
        if topic is not None and topic.partitions and self._counted.get(topic.name) != topic.id:
            self._counted[topic.name] = topic.id
            runtime.partition_count = len(topic.partitions)

    def directory_failed(self) -> None:
        """Look at everything that is led: a disk has gone."""
        for topic, runtime in self._runtimes.items():
            for index in runtime.led:
                self.partition_changed(PartitionKey(topic, index))

    async def close(self) -> None:
        """Throw every shard away, before the logs are closed."""
        for telling in self._telling:
            telling.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)
        for runtime in self._runtimes.values():
            await runtime.close()
