"""Requests of brokers to the controller: membership, ISR changes, producer ids.

BrokerRegistration 0-4, BrokerHeartbeat 0-2, AlterPartition 2-3, AllocateProducerIds 0. They are
served on the controller's listeners only. The controller decides; this translates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from moldau.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId
from moldau.cluster.brokers import BROKERS_MAX, BrokerRegistration
from moldau.cluster.controller_requests import BrokerRequests
from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.heartbeats import Heartbeat
from moldau.cluster.isr_changes import ANY_BROKER_EPOCH, IsrAnswer, IsrProposal
from moldau.cluster.model import Endpoint, FeatureRange
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from moldau.protocol.messages.log_dirs import (
    AssignReplicasDirectoryResult,
    AssignReplicasPartitionResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasTopicResult,
)
from moldau.protocol.messages.replication import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionStateResponse,
    AlterPartitionTopicResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from moldau.protocol.messages.transactions import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

REGISTERED_MAX: Final = 100
"""How many listeners, features or log directories a broker may have: each one is part of every
image of the metadata, and of the decision about every other registration, which takes 2 ms beside
a thousand brokers with so many directories."""
TEXT_MAX: Final = 255
"""How long the names and hosts in a registration may be, as the name of a host can be."""

ASSIGNED_MAX: Final = 2_250
"""How many replicas a broker may assign at once; Kafka's brokers send no more."""

EPOCHS_FROM = 3
"""The first version of AlterPartition that names members with their epochs (KIP-903)."""
PROPOSALS_MAX: Final = 5_000
"""Proposals of one AlterPartition: ten times what our brokers send. They lie in the queue of the
controller's decisions until it is their turn."""
PROPOSALS_PER_STEP: Final = 200
"""Proposals that are read or answered in one turn of the loop: half a millisecond."""


class MemberRequests(BrokerRequests, Protocol):
    """What the controller of this process answers brokers."""

    async def shut_down_broker(self, broker_id: BrokerId, broker_epoch: int) -> list[PartitionKey]:
        """Move a broker's leaders away, and return what it still leads (ControlledShutdown)."""
        ...


class MemberHandlers:
    """Answers brokers, where the controller is in this process."""

    def __init__(self, requests: MemberRequests) -> None:
        self._requests = requests

    async def register(
        self, request: BrokerRegistrationRequest, context: RequestContext
    ) -> BrokerRegistrationResponse:
        """Take a broker in, fenced at first."""
        del context
        if not _is_reasonable(request):
            return BrokerRegistrationResponse(0, ErrorCode.INVALID_REGISTRATION)
        registration = BrokerRegistration(
            BrokerId(request.broker_id),
            request.incarnation_id,
            tuple(
                Endpoint(one.name, one.host, one.port, one.security_protocol)
                for one in request.listeners
            ),
            tuple(request.log_dirs),
            request.rack,
            features=tuple(
                FeatureRange(one.name, one.min_supported_version, one.max_supported_version)
                for one in request.features
            ),
            previous_broker_epoch=request.previous_broker_epoch,
            cluster_id=request.cluster_id,
        )
        try:
            epoch = await self._requests.register_broker(registration)
        except (ApiError, StoreFailed) as error:
            return BrokerRegistrationResponse(0, _code(error))
        return BrokerRegistrationResponse(0, ErrorCode.NONE, epoch)

    async def heartbeat(
        self, request: BrokerHeartbeatRequest, context: RequestContext
    ) -> BrokerHeartbeatResponse:
        """Note that a broker is alive, and tell it whether it may serve or stop."""
        del context
        cordoned = request.cordoned_log_dirs
        if max(len(request.offline_log_dirs), len(cordoned or ())) > REGISTERED_MAX:
            return BrokerHeartbeatResponse(0, ErrorCode.INVALID_REQUEST)
        beat = Heartbeat(
            BrokerId(request.broker_id),
            request.broker_epoch,
            request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            offline_directories=tuple(request.offline_log_dirs),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
        )
        try:
            answer = await self._requests.heartbeat(beat)
        except (ApiError, StoreFailed) as error:
            return BrokerHeartbeatResponse(0, _code(error))
        return BrokerHeartbeatResponse(
            0, ErrorCode.NONE, answer.is_caught_up, answer.is_fenced, answer.should_shut_down
        )

    async def shut_down(
        self, request: ControlledShutdownRequest, context: RequestContext
    ) -> ControlledShutdownResponse:
        """Move a broker's leaders away before it stops, and name those that are left."""
        del context
        try:
            left = await self._requests.shut_down_broker(
                BrokerId(request.broker_id), request.broker_epoch
            )
        except (ApiError, StoreFailed) as error:
            return ControlledShutdownResponse(_code(error))
        return ControlledShutdownResponse(
            ErrorCode.NONE, [RemainingPartition(*key) for key in left]
        )

    async def alter_partitions(
        self, request: AlterPartitionRequest, context: RequestContext
    ) -> AlterPartitionResponse:
        """Change the ISRs that a leader proposes, each by itself."""
        if sum(len(topic.partitions) for topic in request.topics) > PROPOSALS_MAX:
            return AlterPartitionResponse(0, ErrorCode.INVALID_REQUEST)
        with_epochs = context.version >= EPOCHS_FROM
        proposals = await take_turns(_proposals(request, with_epochs=with_epochs))
        try:
            answers = await self._requests.alter_partitions(
                BrokerId(request.broker_id), request.broker_epoch, proposals
            )
        except (ApiError, StoreFailed) as error:
            return AlterPartitionResponse(0, _code(error))
        return AlterPartitionResponse(0, ErrorCode.NONE, await take_turns(_by_topic(answers)))

    async def assign_directories(
        self, request: AssignReplicasToDirsRequest, context: RequestContext
    ) -> AssignReplicasToDirsResponse:
        """Note in which log directories a broker's replicas lie, each by itself."""
        del context
        topics = (topic for directory in request.directories for topic in directory.topics)
        if sum(len(topic.partitions) for topic in topics) > ASSIGNED_MAX:
            return AssignReplicasToDirsResponse(0, ErrorCode.INVALID_REQUEST)
        replicas = [
            ReplicaDirectory(TopicId(topic.topic_id), one.partition_index, directory.id)
            for directory in request.directories
            for topic in directory.topics
            for one in topic.partitions
        ]
        try:
            answers = await self._requests.assign_directories(
                BrokerId(request.broker_id), request.broker_epoch, replicas
            )
        except (ApiError, StoreFailed) as error:
            return AssignReplicasToDirsResponse(0, _code(error))
        return AssignReplicasToDirsResponse(0, ErrorCode.NONE, _by_directory(answers))

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, context: RequestContext
    ) -> AllocateProducerIdsResponse:
        """Give a broker producer ids that nobody had before."""
        del context
        try:
            block = await self._requests.allocate_producer_ids(
                BrokerId(request.broker_id), request.broker_epoch
            )
        except (ApiError, StoreFailed) as error:
            return AllocateProducerIdsResponse(0, _code(error))
        return AllocateProducerIdsResponse(0, ErrorCode.NONE, block.first, block.end - block.first)


