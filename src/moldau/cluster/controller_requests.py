"""Requests of a broker to the controller: the third part of the metadata port (ADR 0012).

Handlers and the start of the broker use this port only. Today `controller` implements it, in the
same process. In a cluster most brokers will send a request to another node instead.

So arguments and results are plain values, and no method takes a function: the controller decides,
on its own image, with the pure functions of this package. Each method has one counterpart among
Kafka's requests, named in its docstring, so it can travel as that.

All implementations promise:

* A method returns after the change is durable **and** in this broker's own image. A caller that
  reads the image next finds the change there, whichever broker is the controller.
* ApiError means that the controller refused; nothing was changed. NOT_CONTROLLER means that no
  controller accepts the request now; the caller may try again.
* StoreFailed means that the change could not be made durable.
* With `validate_only` the controller decides and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.config_operations import ConfigOperation
from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.elections import ElectionAnswer
from moldau.cluster.feature_updates import FeatureUpdate
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer
from moldau.cluster.isr_changes import IsrAnswer, IsrProposal
from moldau.cluster.model import ConfigResource, RegisteredController, Topic
from moldau.cluster.reassignment import ReassignmentAnswer, WantedReplicas
from moldau.cluster.topics import NewTopic


class ProducerIdBlock(NamedTuple):
    """Producer ids that one broker may give out: from `first` to `end`, exclusive."""

    first: int
    end: int


class BrokerRequests(Protocol):
    """What a broker asks of the controller on its own, wherever that is."""

    async def create_topic(self, wanted: NewTopic) -> Topic:
        """Create a topic that a client has named, or an internal one, and return it (CreateTopics).

        Its configs must have been checked: the tables of legal configs are the same on all brokers.
        """
        ...

    async def register_broker(self, registration: BrokerRegistration) -> int:
        """Register a broker that starts and return its epoch (BrokerRegistration).

        It is fenced until a heartbeat unfences it.
        """
        ...

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Keep a broker's session up, and let it serve or stop (BrokerHeartbeat)."""
        ...

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> ProducerIdBlock:
        """Give a registered broker producer ids that nobody had before (AllocateProducerIds)."""
        ...

    async def alter_partitions(
        self, broker_id: BrokerId, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrAnswer]:
        """Change the ISR of partitions that a broker leads (AlterPartition).

        One answer for each proposal, in their order.
        """
        ...

    async def assign_directories(
        self, broker_id: BrokerId, broker_epoch: int, replicas: Sequence[ReplicaDirectory]
    ) -> list[DirectoryAnswer]:
        """Record in which log directories a broker's replicas lie (AssignReplicasToDirs)."""
        ...


class ControllerRequests(BrokerRequests, Protocol):
    """Everything that the controller may be asked to change, in its own process.

    What clients ask for is forwarded to the controller, and is answered by the handlers there.
    """

    async def create_topic(self, wanted: NewTopic, *, validate_only: bool = False) -> Topic:
        """Create a topic and return it (CreateTopics).

        The caller must have validated its configs: all brokers have the same table of configs.
        """
        ...

    async def grow_topic(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[BrokerId]] | None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Add partitions up to this count (CreatePartitions)."""
        ...

    async def delete_topic(self, name: str) -> None:
        """Delete a topic by name (DeleteTopics)."""
        ...

    async def delete_topic_by_id(self, topic_id: TopicId) -> None:
        """Delete a topic by id (DeleteTopics)."""
        ...

    async def replace_configs(
        self,
        resource: ConfigResource,
        configs: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Give a resource a new set of configs (AlterConfigs)."""
        ...

    async def alter_configs(
        self,
        resource: ConfigResource,
        operations: Sequence[ConfigOperation],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single configs of a resource (IncrementalAlterConfigs)."""
        ...

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        """Take a broker out of the cluster for good (UnregisterBroker)."""
        ...

    async def elect_leaders(
        self, wanted: Mapping[str, Iterable[int]] | None, *, preferred: bool
    ) -> list[ElectionAnswer]:
        """Elect leaders of these partitions by topic, or of all (ElectLeaders).

        `preferred` elects the preferred replicas; otherwise any replica where there is no leader.
        """
        ...

    async def alter_reassignments(
        self, wanted: Sequence[WantedReplicas], *, may_change_replica_count: bool = True
    ) -> list[ReassignmentAnswer]:
        """Move replicas, or cancel such moves (AlterPartitionReassignments).

        One answer for each partition that is named, in their order.
        """
        ...

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Set features to other levels, all or none (UpdateFeatures)."""
        ...

    async def register_controller(self, registration: RegisteredController) -> None:
        """Note what a controller that starts says of itself (ControllerRegistration).

        It may say the same again.
        """
        ...

    async def unregister_controller(self, controller_id: BrokerId) -> None:
        """Take a controller out of the cluster for good (UnregisterController)."""
        ...
