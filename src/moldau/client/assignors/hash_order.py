"""The order of a hash map of Java, where Kafka's rules leave a choice to it.

Who of several members gives up a partition first, and which of several partitions that are as good
goes back, is free. Java's clients take the first a hash map of theirs yields; so do we, and a group
of Java's clients and ours gets the same shares whoever leads it.

Such a map has a table of a power of two places, at least 16, that doubles when it is three quarters
full. It is walked place by place; what shares a place stands there in the order it came.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.client.records import TopicPartition

_PLACES_MIN = 16
_BITS = 0xFFFFFFFF


def texts_in_hash_order(texts: Collection[str]) -> list[str]:
    """Return texts (member ids, topics) as a map with them as keys is walked."""
    mask = _mask(len(texts))
    return sorted(texts, key=lambda text: _spread(_text_hash(text)) & mask)


def partitions_in_hash_order(partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    """Return partitions as a map with them as keys is walked."""
    mask = _mask(len(partitions))
    hashes = {topic: _text_hash(topic) for topic in {one.topic for one in partitions}}
    return sorted(
        partitions, key=lambda one: _spread(_partition_hash(one, hashes[one.topic])) & mask
    )


class HashOrderedSet:
    """Partitions of one topic, of which the first that a walk meets is asked for."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._count_max = 0
        """The most it held: the table of a hash set never shrinks."""

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        """Put a partition in."""
        self._partitions[partition] = None
        self._count_max = max(self._count_max, len(self._partitions))

    def remove(self, partition: TopicPartition) -> None:
        """Take a partition out."""
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        """Return the partition that a walk meets first."""
        mask = _mask(self._count_max)
        topic_hash = _text_hash(next(iter(self._partitions)).topic)
        return min(
            self._partitions, key=lambda one: _spread(_partition_hash(one, topic_hash)) & mask
        )


def _mask(count: int) -> int:
    places = _PLACES_MIN
    while count * 4 > places * 3:
        places *= 2
    return places - 1


def _text_hash(text: str) -> int:
    """Hash a text as Java does, by its UTF-16 units, the result taken as 32 bits."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & _BITS
    return value


def _partition_hash(partition: TopicPartition, topic_hash: int) -> int:
    return 31 * (31 + partition.partition) + topic_hash


def _spread(value: int) -> int:
    """Mix the upper half into the lower, which alone chooses the place."""
    value &= _BITS
    return value ^ value >> 16
