"""Decisions over many partitions, made in steps. Pure.

A cluster may have a hundred thousand partitions, and a decision about a broker looks at all of
them. Such a decision is an iterator of steps: a step is a change, or None where there was nothing
to change for a while. Whoever takes the steps lets others have their turn in between (`in_turns`).
What a decision has to tell beside its changes is what its generator returns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeAlias, TypeVar

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import ElectionRules
from moldau.cluster.model import Partition, Topic
from moldau.cluster.partition_update import PartitionTarget, change_partition

T = TypeVar("T")

Step: TypeAlias = Change | None

Stepwise: TypeAlias = Generator[Step, None, T]
"""A decision that makes its changes step by step and returns an answer."""

PARTITIONS_PER_STEP: Final = 100
"""Partitions that are looked at in one step: some ten microseconds."""


def walk_partitions(image: MetadataImage) -> Iterator[tuple[Topic, Partition] | None]:
    """Walk over all partitions; None now and then, where the walk may pause."""
    looked_at = 0
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield topic, partition
            looked_at += 1
            if not looked_at % PARTITIONS_PER_STEP:
                yield None


def change_partitions(
    image: MetadataImage,
    rules: ElectionRules,
    target_of: Callable[[Partition], PartitionTarget | None],
) -> Iterator[Step]:
    """Change all partitions for which there is a target."""
    for place in walk_partitions(image):
        if place is None:
            yield None
            continue
        topic, partition = place
        target = target_of(partition)
        if target is not None:
            yield change_partition(rules, topic, partition, target)
