"""Arrays of requests, with every repeat folded into one element.

A request may name one thing many times. Answered each time, a small request makes a huge answer.
Kafka folds repeats in some APIs, refuses them in others, and answers each of them in the rest.
There we fold them too: no client can tell two answers about the same thing apart.

Order is that of the first mention; of several mentions the last one counts, as in a map of Kafka's.
All of it is work in slices (`slices`), because an array may be long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Final, Generic, NamedTuple, TypeVar

from moldau.base.ids import PartitionKey
from moldau.server.network.slices import Sliced

E = TypeVar("E")
K = TypeVar("K")
Ordered = TypeVar("Ordered", str, PartitionKey, tuple[int, str])

_ELEMENTS_PER_STEP: Final = 256
"""Elements that are folded between two yields: some tens of microseconds."""

_SORTED_AT_ONCE: Final = 1_000
"""Elements that are sorted between two yields: about a millisecond."""


class Folded(NamedTuple, Generic[K, E]):
    """Elements by what they name."""

    elements: dict[K, E]
    repeated: set[K]
    """What is named more than once."""


def fold(elements: Iterable[E], key_of: Callable[[E], K]) -> Sliced[Folded[K, E]]:
    """Fold an array whose elements name something each."""
    folded: Folded[K, E] = Folded({}, set())
    for count, element in enumerate(elements, 1):
        key = key_of(element)
        if key in folded.elements:
            folded.repeated.add(key)
        folded.elements[key] = element
        if not count % _ELEMENTS_PER_STEP:
            yield
    return folded


def fold_all(elements: Iterable[E], key_of: Callable[[E], K]) -> Sliced[dict[K, list[E]]]:
    """Put elements that name the same together, where all of them count."""
    folded: dict[K, list[E]] = {}
    for count, element in enumerate(elements, 1):
        folded.setdefault(key_of(element), []).append(element)
        if not count % _ELEMENTS_PER_STEP:
            yield
    return folded


def once(elements: Iterable[K]) -> Sliced[list[K]]:
    """Leave out what an array names again."""
    found: dict[K, None] = {}
    for count, element in enumerate(elements, 1):
        found[element] = None
        if not count % _ELEMENTS_PER_STEP:
            yield
    return list(found)


class FoldedPartitions(NamedTuple, Generic[K, E]):
    """Elements by topic and partition."""

    topics: dict[K, dict[int, E]]
    repeated: set[tuple[K, int]]


def fold_partitions(
    topics: Iterable[tuple[K, Iterable[E]]], index_of: Callable[[E], int]
) -> Sliced[FoldedPartitions[K, E]]:
    """Fold an array of topics, each with an array of partitions."""
    folded: FoldedPartitions[K, E] = FoldedPartitions({}, set())
    count = 0
    for topic, partitions in topics:
        of_topic = folded.topics.setdefault(topic, {})
        for partition in partitions:
            index = index_of(partition)
            if index in of_topic:
                folded.repeated.add((topic, index))
            of_topic[index] = partition
            count += 1
            if not count % _ELEMENTS_PER_STEP:
                yield
        count += 1
        if not count % _ELEMENTS_PER_STEP:
            yield
    return folded


def itself(element: K) -> K:
    """Stand in for `key_of` and `index_of` where an element is what it names."""
    return element


def sort(elements: Sequence[Ordered]) -> Sliced[Iterator[Ordered]]:
    """Sort elements in parts, which are merged while somebody takes them one by one."""
    parts = []
    for first in range(0, len(elements), _SORTED_AT_ONCE):
        parts.append(sorted(elements[first : first + _SORTED_AT_ONCE]))
        yield
    return merge(*parts)
