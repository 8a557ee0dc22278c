"""Admin calls for the cluster: its brokers, their disks, API versions and features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from moldau import __version__
from moldau.base.errors import ProtocolError
from moldau.client.administration.face import Calls
from moldau.client.errors import (
    ClientError,
    InvalidArgument,
    UnsupportedVersion,
    broker_error,
)
from moldau.client.records import TopicPartition
from moldau.engine.asking import by_topic
from moldau.engine.cluster import Node
from moldau.engine.handshake import SOFTWARE_NAME
from moldau.engine.partitions import as_partitions, several
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import (
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from moldau.protocol.messages.log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    MetadataRequest,
)
from moldau.protocol.registry import find_api

FENCED_BROKERS = 2
"""The version of DescribeCluster that tells of fenced brokers too (KIP-1073)."""
FEATURES = 3
"""The version of ApiVersions that tells of features (KIP-584)."""
UPGRADE_TYPES = 1
"""The version of UpdateFeatures that knows unsafe downgrades and can merely validate (KIP-778)."""
LEVEL_MAX = 32_767


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker and its advertised address."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False
    """Whether the controller has fenced it."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of a cluster, its id and its controller."""

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """A replica in a log directory."""

    size: int
    offset_lag: int
    """Offsets behind the high watermark, or behind the replica it will replace."""
    is_future: bool
    """Whether it is being moved to this directory."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker."""

    path: str
    error: ClientError | None
    """The directory's error, such as a failed disk; None if it is online."""
    replicas: Mapping[TopicPartition, ReplicaDescription]
    total_bytes: int | None
    """The size of the volume; None if the broker does not report it."""
    usable_bytes: int | None
    is_cordoned: bool = False
    """Whether it accepts no new replicas (KIP-1066)."""


class ApiRange(NamedTuple):
    """The versions of an API that a broker supports, both ends included."""

    name: str
    first: int
    last: int


class FeatureRange(NamedTuple):
    """The levels of a feature, both ends included."""

    first: int
    last: int


class UpgradeType(IntEnum):
    """Whether to upgrade or downgrade features, and what may be lost (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Refused if metadata could be lost."""
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """The features of a cluster (KIP-584)."""

    supported: Mapping[str, FeatureRange]
    """The levels that the broker supports."""
    finalized: Mapping[str, FeatureRange]
    """The levels in use."""
    finalized_epoch: int | None


