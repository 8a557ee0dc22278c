"""Every kind of change of the cluster's metadata.

Decisions return changes, the store commits them atomically, and every listener gets exactly these
changes, in order. A change states a fact. Policy is checked by the decision before; to apply a
change never fails because of policy.

Kafka records for which we have no change (ACLs, SCRAM credentials, quotas, tokens) become
`OpaqueRecorded`: they are kept and written back unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.model import Broker, ConfigResource, Partition, RegisteredController


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists; its partitions follow."""

    name: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic was deleted, with its partitions and configs."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionCreated:
    """A partition exists in this state. Snapshots use it too."""

    topic_id: TopicId
    partition: Partition


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """What changed in a partition; None means unchanged.

    Each change raises the partition epoch by one. With `leader` set, also to the same broker or to
    NO_LEADER, it raises the leader epoch by one as well.
    """

    topic_id: TopicId
    index: int
    isr: tuple[BrokerId, ...] | None = None
    leader: BrokerId | None = None
    replicas: tuple[BrokerId, ...] | None = None
    adding_replicas: tuple[BrokerId, ...] | None = None
    removing_replicas: tuple[BrokerId, ...] | None = None
    eligible_leaders: tuple[BrokerId, ...] | None = None
    last_known_leaders: tuple[BrokerId, ...] | None = None
    recovering: bool | None = None
    directories: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class EligibleLeadersCleared:
    """The eligible leaders of a topic are cleared; without a name, those of all (KIP-966)."""

    topic: str = ""


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A config was set; with None, it was reset to its default."""

    resource: ConfigResource
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker has registered: a new one, or one that was restarted."""

    broker: Broker


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """What changed in a broker's registration; None means unchanged."""

    broker_id: BrokerId
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    """Only ever True; the next registration ends the shutdown."""
    log_directories: tuple[bytes, ...] | None = None
    cordoned_log_directories: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    """A broker was removed from the cluster. A broker that only stops stays registered."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ControllerRegistered:
    """A controller has told where it listens and what it supports; once in each of its lives."""

    controller: RegisteredController


@dataclass(frozen=True, slots=True)
class ControllerUnregistered:
    """A controller was removed from the cluster for good."""

    controller_id: BrokerId


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """A broker got a block of producer ids. The next block starts at `next_producer_id`."""

    broker_id: BrokerId
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class FeatureLevelSet:
    """A feature has this level from now on; 0 turns it off."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class OpaqueRecorded:
    """A Kafka record that we keep without decoding it."""

    key: int
    version: int
    body: bytes


Change = (
    TopicCreated
    | TopicRemoved
    | PartitionCreated
    | PartitionChanged
    | EligibleLeadersCleared
    | ConfigChanged
    | BrokerRegistered
    | BrokerChanged
    | BrokerUnregistered
    | ControllerRegistered
    | ControllerUnregistered
    | ProducerIdsAllocated
    | FeatureLevelSet
    | OpaqueRecorded
)
