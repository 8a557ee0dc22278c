"""The admin, for asyncio and for threads: the same names, settings and behaviour.

    async with AsyncAdmin("localhost:9092") as admin:
        await admin.create_topic("payments", partitions=6, configs={"cleanup.policy": "compact"})
        results = await admin.describe_topics(["payments", "refunds"])
        results["payments"].partitions[0].leader       # raises the topic's error if it has one
        print(results.ok, results.errors)

    with Admin("localhost:9092") as admin:
        admin.alter_group_offsets("billing", {("payments", 0): 1234})

A call for one resource returns its result or raises its error. A call for several resources can
succeed in part, so it returns `Results`. Each call goes to the brokers that can answer it, and
retries until `timeout_ms` has passed. A broker that is too old raises UnsupportedVersion.

A cancelled call ends at once; requests already sent may still take effect.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from moldau.client.administration.clusters import (
    ApiRange,
    BrokerDescription,
    ClusterCalls,
    ClusterDescription,
    FeatureDescription,
    FeatureRange,
    LogDirDescription,
    ReplicaDescription,
    UpgradeType,
)
from moldau.client.administration.configs import (
    Append,
    ConfigCalls,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ResourceType,
    Subtract,
)
from moldau.client.administration.face import AdminFace
from moldau.client.administration.group_descriptions import (
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from moldau.client.administration.group_offsets import GroupOffsetCalls
from moldau.client.administration.groups import GroupCalls
from moldau.client.administration.partitions import (
    END,
    ElectionType,
    ListedOffset,
    OffsetSpec,
    PartitionCalls,
    ProducerDescription,
)
from moldau.client.administration.quorum import (
    ControllerEndpoint,
    MetadataQuorum,
    QuorumCalls,
    QuorumReplica,
)
from moldau.client.administration.topic_descriptions import PartitionDescription, TopicDescription
from moldau.client.administration.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicCalls,
    TopicListing,
)
from moldau.client.administration.transactions import (
    FencedProducer,
    HangingTransaction,
    TransactionCalls,
    TransactionDescription,
    TransactionListing,
)
from moldau.client.errors import InvalidState
from moldau.engine.asking import Asking
from moldau.engine.owning_loop import check_loop
from moldau.engine.portal import Portal
from moldau.engine.results import Results

__all__ = [
    "END",
    "Admin",
    "ApiRange",
    "Append",
    "AsyncAdmin",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ControllerEndpoint",
    "CreatedTopic",
    "ElectionType",
    "FeatureDescription",
    "FeatureRange",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "HangingTransaction",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "MetadataQuorum",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "ProducerDescription",
    "QuorumReplica",
    "ReplicaDescription",
    "ResourceType",
    "Results",
    "Subtract",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
]

P = ParamSpec("P")
R = TypeVar("R")


class AdminCalls(
    TransactionCalls,
    TopicCalls,
    PartitionCalls,
    ConfigCalls,
    ClusterCalls,
    QuorumCalls,
    GroupCalls,
    GroupOffsetCalls,
):
    """All calls of an admin."""


class AsyncAdmin(AdminFace, AdminCalls):
    """Administers a cluster from asyncio. Any number of tasks may use it at once."""

    _loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Connect to the cluster; raises NoBrokerReachable if no broker answers.

        `async with` calls it. If cancelled, it leaves no connections or tasks behind.
        """
        self._check_not_closed()
        if self._running is not None:
            raise InvalidState("the admin is already started")
        self._loop = asyncio.get_running_loop()
        self._running = await self._opened()

    @property
    def _asking(self) -> Asking:
        asking = super()._asking
        check_loop(self._loop, "admin")
        return asking

    async def close(self) -> None:
        """Close all connections; running calls raise ClientClosed. May be called twice."""
        running, was_closed = self._running, self._is_closed
        if running is not None and not was_closed:
            check_loop(self._loop, "admin")
        self._is_closed = True
        if running is not None and not was_closed:
            await running.cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class _CallsOnLoop(AdminCalls):
    """The calls as the blocking face has them made on the loop of its own."""

    def __init__(self, asking: Asking) -> None:
        self._given = asking

    @property
    def _asking(self) -> Asking:
        return self._given


