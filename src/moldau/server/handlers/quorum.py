"""The metadata log of a cluster, who votes on it and who observes it, and its features.

DescribeQuorum 0-2, UpdateFeatures 0-2, UnregisterBroker 0, UnregisterController 0; and, of a voter
that is alone, AddRaftVoter 0-1 and RemoveRaftVoter 0: it stays alone. The controller decides who is
registered, and at which level a feature is; this translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from moldau.base.ids import BrokerId
from moldau.cluster.feature_updates import SAFE_DOWNGRADE, FeatureUpdate
from moldau.cluster.image import MetadataImage
from moldau.cluster.quorum_description import QuorumDescription
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.protocol.messages.metadata import (
    DescribeQuorumPartitionResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    QuorumListener,
    QuorumNode,
    QuorumReplicaState,
)
from moldau.protocol.messages.raft import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import FoldedPartitions, fold, fold_partitions
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0
RESULTS_UP_TO: Final = 1
"""From the next version of UpdateFeatures on, the answer names no single features."""
UPDATES_MAX: Final = 100
"""How many features one request may name; there are seven."""


class QuorumState(Protocol):
    """What the metadata store knows of its own log."""

    @property
    def image(self) -> MetadataImage:
        """The metadata; its version is the end of the log."""
        ...

    @property
    def leader_id(self) -> int:
        """The node that leads; -1 while it is not known."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch in which that node leads."""
        ...

    @property
    def kraft_version(self) -> int:
        """The level of `kraft.version`; from 1 on voters are known by their directory too."""
        ...

    @property
    def metadata_directory_id(self) -> bytes:
        """The id of the directory that holds the log."""
        ...