class ClusterCalls(Calls):
    """Admin calls for a cluster and its brokers."""

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout_ms: float | None = None
    ) -> ClusterDescription:
        """Describe the cluster: `(await admin.describe_cluster()).controller_id`."""

        async def attempt() -> ClusterDescription:
            try:
                return await self._described(include_fenced)
            except UnsupportedVersion:
                if include_fenced:
                    raise
                return await self._described_by_metadata()

        return await self._asking.until_done(attempt, self._asking.deadline(timeout_ms))

    async def _described(self, include_fenced: bool) -> ClusterDescription:
        request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
        least = FENCED_BROKERS if include_fenced else 0
        answer = await self._asking.ask(Node.ANY, request, least=least)
        raise_for(answer.error_code, answer.error_message)
        brokers = [
            BrokerDescription(one.broker_id, one.host, one.port, one.rack, one.is_fenced)
            for one in answer.brokers
        ]
        return _cluster(answer.cluster_id, answer.controller_id, brokers)

    async def _described_by_metadata(self) -> ClusterDescription:
        """Ask brokers before 2.8, which have no question for it (KIP-700)."""
        answer = await self._asking.ask(Node.ANY, MetadataRequest([]), least=1)
        raise_for(answer.error_code)
        brokers = [
            BrokerDescription(one.node_id, one.host, one.port, one.rack) for one in answer.brokers
        ]
        return _cluster(answer.cluster_id, answer.controller_id, brokers)

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        *,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout_ms: float | None = None,
    ) -> Results[int, tuple[LogDirDescription, ...]]:
        """Describe the log directories of brokers: `(await admin.describe_log_dirs())[1]`.

        By default of all brokers and all partitions.
        """
        deadline = self._asking.deadline(timeout_ms)
        wanted = None
        if partitions is not None:
            wanted = [
                DescribableLogDirTopic(*each)
                for each in by_topic(as_partitions(partitions)).items()
            ]

        async def ask(broker_id: int) -> tuple[LogDirDescription, ...]:
            answer = await self._asking.ask(broker_id, DescribeLogDirsRequest(wanted))
            raise_for(answer.error_code)
            return tuple(_log_dir(one) for one in answer.results)

        brokers = await self._brokers(broker_ids, deadline)
        return await self._asking.of_brokers(brokers, ask, deadline)

    async def describe_api_versions(
        self, broker_ids: Iterable[int] | None = None, *, timeout_ms: float | None = None
    ) -> Results[int, dict[int, ApiRange]]:
        """Return the APIs of brokers by key: `(await admin.describe_api_versions())[1][0]`."""
        deadline = self._asking.deadline(timeout_ms)

        async def ask(broker_id: int) -> dict[int, ApiRange]:
            answer = await self._api_versions(broker_id)
            return {
                one.api_key: ApiRange(_api_name(one.api_key), one.min_version, one.max_version)
                for one in answer.api_keys
            }

        brokers = await self._brokers(broker_ids, deadline)
        return await self._asking.of_brokers(brokers, ask, deadline)

    async def describe_features(
        self, *, broker_id: int | None = None, timeout_ms: float | None = None
    ) -> FeatureDescription:
        """Return the features in use: `(await admin.describe_features()).finalized`."""

        async def attempt() -> FeatureDescription:
            node = Node.ANY if broker_id is None else broker_id
            answer = await self._api_versions(node, least=FEATURES)
            epoch = answer.finalized_features_epoch
            return FeatureDescription(
                {
                    one.name: FeatureRange(one.min_version, one.max_version)
                    for one in answer.supported_features
                },
                {
                    one.name: FeatureRange(one.min_version_level, one.max_version_level)
                    for one in answer.finalized_features
                },
                epoch if epoch >= 0 else None,
            )

        return await self._asking.until_done(attempt, self._asking.deadline(timeout_ms))

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Set the levels of features; 0 disables one: `await admin.update_features({"f": 2})`.

        Since Kafka 4.0, all of them or none are set. `validate_only` only checks the request.
        """
        deadline = self._asking.deadline(timeout_ms)
        if not levels:
            return Results({}, {})
        for name, level in levels.items():
            if abs(level) > LEVEL_MAX:
                raise InvalidArgument(f"{level} is no level of {name}")
        is_new = validate_only or upgrade_type is UpgradeType.UNSAFE_DOWNGRADE

        async def attempt(tally: Tally[str, None]) -> None:
            request = UpdateFeaturesRequest(
                self._asking.patience_ms(deadline),
                [
                    FeatureUpdateKey(
                        name, levels[name], upgrade_type is not UpgradeType.UPGRADE, upgrade_type
                    )
                    for name in tally.waiting
                ],
                validate_only,
            )
            least = UPGRADE_TYPES if is_new else 0
            answer = await self._asking.ask(Node.CONTROLLER, request, least=least)
            raise_for(answer.error_code, answer.error_message)
            for told in answer.results:
                if told.error_code != ErrorCode.NONE:
                    tally.fail(told.feature, broker_error(told.error_code, told.error_message))
            for name in [name for name, error in tally.waiting.items() if error is None]:
                tally.done(name, None)

        return await self._asking.settle(levels, attempt, deadline)

    async def unregister_broker(self, broker_id: int, *, timeout_ms: float | None = None) -> None:
        """Remove a stopped broker from the cluster for good: `await admin.unregister_broker(4)`.

        It leaves every ISR and stays in the replica lists of partitions: move these before.
        """
        may_be_done = False

        async def attempt() -> None:
            nonlocal may_be_done
            try:
                answer = await self._asking.ask(Node.CONTROLLER, UnregisterBrokerRequest(broker_id))
            except ClientError:
                may_be_done = True  # the answer may have been lost, and not the request
                raise
            if not (may_be_done and answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED):
                raise_for(answer.error_code, answer.error_message)

        await self._asking.until_done(attempt, self._asking.deadline(timeout_ms))

    async def _api_versions(self, node: int | Node, least: int = 0) -> ApiVersionsResponse:
        request = ApiVersionsRequest(SOFTWARE_NAME, __version__)
        answer: ApiVersionsResponse = await self._asking.ask(node, request, least=least)
        raise_for(answer.error_code)
        return answer

    async def _brokers(self, broker_ids: Iterable[int] | None, deadline: float) -> list[int]:
        if broker_ids is not None:
            return several(broker_ids, "broker_ids")

        async def attempt() -> list[int]:
            return list((await self._asking.cluster.refresh(())).brokers)

        return await self._asking.until_done(attempt, deadline)


def _cluster(
    cluster_id: str | None, controller_id: int, brokers: Iterable[BrokerDescription]
) -> ClusterDescription:
    return ClusterDescription(
        cluster_id,
        controller_id if controller_id >= 0 else None,
        tuple(sorted(brokers, key=lambda one: one.broker_id)),
    )


def _log_dir(told: DescribeLogDirsResult) -> LogDirDescription:
    error = None if told.error_code == ErrorCode.NONE else broker_error(told.error_code)
    return LogDirDescription(
        told.log_dir,
        error,
        {
            TopicPartition(topic.name, one.partition_index): ReplicaDescription(
                one.partition_size, one.offset_lag, one.is_future_key
            )
            for topic in told.topics
            for one in topic.partitions
        },
        told.total_bytes if told.total_bytes >= 0 else None,
        told.usable_bytes if told.usable_bytes >= 0 else None,
        told.is_cordoned,
    )


def _api_name(key: int) -> str:
    try:
        return find_api(key).name
    except ProtocolError:
        return f"API {key}"
