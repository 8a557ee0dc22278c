"""Where the metrics page gets the figures of replication and of the controller from.

Counted when the page is asked for, in its own thread: what the event loop changes meanwhile is
copied in one step, or is a value.
"""

from __future__ import annotations

from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER
from moldau.observe.replication import ControllerFigures, ReplicationFigures
from moldau.server.parts import Parts


def replication_figures(parts: Parts) -> ReplicationFigures:
    """Count the partitions of one broker."""
    image = parts.image()
    leads = under_replicated = under_min_isr = at_min_isr = offline = produces = deletions = 0
    for partition in parts.partitions.snapshot():
        produces += partition.delayed_count
        deletions += partition.delayed_deletion_count
        offline += partition.log.offline
        if not partition.leads:
            continue
        leads += 1
        role, known = partition.role, image.partition(partition.key)
        # Those that a reassignment adds are not missed yet.
        adding = 0 if known is None else len(known.adding_replicas)
        in_sync, replica_count = len(role.isr), len(role.replicas)
        minimum = min(partition.config.min_insync_replicas, replica_count)
        under_replicated += in_sync < replica_count - adding
        under_min_isr += in_sync < minimum
        at_min_isr += in_sync == minimum
    counts, fetchers = parts.replication.counts, parts.fetchers
    return ReplicationFigures(
        leads,
        under_replicated,
        under_min_isr,
        at_min_isr,
        offline,
        counts.shrinks,
        counts.expands,
        counts.failures,
        fetchers.max_lag,
        fetchers.failed_partitions_count,
        fetchers.bytes_in,
        {
            "Produce": produces,
            "Fetch": parts.parked_fetches.count,
            "DeleteRecords": deletions,
        },
    )


def controller_figures(parts: Parts) -> ControllerFigures | None:
    """Count what the metadata has; None where this node is not the active controller."""
    return count_cluster(parts.image()) if parts.controller.is_active else None


def count_cluster(image: MetadataImage) -> ControllerFigures:
    """Count brokers, topics and partitions."""
    partitions = offline = imbalance = 0
    for topic in image.topics.values():
        partitions += len(topic.partitions)
        for partition in topic.partitions:
            offline += partition.leader == NO_LEADER
            imbalance += partition.leader != partition.replicas[0]
    fenced = sum(broker.fenced for broker in image.brokers.values())
    return ControllerFigures(
        len(image.brokers) - fenced, fenced, len(image.topics), partitions, offline, imbalance
    )