def _is_reasonable(request: BrokerRegistrationRequest) -> bool:
    """Tell whether a registration can be that of a broker; Kafka sets no limits here."""
    lists = (request.listeners, request.features, request.log_dirs)
    if request.broker_id < 0 or any(len(one) > REGISTERED_MAX for one in lists):
        return False
    texts = [request.rack or "", *(one.name for one in request.features)]
    for listener in request.listeners:
        texts += (listener.name, listener.host)
    return all(len(text) <= TEXT_MAX for text in texts)


def _code(error: ApiError | StoreFailed) -> ErrorCode:
    return error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR


def _proposals(request: AlterPartitionRequest, *, with_epochs: bool) -> Sliced[list[IsrProposal]]:
    proposals = []
    for topic in request.topics:
        topic_id = TopicId(topic.topic_id)
        for one in topic.partitions:
            # Cut, an absurd list is still longer than any ISR, and is refused for that.
            if with_epochs:
                named = one.new_isr_with_epochs[: BROKERS_MAX + 1]
                isr = tuple((BrokerId(each.broker_id), each.broker_epoch) for each in named)
            else:
                ids = one.new_isr[: BROKERS_MAX + 1]
                isr = tuple((BrokerId(each), ANY_BROKER_EPOCH) for each in ids)
            proposal = IsrProposal(
                topic_id,
                one.partition_index,
                LeaderEpoch(one.leader_epoch),
                one.partition_epoch,
                isr,
                recovering=bool(one.leader_recovery_state),
            )
            proposals.append(proposal)
            if not len(proposals) % PROPOSALS_PER_STEP:
                yield
    return proposals


def _by_topic(answers: Sequence[IsrAnswer]) -> Sliced[list[AlterPartitionTopicResponse]]:
    topics: dict[bytes, AlterPartitionTopicResponse] = {}
    for count, answer in enumerate(answers, 1):
        topic = topics.setdefault(answer.topic_id, AlterPartitionTopicResponse(answer.topic_id))
        topic.partitions.append(_answer(answer))
        if not count % PROPOSALS_PER_STEP:
            yield
    return list(topics.values())


def _by_directory(answers: Sequence[DirectoryAnswer]) -> list[AssignReplicasDirectoryResult]:
    directories: dict[bytes, AssignReplicasDirectoryResult] = {}
    topics: dict[tuple[bytes, bytes], AssignReplicasTopicResult] = {}
    for answer in answers:
        place = answer.replica.directory, answer.replica.topic_id
        topic = topics.get(place)
        if topic is None:
            topic = topics[place] = AssignReplicasTopicResult(answer.replica.topic_id)
            result = AssignReplicasDirectoryResult(answer.replica.directory)
            directories.setdefault(answer.replica.directory, result).topics.append(topic)
        topic.partitions.append(AssignReplicasPartitionResult(answer.replica.index, answer.error))
    return list(directories.values())


def _answer(answer: IsrAnswer) -> AlterPartitionStateResponse:
    return AlterPartitionStateResponse(
        answer.index,
        answer.error,
        answer.leader,
        answer.leader_epoch,
        list(answer.isr),
        int(answer.recovering),
        answer.partition_epoch,
    )
