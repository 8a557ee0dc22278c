"""The metadata log of a cluster, its voter, who observes it, and its features.

DescribeQuorum 0-2, UpdateFeatures 0-2, AddRaftVoter 0-1, RemoveRaftVoter 0, UnregisterBroker 0,
UnregisterController 0. One broker is the only voter of its quorum, and stays it; the others observe
its log. Levels of features stay as they are; an update to the level that is in force is accepted,
as by Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from moldau.base.clock import Clock
from moldau.base.ids import ZERO_TOPIC_ID, BrokerId
from moldau.cluster.features import SAFE_DOWNGRADE, FeatureUpdate, check_update
from moldau.cluster.image import MetadataImage
from moldau.cluster.metadata_feed import ObserverState
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

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0
RESULTS_UP_TO: Final = 1
"""From the next version of UpdateFeatures on, the answer names no single features."""


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


class Unregistration(Protocol):
    """What takes brokers out of the cluster; the controller."""

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        """Forget a broker for good; ApiError, StoreFailed."""
        ...


class QuorumHandlers:
    """Answers what asks for the quorum and its features."""

    def __init__(
        self,
        state: QuorumState,
        broker_id: BrokerId,
        clock: Clock,
        controller: Unregistration,
        observers: Callable[[], Sequence[ObserverState]],
        endpoints: Sequence[QuorumListener] = (),
    ) -> None:
        """`endpoints` are those of the controller; empty where no other node can join it."""
        self._state = state
        self._broker_id = broker_id
        self._clock = clock
        self._controller = controller
        self._observers = observers
        self._endpoints = endpoints

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
        state, now_ms = self._state, self._clock.wall_ms()
        end = state.image.version
        directory = state.metadata_directory_id if state.kraft_version else ZERO_TOPIC_ID
        voter = QuorumReplicaState(self._broker_id, directory, end, now_ms, now_ms)
        partition = DescribeQuorumPartitionResponse(
            METADATA_PARTITION,
            ErrorCode.NONE,
            "",
            self._broker_id,
            state.leader_epoch,
            end,
            [voter],
            [
                QuorumReplicaState(
                    one.node_id,
                    one.directory_id,
                    one.end_offset,
                    one.last_fetch_ms,
                    one.last_caught_up_ms,
                )
                for one in self._observers()
            ],
        )
        return DescribeQuorumResponse(
            ErrorCode.NONE,
            "",
            [DescribeQuorumTopicResponse(METADATA_TOPIC, [partition])],
            [QuorumNode(self._broker_id, self._listeners())],
        )

    def _listeners(self) -> list[QuorumListener]:
        """Name where the voter is reached; one that nobody can join by its broker's addresses."""
        if self._endpoints:
            return list(self._endpoints)
        broker = self._state.image.brokers.get(self._broker_id)
        endpoints = broker.endpoints if broker is not None else ()
        return [QuorumListener(one.listener, one.host, one.port) for one in endpoints]

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
        except ApiError as error:
            return UnregisterBrokerResponse(0, error.code, error.message)
        except StoreFailed as error:
            return UnregisterBrokerResponse(0, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return UnregisterBrokerResponse(0, ErrorCode.NONE, None)

    def unregister_controller(
        self, request: UnregisterControllerRequest, context: RequestContext
    ) -> UnregisterControllerResponse:
        """Refuse to forget a controller: there is none beside this broker."""
        del context
        text = f"There is no controller {request.controller_id} to unregister."
        return UnregisterControllerResponse(0, ErrorCode.UNKNOWN_CONTROLLER_ID, text)

    # UpdateFeatures

    def update_features(
        self, request: UpdateFeaturesRequest, context: RequestContext
    ) -> Sliced[UpdateFeaturesResponse]:
        """Accept the levels that are in force; all updates or none."""
        image, kraft_version = self._state.image, self._state.kraft_version
        updates = yield from fold(request.feature_updates, lambda one: one.feature)
        response = UpdateFeaturesResponse(error_message=None)
        for name, one in updates.elements.items():
            kind = one.upgrade_type
            if one.allow_downgrade:
                kind = SAFE_DOWNGRADE
            try:
                check_update(image, kraft_version, FeatureUpdate(name, one.max_version_level, kind))
            except ApiError as error:
                return UpdateFeaturesResponse(0, error.code, error.message)
            if context.version <= RESULTS_UP_TO:
                response.results.append(UpdatableFeatureResult(name, ErrorCode.NONE, "NONE"))
            yield
        return response


def _is_metadata(asked: FoldedPartitions[str, Any]) -> bool:
    """Tell whether exactly the metadata's one partition is asked for."""
    partitions = asked.topics.get(METADATA_TOPIC, {})
    return len(asked.topics) == len(partitions) == 1 and METADATA_PARTITION in partitions
