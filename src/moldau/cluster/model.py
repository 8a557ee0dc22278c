"""The nouns of the cluster's metadata: topic, partition, broker, configured resource.

Plain immutable values, shared by the image and by the changes that build it. They know nothing of
how they are stored: KRaft's records and ZooKeeper's nodes are both translated into these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.base.ids import BrokerId, LeaderEpoch, TopicId

NO_LEADER: Final = BrokerId(-1)

UNASSIGNED_DIRECTORY: Final = bytes(15) + b"\x01"
"""The broker has not yet said which of its log directories holds the replica (KIP-858)."""

MIGRATING_DIRECTORY: Final = bytes(16)
"""The record was written before replicas had directories; the broker will say (KIP-858)."""

_FIRST_LEADER_EPOCH: Final = LeaderEpoch(0)


class ResourceType(IntEnum):
    """What a config belongs to; the numbers are those of the wire and of KRaft's records."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One thing that has configs. A broker is named by its id, the default of all by ''."""

    type: int
    name: str


class Endpoint(NamedTuple):
    """Where one listener of a broker is reached from outside."""

    listener: str
    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


class FeatureRange(NamedTuple):
    """The levels of one feature a broker can run at."""

    name: str
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. Only one that is neither fenced nor leaving may lead or be placed on."""

    id: BrokerId
    epoch: int
    """The version at which it registered: a later registration has a higher one."""
    incarnation_id: bytes
    """Drawn at each start, so that a restart is told from a repeated request."""
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    features: tuple[FeatureRange, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_directories: tuple[bytes, ...] = ()
    cordoned_log_directories: tuple[bytes, ...] | None = None
    """Directories that take no new replicas (KIP-1066); None while it has not said."""

    @property
    def active(self) -> bool:
        return not (self.fenced or self.in_controlled_shutdown)

    @property
    def default_directory(self) -> bytes:
        """Where a new replica goes as far as anybody but the broker can know."""
        only_one = len(self.log_directories) == 1
        return self.log_directories[0] if only_one else UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the controller sees it."""

    index: int
    replicas: tuple[BrokerId, ...]
    """In order of preference: the first is the preferred leader."""
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch = _FIRST_LEADER_EPOCH
    partition_epoch: int = 0
    """Raised by every change; what an ISR change must name to be accepted."""
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    eligible_leaders: tuple[BrokerId, ...] = ()
    """Outside the ISR, yet known to hold all committed records (KIP-966)."""
    last_known_leaders: tuple[BrokerId, ...] = ()
    """Who led last, for an unclean choice when nobody is left (KIP-966)."""
    recovering: bool = False
    """The leader was chosen uncleanly and has not yet finished its recovery (KIP-704)."""
    directories: tuple[bytes, ...] = ()
    """For each of `replicas` the id of the log directory that holds it."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic with its partitions, which are numbered from 0 without a gap."""

    name: str
    id: TopicId
    partitions: tuple[Partition, ...] = ()
