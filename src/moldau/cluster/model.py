"""The things in the cluster's metadata: topic, partition, broker, resource with configs.

Plain immutable values, shared by the image and by the changes that build it. They do not know how
they are stored: a store translates its records into these.
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

LOST_DIRECTORY: Final = bytes(15) + b"\x02"
"""The replica lay in a directory that its broker does not have any more (KIP-858)."""

_FIRST_LEADER_EPOCH: Final = LeaderEpoch(0)


class ResourceType(IntEnum):
    """The kind of thing that has configs; the numbers of the wire and of KRaft's records."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One thing that has configs. A broker's name is its id; '' means all brokers."""

    type: int
    name: str


class Endpoint(NamedTuple):
    """The address of one listener of a node, as others reach it."""

    listener: str
    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


class FeatureRange(NamedTuple):
    """The levels of one feature that a node supports."""

    name: str
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. Only an active one may lead, or get replicas of new partitions."""

    id: BrokerId
    epoch: int
    """The version at which it registered. A later registration has a higher epoch, so a request of
    an earlier incarnation is recognised and refused."""
    incarnation_id: bytes
    """Random, new at each start: a repeated registration has the same, a restarted broker not."""
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    features: tuple[FeatureRange, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_directories: tuple[bytes, ...] = ()
    cordoned_log_directories: tuple[bytes, ...] | None = None
    """Directories that take no new replicas (KIP-1066); None if the broker reported none."""

    @property
    def active(self) -> bool:
        """Whether it is neither fenced nor shutting down."""
        return not (self.fenced or self.in_controlled_shutdown)

    @property
    def takes_replicas(self) -> bool:
        """Whether it may get new replicas: it is active, and not all directories are cordoned."""
        cordoned = self.cordoned_log_directories
        if not self.active or not cordoned:
            return self.active
        return not set(self.log_directories) <= set(cordoned)

    @property
    def host(self) -> str | None:
        """The machine it runs on, as far as the address it advertises tells."""
        return self.endpoints[0].host or None if self.endpoints else None

    @property
    def default_directory(self) -> bytes:
        """The directory of a new replica, if the broker has no choice."""
        only_one = len(self.log_directories) == 1
        return self.log_directories[0] if only_one else UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True)
class RegisteredController:
    """What a controller has told of itself when it started (KIP-919)."""

    id: BrokerId
    """Brokers and controllers share one space of ids; a node may be both."""
    incarnation_id: bytes
    """Random, new at each start."""
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    zk_migration_ready: bool = False
    """Kept for the sake of logs that Kafka 3 wrote; nothing depends on it."""


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
    """Rises with every change. An ISR change must name it, so that one decided on an older state is
    refused."""
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    eligible_leaders: tuple[BrokerId, ...] = ()
    """Not in the ISR, but known to have all committed records (KIP-966)."""
    last_known_leaders: tuple[BrokerId, ...] = ()
    """The last leader, for an unclean election when no replica is eligible (KIP-966)."""
    recovering: bool = False
    """The leader was elected uncleanly and has not finished its recovery yet (KIP-704)."""
    directories: tuple[bytes, ...] = ()
    """For each of `replicas`, the id of its log directory."""

    def directory_of(self, broker_id: BrokerId) -> bytes:
        """Return the log directory of a broker's replica, as far as the metadata tells it."""
        if broker_id not in self.replicas or len(self.directories) != len(self.replicas):
            return MIGRATING_DIRECTORY
        return self.directories[self.replicas.index(broker_id)]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic with its partitions, numbered from 0 without gaps."""

    name: str
    id: TopicId
    partitions: tuple[Partition, ...] = ()
