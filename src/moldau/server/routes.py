"""Which APIs this broker answers, in which versions, and who answers them.

The ranges go from Kafka 1.x, and older, up to the newest release. Every API of Kafka's brokers is
served, but for telemetry, which Kafka without a reporter for it does not advertise either. What
the broker does not have is answered as by a Kafka where it is disabled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from moldau.cluster.model import ResourceType
from moldau.cluster.quorum_description import QuorumDescription
from moldau.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from moldau.protocol.single_fetch import FETCH_KEY
from moldau.security.session import Session
from moldau.server.api_permissions import API_PERMISSIONS
from moldau.server.configuration.log_levels import LogLevels
from moldau.server.configuration.quorum import NodeKind
from moldau.server.fetch.sessions import FetchSessions
from moldau.server.handlers import access, quotas
from moldau.server.handlers.api_versions import ApiVersionsHandler
from moldau.server.handlers.commit_fast_path import OFFSET_COMMIT_KEY, CommitFastPath
from moldau.server.handlers.configs import ConfigHandlers
from moldau.server.handlers.disabled_groups import DISABLED_ROWS
from moldau.server.handlers.discovery import DiscoveryHandlers
from moldau.server.handlers.fetch import FetchHandler
from moldau.server.handlers.fetch_fast_path import FetchFastPath
from moldau.server.handlers.find_coordinator import CoordinatorHandlers
from moldau.server.handlers.group_offsets import GroupOffsetHandlers
from moldau.server.handlers.groups import GroupHandlers
from moldau.server.handlers.log_dirs import LogDirHandler
from moldau.server.handlers.offset_fetch import OffsetFetchHandler
from moldau.server.handlers.offsets import OffsetHandlers
from moldau.server.handlers.produce import ProduceHandler
from moldau.server.handlers.produce_fast_path import PRODUCE_KEY, ProduceFastPath
from moldau.server.handlers.quorum import QuorumHandlers
from moldau.server.handlers.reassignment import ReassignmentHandlers
from moldau.server.handlers.replica_directories import ReplicaDirectoryHandler
from moldau.server.handlers.sync_fast_path import SYNC_GROUP_KEY, SyncFastPath
from moldau.server.handlers.topics import TopicHandlers
from moldau.server.handlers.transaction_admin import TransactionAdminHandlers
from moldau.server.handlers.transactions import TransactionHandlers
from moldau.server.lifecycle.internal_topics import InternalTopics
from moldau.server.lifecycle.topic_admin import TopicAdmin, TopicCreation
from moldau.server.network.dispatch import FastPath, Route
from moldau.server.nodes.forwarding import FORWARDED, Forwarder
from moldau.server.nodes.leader_hints import LeaderHints
from moldau.server.parts import Parts
from moldau.server.transactions.producer_ids import ProducerIds
from moldau.server.transactions.writes import TransactionalWrites, marker_state

REPLICAS_ALONE = 1
"""Nobody can join a broker that stands alone, so that nothing can have a second replica."""
REPLICAS_MAX = 32_767
"""In a cluster the settings count, as in Kafka: a topic waits until there are enough brokers."""

ALTER_CONFIGS_KEYS = frozenset({33, 44})

Row = tuple[int, str, Callable[..., Any]]
"""An API's key, the versions served, and who serves them."""


ACCESS_ROWS: tuple[Row, ...] = (
    (17, "0-1", access.sasl_handshake),
    (29, "0-3", access.describe_acls),
    (30, "0-3", access.create_acls),
    (31, "0-3", access.delete_acls),
    (36, "0-2", access.sasl_authenticate),
    (38, "0-3", access.create_token),
    (39, "0-2", access.renew_token),
    (40, "0-2", access.expire_token),
    (41, "0-3", access.describe_tokens),
    (50, "0", access.describe_scram_credentials),
    (51, "0", access.alter_scram_credentials),
)
"""What asks about access, which nothing guards."""

QUOTA_ROWS: tuple[Row, ...] = (
    (48, "0-1", quotas.describe_quotas),
    (49, "0-1", quotas.alter_quotas),
)
"""What asks about quotas, which nothing enforces."""


