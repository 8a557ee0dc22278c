"""Asks the controller of another node, by Kafka's own requests.

What a broker asks for on its own: to be a member, ISR changes, directories of replicas, producer
ids, topics that clients have named. What clients ask for goes through envelopes instead
(`forwarding`).

An answer that did not come is NOT_CONTROLLER: the caller cannot know whether the change was made,
and asks again. Every one of these requests may be sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from moldau.base.ids import BrokerId, LeaderEpoch, TopicId
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.controller_requests import ProducerIdBlock
from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer
from moldau.cluster.isr_changes import IsrAnswer, IsrProposal
from moldau.cluster.model import Topic
from moldau.cluster.topics import NewTopic
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from moldau.protocol.messages.log_dirs import (
    AssignReplicasDirectory,
    AssignReplicasPartition,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasTopic,
)
from moldau.protocol.messages.replication import (
    AlterPartitionIsrMember,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionState,
    AlterPartitionTopic,
)
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.transactions import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.server.nodes.image_waits import ImageWaits

CREATE_TIMEOUT_MS = 30_000
"""How long the controller may take for a topic that a client has named."""


class Channel(Protocol):
    """A way to the controller; `ElectedChannel`."""

    async def call(self, request: Any, /) -> Any: ...

    def look_elsewhere(self) -> None: ...

    async def close(self) -> None: ...


class Channels:
    """The ways to the controller, one for each kind of request.

    A node answers the requests of one connection in order. A forwarded CreateTopics may take half a
    minute, and a heartbeat behind it would come too late.
    """

    def __init__(self, open_channel: Callable[[str], Channel]) -> None:
        self.membership = open_channel("membership")
        self.proposals = open_channel("isr-proposals")
        self.directories = open_channel("directories")
        self.topics = open_channel("topics")
        self.forwarding = open_channel("forwarding")

    async def close(self) -> None:
        """End all connections."""
        for channel in (
            self.membership,
            self.proposals,
            self.directories,
            self.topics,
            self.forwarding,
        ):
            await channel.close()


class RemoteController:
    """`BrokerRequests` where the controller is in another process."""

    def __init__(self, channels: Channels, waits: ImageWaits) -> None:
        self._channels = channels
        self._waits = waits

    # Membership

    async def register_broker(self, registration: BrokerRegistration) -> int:
        request = BrokerRegistrationRequest(
            registration.broker_id,
            registration.cluster_id or "",
            registration.incarnation_id,
            [RegistrationListener(*endpoint) for endpoint in registration.endpoints],
            [RegistrationFeature(*feature) for feature in registration.features],
            registration.rack,
            log_dirs=list(registration.log_directories),
            previous_broker_epoch=registration.previous_broker_epoch,
        )
        answer: BrokerRegistrationResponse = await _ask(self._channels.membership, request)
        return answer.broker_epoch

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        request = BrokerHeartbeatRequest(
            beat.broker_id,
            beat.broker_epoch,
            beat.metadata_offset,
            beat.want_fence,
            beat.want_shut_down,
            list(beat.offline_directories),
            None if beat.cordoned_directories is None else list(beat.cordoned_directories),
        )
        answer: BrokerHeartbeatResponse = await _ask(self._channels.membership, request)
        return HeartbeatAnswer(answer.is_caught_up, answer.is_fenced, answer.should_shut_down)

    # What leaders and producers need

    async def alter_partitions(
        self, broker_id: BrokerId, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrAnswer]:
        topics: dict[bytes, AlterPartitionTopic] = {}
        for one in proposals:
            topic = topics.setdefault(one.topic_id, AlterPartitionTopic(one.topic_id))
            topic.partitions.append(_state(one))
        request = AlterPartitionRequest(broker_id, broker_epoch, list(topics.values()))
        answer: AlterPartitionResponse = await _ask(self._channels.proposals, request)
        return [
            IsrAnswer(
                TopicId(topic.topic_id),
                one.partition_index,
                ErrorCode.of(one.error_code),
                BrokerId(one.leader_id),
                LeaderEpoch(one.leader_epoch),
                tuple(map(BrokerId, one.isr)),
                bool(one.leader_recovery_state),
                one.partition_epoch,
            )
            for topic in answer.topics
            for one in topic.partitions
        ]

    async def assign_directories(
        self, broker_id: BrokerId, broker_epoch: int, replicas: Sequence[ReplicaDirectory]
    ) -> list[DirectoryAnswer]:
        directories: dict[bytes, AssignReplicasDirectory] = {}
        topics: dict[tuple[bytes, bytes], AssignReplicasTopic] = {}
        for one in replicas:
            topic = topics.get((one.directory, one.topic_id))
            if topic is None:
                topic = topics[one.directory, one.topic_id] = AssignReplicasTopic(one.topic_id)
                directory = AssignReplicasDirectory(one.directory)
                directories.setdefault(one.directory, directory).topics.append(topic)
            topic.partitions.append(AssignReplicasPartition(one.index))
        request = AssignReplicasToDirsRequest(broker_id, broker_epoch, list(directories.values()))
        answer: AssignReplicasToDirsResponse = await _ask(self._channels.directories, request)
        return [
            DirectoryAnswer(
                ReplicaDirectory(TopicId(topic.topic_id), one.partition_index, directory.id),
                ErrorCode.of(one.error_code),
            )
            for directory in answer.directories
            for topic in directory.topics
            for one in topic.partitions
        ]

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> ProducerIdBlock:
        request = AllocateProducerIdsRequest(broker_id, broker_epoch)
        answer: AllocateProducerIdsResponse = await _ask(self._channels.topics, request)
        first = answer.producer_id_start
        return ProducerIdBlock(first, first + answer.producer_id_len)

    async def create_topic(self, wanted: NewTopic) -> Topic:
        request = CreateTopicsRequest([_creatable(wanted)], CREATE_TIMEOUT_MS)
        answer: CreateTopicsResponse = await _ask(self._channels.topics, request)
        (result,) = answer.topics
        if result.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode.of(result.error_code), result.error_message)
        image = await self._waits.until(lambda image: wanted.name in image.topics)
        return image.topics[wanted.name]


async def _ask(channel: Channel, request: Any) -> Any:
    try:
        answer = await channel.call(request)
    except ClientError as error:
        raise ApiError(ErrorCode.NOT_CONTROLLER, str(error)) from error
    code = getattr(answer, "error_code", ErrorCode.NONE)
    if code == ErrorCode.NOT_CONTROLLER:
        channel.look_elsewhere()
    if code != ErrorCode.NONE:
        raise ApiError(ErrorCode.of(code))
    return answer


def _state(proposal: IsrProposal) -> AlterPartitionState:
    return AlterPartitionState(
        proposal.index,
        proposal.leader_epoch,
        [broker_id for broker_id, _ in proposal.isr],
        [AlterPartitionIsrMember(*member) for member in proposal.isr],
        int(proposal.recovering),
        proposal.partition_epoch,
    )


def _creatable(wanted: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        wanted.name,
        wanted.partition_count,
        wanted.replication_factor,
        [CreatableReplicaAssignment(index, list(one)) for index, one in wanted.assignments.items()],
        [CreatableTopicConfig(name, value) for name, value in wanted.configs.items()],
    )
