"""What this node's image of the metadata says of topics, also of those on other brokers."""

from __future__ import annotations

from collections.abc import Callable

from moldau.base.ids import TopicId
from moldau.cluster.image import MetadataImage


class KnownTopics:
    """The topics of the cluster, as far as this broker knows now."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic; None if there is none of this id."""
        topic = self._image().topic_by_id(topic_id)
        return None if topic is None else topic.name

    def has_partition(self, topic: str, index: int) -> bool:
        """Tell whether the cluster has this partition."""
        found = self._image().topic(topic)
        return found is not None and 0 <= index < len(found.partitions)