def make_routes(parts: Parts) -> tuple[list[Route], Callable[[], Any]]:
    """Put the handlers together; also return what answers unknown versions of ApiVersions."""
    settings, metrics = parts.settings, parts.metrics
    topics = TopicAdmin(parts.controller, parts.image, parts.follower)
    creation = TopicCreation(parts.requests, parts.image, parts.follower)
    internal_topics = _internal_topics(parts, creation)
    coordinators = CoordinatorHandlers(
        parts.image, parts.broker_id, internal_topics, parts.runtimes.by_type
    )
    api_versions = ApiVersionsHandler(parts.image, parts.broker_id, parts.kraft_levels)
    discovery = _discovery(parts, creation, internal_topics)
    administration = TopicHandlers(
        parts.image,
        topics,
        parts.configs,
        deletion_enabled=settings.delete_topic_enable,
    )
    configs = ConfigHandlers(
        parts.configs, LogLevels(parts.broker_id), parts.controller, parts.follower
    )
    offsets = OffsetHandlers(
        parts.partitions,
        parts.ports.executor,
        parts.housekeeping.storage_failed,
        is_for_brokers=_is_for_brokers(parts),
    )
    produce, fetch = _produce(parts), _fetch(parts)
    groups = GroupHandlers(parts.runtimes.groups)
    group_offsets = _group_offsets(parts)
    table: tuple[Row, ...] = (
        (0, "0-13", produce),
        (1, "0-18", fetch),
        (2, "0-11", offsets.list_offsets),
        (3, "0-13", discovery.metadata),
        (10, "0-6", coordinators.find_coordinator),
        (18, "0-5", api_versions),
        (19, FORWARDED[19], administration.create_topics),
        (20, FORWARDED[20], administration.delete_topics),
        (21, "0-2", offsets.delete_records),
        (23, "0-4", offsets.offset_for_leader_epoch),
        (32, "0-4", configs.describe),
        (33, FORWARDED[33], configs.alter),
        (35, "0-5", LogDirHandler(parts.logs, parts.ports.files)),
        (37, FORWARDED[37], administration.create_partitions),
        (44, FORWARDED[44], configs.alter_incrementally),
        (60, "0-2", discovery.describe_cluster),
        (61, "0", offsets.describe_producers),
        (74, "0-1", configs.list_resources),
        (75, "0", discovery.describe_topic_partitions),
        *_group_rows(parts, groups, group_offsets),
        *_transaction_rows(parts),
        *_cluster_rows(parts),
        *ACCESS_ROWS,
        *DISABLED_ROWS,
    )
    routes = [
        Route(key, versions, handler, metrics, API_PERMISSIONS[key])
        for key, versions, handler in table
    ]
    routes += _routes_of_elected(parts, routes, api_versions.unsupported)
    _forward(routes, parts)
    fast_paths = _fast_paths(parts, produce, fetch, groups, group_offsets)
    for route in routes:
        route.fast_path = fast_paths.get(route.api.key)
    api_versions.serve(routes)
    return routes, api_versions.unsupported


def _routes_of_elected(
    parts: Parts, routes: Sequence[Route], unsupported: Callable[[], Any]
) -> list[Route]:
    """What brokers serve each other where one of them is elected; nothing elsewhere."""
    if parts.elected is None:
        return []
    # Imported here: other brokers do not need it.
    from moldau.server.zookeeper.elected_routes import elected_routes  # noqa: PLC0415

    return elected_routes(parts, parts.elected.store, routes, unsupported)


def _internal_topics(parts: Parts, creation: TopicCreation) -> InternalTopics:
    is_alone = parts.settings.quorum.kind is NodeKind.ALONE
    return InternalTopics(
        parts.image,
        creation,
        parts.settings.values,
        replica_limit=REPLICAS_ALONE if is_alone else REPLICAS_MAX,
    )


def _forward(routes: Sequence[Route], parts: Parts) -> None:
    """Let the controller of another node, if there is one, answer what only it can decide."""
    if parts.channels is None:
        return
    frame_limit = parts.settings.socket_request_max_bytes
    forwarder = Forwarder(parts.channels.forwarding, parts.ports.clock, frame_limit=frame_limit)
    for route in routes:
        if route.api.key in FORWARDED:
            route.forward = forwarder
            if parts.elected is not None or parts.quorum is not None:
                route.forwards_now = lambda: not parts.controller.is_active
            if route.api.key in ALTER_CONFIGS_KEYS:
                route.is_own = _names_a_logger