def _blocking(
    method: Callable[Concatenate[AdminCalls, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Admin, P], R]:
    """Make a call of asyncio one that waits, with the same signature."""

    def call(self: Admin, /, *arguments: P.args, **options: P.kwargs) -> R:
        return self._wait(method(_CallsOnLoop(self._asking), *arguments, **options))

    functools.update_wrapper(call, method)
    call.__doc__ = (method.__doc__ or "").replace("await ", "")
    return call


class Admin(AdminFace):
    """Administers a cluster from any number of threads. Ctrl-C ends a call at once."""

    _portal: Portal | None = None

    def start(self) -> None:
        """Connect to the cluster; raises NoBrokerReachable if no broker answers.

        `with` calls it.
        """
        self._check_not_closed()
        if self._portal is not None:
            raise InvalidState("the admin is already started")
        portal = Portal("admin")
        try:
            self._running = portal.call(self._opened())
        except BaseException:
            portal.close()
            raise
        self._portal = portal

    def close(self) -> None:
        """Close all connections; running calls raise ClientClosed. May be called twice."""
        running, portal = self._running, self._portal
        self._is_closed = True
        if running is None or portal is None or not portal.is_open:
            return
        try:
            portal.call(running.cluster.close())
        finally:
            portal.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Have something done on the loop and wait; Ctrl-C ends the wait and the work."""
        assert self._portal is not None
        return self._portal.call(work)

    # Topics

    create_topic = _blocking(AdminCalls.create_topic)
    create_topics = _blocking(AdminCalls.create_topics)
    create_partitions = _blocking(AdminCalls.create_partitions)
    create_partitions_of = _blocking(AdminCalls.create_partitions_of)
    delete_topic = _blocking(AdminCalls.delete_topic)
    delete_topics = _blocking(AdminCalls.delete_topics)
    list_topics = _blocking(AdminCalls.list_topics)
    describe_topic = _blocking(AdminCalls.describe_topic)
    describe_topics = _blocking(AdminCalls.describe_topics)

    # Partitions

    delete_records = _blocking(AdminCalls.delete_records)
    list_offsets = _blocking(AdminCalls.list_offsets)
    describe_producers = _blocking(AdminCalls.describe_producers)
    elect_leaders = _blocking(AdminCalls.elect_leaders)

    # Configs

    describe_config = _blocking(AdminCalls.describe_config)
    describe_configs = _blocking(AdminCalls.describe_configs)
    alter_config = _blocking(AdminCalls.alter_config)
    alter_configs = _blocking(AdminCalls.alter_configs)
    replace_configs = _blocking(AdminCalls.replace_configs)
    list_config_resources = _blocking(AdminCalls.list_config_resources)

    # The cluster

    describe_cluster = _blocking(AdminCalls.describe_cluster)
    describe_log_dirs = _blocking(AdminCalls.describe_log_dirs)
    describe_api_versions = _blocking(AdminCalls.describe_api_versions)
    describe_features = _blocking(AdminCalls.describe_features)
    update_features = _blocking(AdminCalls.update_features)
    unregister_broker = _blocking(AdminCalls.unregister_broker)

    # The metadata quorum

    describe_metadata_quorum = _blocking(AdminCalls.describe_metadata_quorum)
    add_raft_voter = _blocking(AdminCalls.add_raft_voter)
    remove_raft_voter = _blocking(AdminCalls.remove_raft_voter)

    # Groups

    list_groups = _blocking(AdminCalls.list_groups)
    describe_group = _blocking(AdminCalls.describe_group)
    describe_groups = _blocking(AdminCalls.describe_groups)
    delete_group = _blocking(AdminCalls.delete_group)
    delete_groups = _blocking(AdminCalls.delete_groups)
    remove_members = _blocking(AdminCalls.remove_members)
    remove_all_members = _blocking(AdminCalls.remove_all_members)
    list_group_offsets = _blocking(AdminCalls.list_group_offsets)
    list_offsets_of_groups = _blocking(AdminCalls.list_offsets_of_groups)
    alter_group_offsets = _blocking(AdminCalls.alter_group_offsets)
    delete_group_offsets = _blocking(AdminCalls.delete_group_offsets)

    # Transactions

    list_transactions = _blocking(AdminCalls.list_transactions)
    describe_transaction = _blocking(AdminCalls.describe_transaction)
    describe_transactions = _blocking(AdminCalls.describe_transactions)
    find_hanging_transactions = _blocking(AdminCalls.find_hanging_transactions)
    abort_transaction = _blocking(AdminCalls.abort_transaction)
    abort_hanging_transaction = _blocking(AdminCalls.abort_hanging_transaction)
    fence_producer = _blocking(AdminCalls.fence_producer)
    fence_producers = _blocking(AdminCalls.fence_producers)
