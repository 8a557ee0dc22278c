"""Keeps this broker's partitions in step with the cluster's metadata.

Changes arrive in order and are carried out in order by one task: logs are made, deleted and
configured, roles are taken over. A change of thousands of partitions is carried out in slices, so
that clients are served meanwhile. Whoever must not answer before a change has taken effect here
waits for its version with `reached`.

The metadata names leaders by broker id. Another broker may have registered with this one's id, by
mistake or because this one stood still for long. The leader is then the other one. If both led in
one epoch, this one would answer with what it had before, and records of one epoch would differ.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from operator import length_hint

from moldau.base.clock import Clock
from moldau.base.errors import DiskFull, StorageError
from moldau.base.ids import BrokerId, PartitionKey, TopicId
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    Change,
    ConfigChanged,
    PartitionChanged,
    PartitionCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    ResourceType,
    Topic,
)
from moldau.cluster.model import Partition as PartitionState
from moldau.cluster.record_codec import DIRECTORIES_LEVEL, metadata_level
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.replication.ports import ALONE, ReplicationPorts
from moldau.storage.manager import LogManager
from moldau.storage.topic_config import LogConfig

logger = logging.getLogger(__name__)

SLICE = 4
"""Partitions made or removed between two turns of the loop. Each is a folder and files: up to a
millisecond."""

FROZEN_AT_ONCE = 500
"""Partitions after which the garbage collector is told not to look at them."""

SHRUNK_PER_TURN = 500
"""Partitions whose followers are looked at between two turns of the loop."""

RETIRED_PER_TURN = 500
"""Partitions that are looked at for a failed directory between two turns of the loop."""

CONFIGURED_PER_TURN = 200
"""Logs that are given new configs between two turns of the loop."""

Changed = Callable[[PartitionKey], None]
"""Told of every partition that was made, removed, put out of use, or got another role."""

ReportDirectory = Callable[[TopicId, int, bytes], None]
"""Tells the controller in which log directory a replica of this broker lies."""

ConfigOf = Callable[[Mapping[str, str]], LogConfig]
"""What a topic's own configs come to on this broker."""


