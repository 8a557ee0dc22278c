"""The verbs of the cluster's metadata: every way in which it may change.

Decisions return these, the store commits them in one step, and everybody who keeps something
derived from the metadata hears exactly these, in order. A change states what became so; applying
it never fails for a reason of policy, which is the business of the decision before it.

Kafka records we have no verb for (access rules, SCRAM credentials, quotas, tokens) travel as
`OpaqueRecorded`: kept and given back byte for byte, understood by nobody here.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.model import Broker, ConfigResource, Partition


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists; its partitions follow."""

    name: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic is gone, with its partitions and configs."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionCreated:
    """A partition exists in this state; also how a snapshot states a partition."""

    topic_id: TopicId
    partition: Partition


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """What changed in a partition; None means unchanged.

    Any change raises the partition epoch by one. Naming a leader, be it the same one or NO_LEADER,
    raises the leader epoch by one as well.
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
    """A topic's eligible leaders are forgotten, or with no name those of all topics (KIP-966)."""

    topic: str = ""


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A config was set, or with None taken back to its default."""

    resource: ConfigResource
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker has registered, for the first time or again after a restart."""

    broker: Broker


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """What changed in a broker's registration; None means unchanged."""

    broker_id: BrokerId
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    """Can only begin; it ends with the next registration."""
    log_directories: tuple[bytes, ...] | None = None
    cordoned_log_directories: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    """A broker was taken out of the cluster for good, not merely stopped."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """A broker was given the producer ids up to the next one, exclusive."""

    broker_id: BrokerId
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class FeatureLevelSet:
    """A feature runs at this level from now on; 0 turns it off."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class OpaqueRecorded:
    """A record of Kafka's that we keep without understanding it."""

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
    | ProducerIdsAllocated
    | FeatureLevelSet
    | OpaqueRecorded
)