def _names_a_logger(request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> bool:
    """Tell whether levels of loggers are changed: they belong to one process."""
    return any(one.resource_type == ResourceType.BROKER_LOGGER for one in request.resources)


def _discovery(
    parts: Parts, topics: TopicCreation, internal_topics: InternalTopics
) -> DiscoveryHandlers:
    settings = parts.settings
    return DiscoveryHandlers(
        parts.image,
        parts.controller_id,
        topics,
        internal_topics,
        auto_create=settings.auto_create_topics_enable,
        partition_limit=settings.max_request_partition_size_limit,
        is_suspected=parts.watches.is_suspected if parts.watches else lambda _: False,
    )


def _fast_paths(
    parts: Parts,
    produce: ProduceHandler,
    fetch: FetchHandler,
    groups: GroupHandlers,
    group_offsets: GroupOffsetHandlers,
) -> dict[int, FastPath]:
    """Return, by API key, what is tried before a request is decoded (ADR 0007)."""
    metrics, clock = parts.metrics, parts.ports.clock
    commit_fast_path = CommitFastPath(
        group_offsets, parts.runtimes.groups, metrics.of("OffsetCommit"), clock
    )
    parts.store.subscribe(commit_fast_path.metadata_changed)
    return {
        PRODUCE_KEY: ProduceFastPath(produce, metrics.of("Produce"), clock).answer,
        FETCH_KEY: FetchFastPath(fetch, metrics.of("Fetch"), clock).answer,
        OFFSET_COMMIT_KEY: commit_fast_path.answer,
        SYNC_GROUP_KEY: SyncFastPath(groups, metrics.of("SyncGroup"), clock).answer,
    }


def _group_offsets(parts: Parts) -> GroupOffsetHandlers:
    return GroupOffsetHandlers(
        parts.runtimes.groups,
        parts.image,
        parts.runtimes.verifier.verify_one,
        partial(marker_state, parts.partitions),
    )


def _group_rows(
    parts: Parts, groups: GroupHandlers, offsets: GroupOffsetHandlers
) -> tuple[Row, ...]:
    return (
        (8, "0-10", offsets.commit),
        (9, "0-10", OffsetFetchHandler(parts.runtimes.groups, parts.image)),
        (11, "0-9", groups.join),
        (12, "0-4", groups.heartbeat),
        (13, "0-5", groups.leave),
        (14, "0-5", groups.sync),
        (15, "0-6", groups.describe_groups),
        (16, "0-5", groups.list_groups),
        (28, "0-6", offsets.commit_in_transaction),
        (42, "0-3", groups.delete_groups),
        (47, "0", offsets.delete),
    )


def _transaction_rows(parts: Parts) -> tuple[Row, ...]:
    runtimes = parts.runtimes
    producers = TransactionHandlers(
        runtimes.transactions,
        ProducerIds(parts.requests, parts.broker_id, parts.broker_epoch),
        parts.image,
        runtimes.groups.partition_for,
        is_for_brokers=_is_for_brokers(parts),
    )
    administration = TransactionAdminHandlers(
        runtimes.transactions, runtimes.markers, parts.ports.clock
    )
    return (
        (22, "0-5", producers.init_producer_id),
        (24, "0-5", producers.add_partitions_to_txn),
        (25, "0-4", producers.add_offsets_to_txn),
        (26, "0-5", producers.end_txn),
        (27, "0-2", administration.write_txn_markers),
        (65, "0", administration.describe_transactions),
        (66, "0-2", administration.list_transactions),
    )


def _cluster_rows(parts: Parts) -> tuple[Row, ...]:
    """What asks a cluster about its brokers; one broker has short answers."""
    replicas = ReassignmentHandlers(parts.image, parts.controller)
    quorum = QuorumHandlers(
        parts.store, parts.broker_id, parts.controller, partial(_quorum_description, parts)
    )
    return (
        (34, "0-2", ReplicaDirectoryHandler(parts.logs)),
        (43, FORWARDED[43], replicas.elect),
        (45, FORWARDED[45], replicas.alter),
        (46, FORWARDED[46], replicas.list_ongoing),
        *QUOTA_ROWS,
        # On ZooKeeper there is no quorum. Tools tell by this API's absence, as with Kafka.
        *(((55, FORWARDED[55], quorum.describe),) if parts.elected is None else ()),
        (57, FORWARDED[57], quorum.update_features),
        (64, FORWARDED[64], quorum.unregister_broker),
        *_voter_rows(parts, quorum),
        (94, FORWARDED[94], quorum.unregister_controller),
    )


def _voter_rows(parts: Parts, sole: QuorumHandlers) -> tuple[Row, ...]:
    """Who changes the voters: a quorum of several, or nobody."""
    quorum = None if parts.settings.quorum.votes_alone else parts.quorum
    voters = sole if quorum is None else quorum.voter_changes()
    return (80, FORWARDED[80], voters.add_voter), (81, FORWARDED[81], voters.remove_voter)


def _quorum_description(parts: Parts) -> QuorumDescription | None:
    return None if parts.quorum is None else parts.quorum.describe()


def _produce(parts: Parts) -> ProduceHandler:
    return ProduceHandler(
        parts.partitions,
        parts.ports.clock,
        parts.ports.executor,
        parts.flusher,
        parts.traffic,
        parts.metrics.of("Produce"),
        parts.housekeeping.storage_failed,
        TransactionalWrites(
            parts.partitions,
            parts.runtimes.verifier,
            lambda: bool(
                parts.configs.broker_values.value("transaction.partition.verification.enable")
            ),
        ),
        internal_writable=parts.settings.internal_topics_writable,
        leader_hints=LeaderHints(parts.image),
    )


def _is_for_brokers(parts: Parts) -> Callable[[Session], bool]:
    """Tell whether a session came in where brokers talk to each other."""
    inter_broker = parts.settings.listeners.inter_broker
    return lambda session: session.listener == inter_broker


def _fetch(parts: Parts) -> FetchHandler:
    settings = parts.settings
    sessions = FetchSessions(
        settings.max_incremental_fetch_session_cache_slots,
        settings.min_incremental_fetch_session_eviction_ms / 1000,
        parts.ports.clock,
        parts.ports.random,
    )
    return FetchHandler(
        parts.partitions,
        sessions,
        parts.ports.executor,
        parts.traffic,
        parts.metrics.of("Fetch"),
        parts.housekeeping.storage_failed,
        parts.index_repair.ask,
        max_bytes=settings.fetch_max_bytes,
        is_for_brokers=_is_for_brokers(parts),
        is_registered=lambda broker_id: broker_id in parts.image().brokers,
        leader_hints=LeaderHints(parts.image),
        parked=parts.parked_fetches,
        throttle=parts.leader_throttle,
    )