class Replicas:
    """Carries out what the metadata says of this broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        partitions: Partitions,
        logs: LogManager,
        clock: Clock,
        traffic: Traffic,
        config_of: ConfigOf,
        partition_changed: Changed,
        replication: ReplicationPorts = ALONE,
        report_directory: ReportDirectory = lambda *_: None,
        storage_failed: Callable[[StorageError], None] | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._logs = logs
        self._clock = clock
        self._traffic = traffic
        self._config_of = config_of
        self._partition_changed = partition_changed
        self._replication = replication
        self._report_directory = report_directory
        self._storage_failed = storage_failed or logs.directory_failed
        self._queue: deque[tuple[Sequence[Change], MetadataImage]] = deque()
        self._more = asyncio.Event()
        self._version = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._frozen_count = 0
        """How many partitions there were when all objects were frozen last, or are left of them."""
        self._without_room: list[PartitionKey] = []
        """Partitions whose log could not be made on a full disk."""

    def changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Take note of changes; for `ClusterMetadata.subscribe`."""
        self._queue.append((changes, image))
        self._more.set()

    async def reached(self, version: int) -> None:
        """Return once everything up to this version has been carried out."""
        if version > self._version:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((version, future))
            await future

    async def begin(self, image: MetadataImage, unreadable: Collection[str] = ()) -> None:
        """Serve everything that the metadata gives this broker at its start.

        `unreadable` are topics that there are, although they are not in the image.
        """
        self._set_strays_aside(image, unreadable)
        self._say_what_vanished(image)
        for number, (topic, state) in enumerate(image.replicas_on(self._broker_id), 1):
            self._serve(topic, state, image)
            if number % SLICE == 0:
                self._freeze()
                await asyncio.sleep(0)
        self._reached(image.version)

    def _set_strays_aside(self, image: MetadataImage, unreadable: Collection[str]) -> None:
        """Take logs out of use that the metadata does not know.

        A deletion is durable in the metadata first, so a crash can leave the log of a topic that
        is gone: its removal did not happen, or a power cut undid it.
        """
        known = {(topic.name, state.index) for topic, state in image.replicas_on(self._broker_id)}
        for key in [key for key, _ in self._logs if key not in known]:
            if key.topic in unreadable:
                logger.warning("%s is kept, and not served: its topic cannot be read", key)
                continue
            logger.warning("%s belongs to no topic that is known, it is set aside", key)
            self._take_away(key, self._logs.set_aside)

    def _say_what_vanished(self, image: MetadataImage) -> None:
        """Say which partitions have no folder any more, a line a topic: they begin empty.

        A power cut may take the folder of a topic that was just made. All else is a loss.
        """
        vanished: dict[str, list[PartitionKey]] = {}
        for topic, state in image.replicas_on(self._broker_id):
            key = PartitionKey(topic.name, state.index)
            if self._logs.is_missing(key):
                vanished.setdefault(topic.name, []).append(key)
        for name, keys in vanished.items():
            held = {key.partition: self._logs.checkpointed_end(key) for key in keys}
            known = ", ".join(
                f"{index} held offsets below {end}" for index, end in held.items() if end
            )
            logger.warning(
                "%s: no folder in any log directory for partition(s) %s; they begin empty%s",
                name, ", ".join(map(str, held)), f" ({known})" if known else "",
            )  # fmt: skip

    async def run(self) -> None:
        """Carry out changes until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._queue:
                changes, image = self._queue.popleft()
                await self._carry_out(changes, image)
                self._reached(image.version)

    def _reached(self, version: int) -> None:
        self._version = version
        still = []
        for wanted, future in self._waiting:
            if wanted > version:
                still.append((wanted, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    async def _carry_out(self, changes: Sequence[Change], image: MetadataImage) -> None:
        made = 0
        for change in changes:
            if isinstance(change, PartitionCreated | PartitionChanged):
                index = (
                    change.partition.index if isinstance(change, PartitionCreated) else change.index
                )
                topic = image.topic_by_id(change.topic_id)
                if topic is not None:
                    new = isinstance(change, PartitionCreated)
                    self._serve(topic, topic.partitions[index], image, new=new)
                made += 1
                if made % SLICE == 0:
                    self._freeze()
                    await asyncio.sleep(0)
            elif isinstance(change, TopicRemoved):
                await self._remove(change)
        await self._configure(changes, image)
        await self._let_join(changes)

    async def _let_join(self, changes: Sequence[Change]) -> None:
        """Let followers join ISRs that the controller has refused them before.

        Their broker has come into service, or has said where the replica lies.
        """
        for number, change in enumerate(changes, 1):
            if isinstance(change, PartitionChanged) and change.directories is not None:
                self._expand_isr(change)
            if not number % SHRUNK_PER_TURN:
                await asyncio.sleep(0)
        joined = set(_brokers_in_service(changes))
        if not joined:
            return
        for number, partition in enumerate(tuple(self._partitions), 1):
            if partition.leads and joined.intersection(partition.role.replicas):
                partition.expand_isr(self._clock.monotonic())
            if not number % SHRUNK_PER_TURN:
                await asyncio.sleep(0)

    def _expand_isr(self, change: PartitionChanged) -> None:
        name = self._partitions.topic_name(change.topic_id)
        partition = None if name is None else self._partitions.get(name, change.index)
        if partition is not None and partition.leads:
            partition.expand_isr(self._clock.monotonic())

    def _freeze(self) -> None:
        """Hide what there is from the garbage collector, once there are many more partitions.

        A full run looks at every object it knows: a hundred milliseconds for ten thousand
        partitions, in which nobody is served. Partitions live for long, and are freed without it
        when they are deleted. What else is alive now and ends as a cycle is not freed: next to
        nothing, beside so many partitions.
        """
        if len(self._partitions) >= self._frozen_count + FROZEN_AT_ONCE:
            gc.freeze()
            self._frozen_count = len(self._partitions)

    def _serve(
        self, topic: Topic, state: PartitionState, image: MetadataImage, *, new: bool = False
    ) -> None:
        """Make or find the log of a partition and take its role over."""
        key = PartitionKey(topic.name, state.index)
        if self._broker_id not in state.replicas:
            # Also one that led: it would go on appending to a log that nobody follows any more.
            if self._partitions.get(*key) is not None:
                logger.info("%s is on other brokers now", key)
                self._drop(key)
            return
        role = Role(
            self._leader(state, image),
            state.leader_epoch,
            state.partition_epoch,
            state.replicas,
            state.isr,
            state.recovering,
        )
        existing = self._partitions.get(topic.name, state.index)
        if existing is not None and existing.topic_id == topic.id:
            self._give_role(existing, role)
            self._check_directory(topic, state, image)
            self._partition_changed(key)
            return
        try:
            config = self._config_of(image.topic_config(topic.name))
            log = self._logs.open_or_create(key, topic.id, config, new=new)
        except StorageError as error:
            logger.error("%s cannot be served: %s", key, error)  # noqa: TRY400 - no bug of ours
            self._partitions.add_offline(key, topic.id)
            self._partition_changed(key)
            if isinstance(error, DiskFull):
                self._logs.directory_failed(error)
                self._without_room.append(key)
            else:
                if not self._logs.is_unreadable(key):
                    # A report as lost is not enough. The failing disk would stay in use, and after
                    # its repair the replica would count as one in another directory.
                    self._storage_failed(error)
                self._check_directory(topic, state, image)
            return
        partition = Partition(key, topic.id, log, self._broker_id, self._replication)
        partition.set_high_watermark(self._logs.high_watermark(key, log))
        self._give_role(partition, role)
        self._partitions.add(partition)
        self._check_directory(topic, state, image)
        self._partition_changed(key)

    def _leader(self, state: PartitionState, image: MetadataImage) -> BrokerId:
        """Return a partition's leader; nobody if that is another broker with this one's id."""
        if state.leader != self._broker_id:
            return state.leader
        registered = image.brokers.get(self._broker_id)
        if registered is not None and registered.epoch == self._broker_epoch():
            return state.leader
        return NO_LEADER

    def _check_directory(self, topic: Topic, state: PartitionState, image: MetadataImage) -> None:
        """Tell the controller where a replica lies, if the metadata says otherwise."""
        key = PartitionKey(topic.name, state.index)
        actual = self._logs.directory_id(key)
        recorded = state.directory_of(self._broker_id)
        if actual == recorded or metadata_level(image) < DIRECTORIES_LEVEL:
            return
        is_thought_online = (
            recorded in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
            or recorded in self._logs.directory_ids
        )
        if actual is None:
            if is_thought_online and len(state.replicas) > 1:
                self._report_directory(topic.id, state.index, LOST_DIRECTORY)  # let others lead
            return
        if not is_thought_online and self._is_only_copy(state) and self._is_empty(key):
            # The controller would let it lead, and then all others would delete their records. It
            # cannot know whether the log was moved to another directory, or is gone.
            logger.error(
                "%s: its directory is gone, and no other replica is known to have all records; it"
                " has no leader until that directory is back, or another one is elected uncleanly",
                key,
            )
            return
        self._report_directory(topic.id, state.index, actual)

    def _is_only_copy(self, state: PartitionState) -> bool:
        """Tell whether no other replica is known to have all records, though there are others."""
        on_record = {*state.isr, *state.eligible_leaders}
        return len(state.replicas) > 1 and on_record == {self._broker_id}

    def _is_empty(self, key: PartitionKey) -> bool:
        log = self._logs.get(key)
        return log is None or log.log_end_offset == 0

    def _give_role(self, partition: Partition, role: Role) -> None:
        if role.leader == self._broker_id:
            partition.become_leader(role, self._clock.monotonic())
        else:
            partition.become_follower(role)

    async def shrink_isrs(self) -> None:
        """Propose ISRs without the followers that lag."""
        for number, partition in enumerate(tuple(self._partitions), 1):
            if partition.leads:
                partition.shrink_isr(self._clock.monotonic())
            if not number % SHRUNK_PER_TURN:
                await asyncio.sleep(0)

    def room_again(self, image: MetadataImage) -> None:
        """Let `run` make the logs for which there was no room."""
        keys, self._without_room = self._without_room, []
        changes: list[Change] = []
        for key in keys:
            topic = image.topics.get(key.topic)
            if topic is not None and key.partition < len(topic.partitions):
                changes.append(PartitionCreated(topic.id, topic.partitions[key.partition]))
        if changes:
            self._version = image.version - 1  # it is reached when the logs are there
            self.changed(changes, image)

    async def _remove(self, change: TopicRemoved) -> None:
        name = self._partitions.topic_name(change.topic_id)
        if name is None:
            return
        for number, key in enumerate(self._partitions.keys_of(change.topic_id), 1):
            if number % SLICE == 0:
                await asyncio.sleep(0)
            self._drop(key)
        self._frozen_count = min(self._frozen_count, len(self._partitions))
        self._traffic.forget(name)

    def _drop(self, key: PartitionKey) -> None:
        self._partitions.remove(key)
        self._partition_changed(key)
        self._take_away(key, self._logs.delete)

    def directory_failed(self) -> None:
        """Fail what waits at partitions whose log directory is out of use."""
        self._retire_offline(iter(self._partitions.snapshot()))

    def _retire_offline(self, partitions: Iterator[Partition]) -> None:
        for partition in islice(partitions, RETIRED_PER_TURN):
            if partition.log.offline:
                partition.retire(ErrorCode.KAFKA_STORAGE_ERROR)
                self._partition_changed(partition.key)
        if length_hint(partitions):
            asyncio.get_running_loop().call_soon(self._retire_offline, partitions)

    def _take_away(self, key: PartitionKey, remove: Callable[[PartitionKey], None]) -> None:
        """Take a log out of use; a disk that refuses that is out of use itself."""
        try:
            remove(key)
        except StorageError as error:
            logger.error("%s stays on the disk: %s", key, error)  # noqa: TRY400 - no bug of ours
            self._storage_failed(error)

    async def _configure(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Give logs their new configs; a broker's defaults concern every log."""
        resources = {change.resource for change in changes if isinstance(change, ConfigChanged)}
        topics = {resource.name for resource in resources if resource.type == ResourceType.TOPIC}
        everything = any(resource.type == ResourceType.BROKER for resource in resources)
        if not topics and not everything:
            return
        configs: dict[str, LogConfig] = {}
        for number, partition in enumerate(tuple(self._partitions), 1):
            if not number % CONFIGURED_PER_TURN:
                await asyncio.sleep(0)
            name = partition.key.topic
            if everything or name in topics:
                if name not in configs:
                    configs[name] = self._config_of(image.topic_config(name))
                partition.update_config(configs[name])


def _brokers_in_service(changes: Sequence[Change]) -> Iterator[BrokerId]:
    """Return the brokers that came into service: unfenced, or registered without being fenced."""
    for change in changes:
        if isinstance(change, BrokerChanged) and change.fenced is False:
            yield change.broker_id
        elif isinstance(change, BrokerRegistered) and change.broker.active:
            yield change.broker.id
