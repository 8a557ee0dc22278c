"""Which topics a subscription means, and how many partitions they have, as metadata tells. Pure.

Metadata may fail to tell of a topic for a moment, while it is created or its leader moves. Such a
topic is taken to be as it was: a rebalance for it would be undone by the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from moldau.engine.metadata import MetadataImage
from moldau.protocol.errors import ErrorCode


def matching(
    pattern: re.Pattern[str],
    image: MetadataImage,
    before: frozenset[str],
    *,
    exclude_internal: bool,
) -> frozenset[str]:
    """Return the topics whose whole name a pattern matches; `before` is what it matched so far."""
    found = {
        name
        for name, topic in image.topics.items()
        if pattern.fullmatch(name) and not (exclude_internal and topic.is_internal)
    }
    return frozenset(found | {name for name in before if _is_untold(name, image)})


def partition_counts(
    topics: Iterable[str], image: MetadataImage, before: Mapping[str, int]
) -> dict[str, int]:
    """Count the partitions of topics; those that do not exist have none."""
    counts = {}
    for name in topics:
        topic = image.topics.get(name)
        if topic is not None:
            counts[name] = topic.partition_count
        else:
            counts[name] = before.get(name, 0) if _is_untold(name, image) else 0
    return counts


def replica_racks(
    topics: Iterable[str], image: MetadataImage
) -> dict[str, tuple[frozenset[str], ...]]:
    """Return, of each topic that exists, where the replicas of its partitions stand, in order."""
    racks = {broker.broker_id: broker.rack for broker in image.brokers.values()}
    return {
        name: tuple(
            frozenset(rack for one in topic.partitions[number].replicas if (rack := racks.get(one)))
            for number in sorted(topic.partitions)
        )
        for name in topics
        if (topic := image.topics.get(name)) is not None
    }


def _is_untold(topic: str, image: MetadataImage) -> bool:
    refusal = image.refusals.get(topic)
    return refusal is not None and refusal is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