class QuorumRequests(Protocol):
    """What the controller is asked here; ApiError, StoreFailed."""

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        """Forget a broker for good."""
        ...

    async def unregister_controller(self, controller_id: BrokerId) -> None:
        """Forget a controller for good."""
        ...

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Set features to other levels, all or none."""
        ...


class QuorumHandlers:
    """Answers what asks for the quorum and its features."""

    def __init__(
        self,
        state: QuorumState,
        broker_id: BrokerId,
        controller: QuorumRequests,
        describe: Callable[[], QuorumDescription | None],
    ) -> None:
        """`describe` tells of the quorum; None if this node does not lead it."""
        self._state = state
        self._broker_id = broker_id
        self._controller = controller
        self._describe = describe

    # DescribeQuorum

    def describe(
        self, request: DescribeQuorumRequest, context: RequestContext
    ) -> Sliced[DescribeQuorumResponse]:
        """Tell who leads the metadata and how far it has come."""
        del context
        asked = yield from fold_partitions(
            ((topic.topic_name, topic.partitions) for topic in request.topics),
            lambda one: one.partition_index,
        )
        if _is_metadata(asked):
            return self._described()
        response = DescribeQuorumResponse(error_message="")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name, partitions in asked.topics.items():
            answered = DescribeQuorumTopicResponse(name)
            response.topics.append(answered)
            for index in partitions:
                answered.partitions.append(
                    DescribeQuorumPartitionResponse(index, unknown, unknown.text)
                )
                yield
        return response

    def _described(self) -> DescribeQuorumResponse:
        found = self._describe()
        partition = DescribeQuorumPartitionResponse(METADATA_PARTITION)
        response = DescribeQuorumResponse(
            error_message="", topics=[DescribeQuorumTopicResponse(METADATA_TOPIC, [partition])]
        )
        if found is None:
            partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            partition.error_message = ErrorCode.NOT_LEADER_OR_FOLLOWER.text
            return response
        partition.error_message = ""
        partition.leader_id, partition.leader_epoch = found.leader_id, found.leader_epoch
        partition.high_watermark = found.high_watermark
        partition.current_voters = [QuorumReplicaState(*one) for one in found.voters]
        partition.observers = [QuorumReplicaState(*one) for one in found.observers]
        response.nodes = [
            QuorumNode(node_id, [QuorumListener(*one) for one in endpoints])
            for node_id, endpoints in found.nodes
        ]
        return response

    # Members

    def add_voter(
        self, request: AddRaftVoterRequest, context: RequestContext
    ) -> AddRaftVoterResponse:
        """Refuse a second voter."""
        del context
        return AddRaftVoterResponse(0, *self._voters_stay(request.cluster_id))

    def remove_voter(
        self, request: RemoveRaftVoterRequest, context: RequestContext
    ) -> RemoveRaftVoterResponse:
        """Refuse to lose the only voter."""
        del context
        return RemoveRaftVoterResponse(0, *self._voters_stay(request.cluster_id))

    def _voters_stay(self, cluster_id: str | None) -> tuple[ErrorCode, str]:
        if cluster_id not in (None, self._state.image.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INCONSISTENT_CLUSTER_ID.text
        return ErrorCode.UNSUPPORTED_VERSION, "The voters of one broker's quorum do not change."

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, context: RequestContext
    ) -> UnregisterBrokerResponse:
        """Forget a broker that will not come back; not this one, which is at work."""
        del context
        broker_id = BrokerId(request.broker_id)
        if broker_id == self._broker_id:
            text = f"Broker {broker_id} is the controller, and is not removed."
            return UnregisterBrokerResponse(0, ErrorCode.INVALID_REQUEST, text)
        try:
            await self._controller.unregister_broker(broker_id)
        except (ApiError, StoreFailed) as error:
            return UnregisterBrokerResponse(0, *_told(error))
        return UnregisterBrokerResponse(0, ErrorCode.NONE, None)

    async def unregister_controller(
        self, request: UnregisterControllerRequest, context: RequestContext
    ) -> UnregisterControllerResponse:
        """Forget a controller that will not come back."""
        del context
        try:
            await self._controller.unregister_controller(BrokerId(request.controller_id))
        except (ApiError, StoreFailed) as error:
            return UnregisterControllerResponse(0, *_told(error))
        return UnregisterControllerResponse(0, ErrorCode.NONE, None)

    # UpdateFeatures

    async def update_features(
        self, request: UpdateFeaturesRequest, context: RequestContext
    ) -> UpdateFeaturesResponse:
        """Set features to other levels; all of them or none."""
        folded = await take_turns(fold(request.feature_updates, lambda one: one.feature))
        if len(folded.elements) > UPDATES_MAX:
            problem = f"{len(folded.elements)} features are named, at most {UPDATES_MAX} may be."
            return UpdateFeaturesResponse(0, ErrorCode.INVALID_REQUEST, problem)
        updates = [
            FeatureUpdate(
                name,
                one.max_version_level,
                SAFE_DOWNGRADE if one.allow_downgrade else one.upgrade_type,
            )
            for name, one in folded.elements.items()
        ]
        try:
            await self._controller.update_features(updates, validate_only=request.validate_only)
        except (ApiError, StoreFailed) as error:
            return UpdateFeaturesResponse(0, *_told(error))
        response = UpdateFeaturesResponse(error_message=None)
        if context.version <= RESULTS_UP_TO:
            response.results = [
                UpdatableFeatureResult(one.name, ErrorCode.NONE, "NONE") for one in updates
            ]
        return response


def _told(error: ApiError | StoreFailed) -> tuple[ErrorCode, str | None]:
    if isinstance(error, ApiError):
        return error.code, error.message
    return ErrorCode.KAFKA_STORAGE_ERROR, str(error)


def _is_metadata(asked: FoldedPartitions[str, Any]) -> bool:
    """Tell whether exactly the metadata's one partition is asked for."""
    partitions = asked.topics.get(METADATA_TOPIC, {})
    return len(asked.topics) == len(partitions) == 1 and METADATA_PARTITION in partitions
