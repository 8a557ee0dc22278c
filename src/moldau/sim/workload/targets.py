"""What all clients of a run know together: the broker, its topics, the eras, who stops when.

A topic's history begins when it was created and ends when its deletion was asked for; partitions
are named by the topic's id, so that a topic made again under an old name is another one.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

from moldau.base.ids import TopicId
from moldau.server.broker import Broker
from moldau.sim.group_history import GroupHistory
from moldau.sim.history import PartitionHistory, Violation
from moldau.sim.keyed_history import KeyedHistory
from moldau.sim.network import SimNetwork
from moldau.sim.offset_history import OffsetHistory
from moldau.sim.process import SimBroker
from moldau.sim.transaction_history import TransactionHistory
from moldau.sim.workload.producer_ids import ProducerIds
from moldau.sim.world import World
from moldau.storage.log import Log

UNKNOWN_ID = TopicId(b"")
"""Of a topic whose creation is under way."""


@dataclass
class TopicTarget:
    """One topic of one run."""

    name: str
    partition_count: int
    configs: dict[str, str]
    by_id: bool
    """Clients name it by id, because its name is used again."""
    kept: bool = False
    """For certain clients only, and there from beginning to end."""
    id: TopicId = UNKNOWN_ID
    histories: list[PartitionHistory] = field(default_factory=list)
    deleting: bool = False
    """Its deletion was asked for: it may be gone, or not."""
    deleted: bool = False
    """Its deletion was acknowledged: it must be gone."""

    @property
    def compacted(self) -> bool:
        """Whether the broker leaves out what is written over."""
        return self.configs.get("cleanup.policy") == "compact"

    def begin(self, topic_id: TopicId, era: int) -> None:
        """Learn under which id the topic was created."""
        self.id = topic_id
        limit = None if any(name.startswith("retention") for name in self.configs) else 0
        self.histories = [
            PartitionHistory(
                f"{self.name}-{index}({topic_id.hex()[:6]})",
                era=era,
                start_limit=limit,
                synced_acknowledgements=self.configs.get("flush.messages") == "1",
            )
            for index in range(self.partition_count)
        ]


class Targets:
    """The broker under test and everything known of it."""

    def __init__(self, world: World, network: SimNetwork) -> None:
        self.world = world
        self.network = network
        self.broker: SimBroker
        self.topics: list[TopicTarget] = []
        self.seen: Counter[str] = Counter()
        """What happened in this run; a run in which nothing happened proves nothing."""
        self.calm = False
        """Faults are over: what is refused now is refused without a reason."""
        self.stopped = False
        """Clients finish what they have begun and end."""
        self.disk_failed_lives: set[int] = set()
        """The lives of the broker in which a disk was broken."""
        self.era = 0
        """How many power cuts the broker has started again after."""
        self.groups: dict[str, GroupHistory] = {}
        self.transactions = TransactionHistory()
        self.keyed: list[KeyedHistory] = []
        """By partition of the compacted topic."""
        self._ticks = itertools.count()
        self.producer_ids = ProducerIds()
        self._boot = 0
        self._last: Broker | None = None

    @property
    def live(self) -> list[TopicTarget]:
        """Topics that are there for sure, for everybody."""
        return [
            topic for topic in self.topics if topic.id and not topic.deleting and not topic.kept
        ]

    @property
    def kept(self) -> TopicTarget:
        """The topic for transactions and groups."""
        return next(topic for topic in self.topics if topic.kept and not topic.compacted)

    @property
    def compacted(self) -> TopicTarget:
        """The topic with keys."""
        return next(topic for topic in self.topics if topic.kept and topic.compacted)

    @property
    def disk_failed(self) -> bool:
        """Whether a disk was broken since the broker's last start."""
        return self.broker.life in self.disk_failed_lives

    def tick(self) -> int:
        """Number an event: what has a lower number happened before."""
        return next(self._ticks)

    def group(self, name: str) -> GroupHistory:
        """The history of a group, which is made for the first who asks."""
        history = self.groups.get(name)
        if history is None:
            offsets = {
                index: OffsetHistory(f"{name} {self.kept.name}-{index}", self.tick)
                for index in range(self.kept.partition_count)
            }
            history = self.groups[name] = GroupHistory(name, offsets)
        return history

    def random(self, name: str) -> random.Random:
        return self.world.random(name)

    def broker_started(self, broker: Broker) -> None:
        """Compare what a broker has found on its disk with what its clients know."""
        power_lost = self.broker.boot != self._boot
        for topic in self.live:
            for index, history in enumerate(topic.histories):
                log = _served(broker, topic, index)
                if power_lost:
                    history.survived_power_cut(self._durable_end(topic, index), log.log_end_offset)
                else:
                    history.survived_kill(log.log_start_offset, log.log_end_offset)
        if power_lost:
            self.era += 1
            self.seen["power cut survived"] += 1
        self._boot, self._last = self.broker.boot, broker

    def _durable_end(self, topic: TopicTarget, index: int) -> int:
        """How far the broker that served last held a log to be durable."""
        partition = (
            None if self._last is None else self._last.parts.partitions.get(topic.name, index)
        )
        if partition is None or partition.topic_id != topic.id:
            return 0
        return partition.log.recovery_point


def _served(broker: Broker, topic: TopicTarget, index: int) -> Log:
    partition = broker.parts.partitions.get(topic.name, index)
    if partition is None or partition.topic_id != topic.id:
        raise Violation(f"P8: {topic.name}-{index} was created and is not served after a start")
    return partition.log
