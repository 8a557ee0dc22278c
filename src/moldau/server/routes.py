"""Which APIs this broker answers, in which versions, and who answers them.

The ranges go from Kafka 1.x, and older, up to the newest release. Group and transaction APIs are
declared in the protocol but not served yet, so they are not advertised. FindCoordinator is the
exception: librdkafka takes a broker without it for one that does not know lz4, and silently sends
uncompressed batches. It is answered with COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.cluster.topics import TopicDefaults
from moldau.server.dispatch import Route
from moldau.server.fetch_sessions import FetchSessions
from moldau.server.handlers.configs import ConfigHandlers
from moldau.server.handlers.discovery import DiscoveryHandlers
from moldau.server.handlers.fetch import FetchHandler
from moldau.server.handlers.log_dirs import LogDirHandler
from moldau.server.handlers.offsets import OffsetHandlers
from moldau.server.handlers.produce import ProduceHandler
from moldau.server.handlers.producer_ids import ProducerIdHandler
from moldau.server.handlers.topics import TopicHandlers
from moldau.server.handlers.usual_produce import UsualProduce
from moldau.server.parts import Parts
from moldau.server.producer_ids import ProducerIds
from moldau.server.topic_admin import TopicAdmin


def make_routes(parts: Parts) -> tuple[list[Route], Callable[[], Any]]:
    """Put the handlers together; also return what answers unknown versions of ApiVersions."""
    settings, metrics = parts.settings, parts.metrics
    topics = TopicAdmin(
        parts.decisions,
        parts.replicas,
        TopicDefaults(settings.num_partitions, settings.default_replication_factor),
        parts.ports.random,
    )
    discovery = DiscoveryHandlers(
        parts.image,
        parts.broker_id,
        topics,
        auto_create=settings.auto_create_topics_enable,
        partition_limit=settings.max_request_partition_size_limit,
    )
    administration = TopicHandlers(
        parts.image,
        topics,
        parts.configs,
        deletion_enabled=settings.delete_topic_enable,
    )
    configs = ConfigHandlers(parts.configs, parts.decisions, parts.replicas)
    offsets = OffsetHandlers(
        parts.partitions,
        parts.broker_id,
        parts.ports.executor,
        parts.housekeeping.storage_failed,
    )
    produce = _produce(parts)
    table: tuple[tuple[int, str, Callable[..., Any]], ...] = (
        (0, "0-13", produce),
        (1, "0-18", _fetch(parts)),
        (2, "0-11", offsets.list_offsets),
        (3, "0-13", discovery.metadata),
        (10, "0-6", discovery.find_coordinator),
        (18, "0-5", discovery.api_versions),
        (19, "0-7", administration.create_topics),
        (20, "0-6", administration.delete_topics),
        (21, "0-2", offsets.delete_records),
        (22, "0-5", ProducerIdHandler(ProducerIds(parts.decisions, parts.broker_id))),
        (23, "0-4", offsets.offset_for_leader_epoch),
        (32, "0-4", configs.describe),
        (33, "0-2", configs.alter),
        (35, "0-5", LogDirHandler(parts.logs, parts.ports.files)),
        (37, "0-3", administration.create_partitions),
        (44, "0-1", configs.alter_incrementally),
        (60, "0-2", discovery.describe_cluster),
        (61, "0", offsets.describe_producers),
        (74, "0-1", configs.list_resources),
        (75, "0", discovery.describe_topic_partitions),
    )
    routes = [Route(key, versions, handler, metrics) for key, versions, handler in table]
    routes[0].usual = UsualProduce(produce, metrics.of("Produce"), parts.ports.clock)
    discovery.serve(routes)
    return routes, discovery.unsupported_api_versions


def _produce(parts: Parts) -> ProduceHandler:
    return ProduceHandler(
        parts.partitions,
        parts.broker_id,
        parts.ports.clock,
        parts.ports.executor,
        parts.flusher,
        parts.traffic,
        parts.metrics.of("Produce"),
        parts.housekeeping.storage_failed,
    )


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
        parts.broker_id,
        parts.ports.executor,
        parts.traffic,
        parts.metrics.of("Fetch"),
        parts.housekeeping.storage_failed,
        max_bytes=settings.fetch_max_bytes,
    )
