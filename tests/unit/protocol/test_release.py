"""A large message is freed in small pieces, and nobody else loses anything."""

import sys

import pytest

from moldau.base.limits import ELEMENTS_PER_STEP
from moldau.protocol.messages.data import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.protocol.messages.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsSubtopology,
    StreamsTopology,
)
from moldau.protocol.release import release_in_slices


def blocks_freed_by_each_step(held):
    """Tell how many blocks of memory each step of the work gave back."""
    work, freed = release_in_slices(held), []
    before = sys.getallocatedblocks()
    for _ in work:
        now = sys.getallocatedblocks()
        freed.append(before - now)
        before = now
    return freed


@pytest.mark.parametrize(("topics", "partitions"), [(1, 20_000), (20_000, 1), (100, 200)])
def test_all_is_freed_a_little_at_a_time(topics, partitions):
    held = [
        FetchRequest(
            topics=[
                FetchTopic(
                    f"topic {topic}",
                    partitions=[FetchPartition(1000 + number) for number in range(partitions)],
                )
                for topic in range(topics)
            ]
        )
    ]
    freed = blocks_freed_by_each_step(held)
    assert held == []
    elements = topics * partitions
    assert sum(freed) > elements
    blocks_each = sum(freed) / elements
    assert max(freed) < 1.5 * blocks_each * ELEMENTS_PER_STEP


def test_what_somebody_else_holds_stays_as_it_is():
    topic = FetchTopic("kept", partitions=[FetchPartition(number) for number in range(1000)])
    numbers = list(range(1000, 2000))
    other = OffsetFetchRequestTopic("numbers", numbers)
    for message in FetchRequest(topics=[topic]), OffsetFetchRequest(topics=[other]):
        list(release_in_slices([message]))
    assert [one.partition for one in topic.partitions] == list(range(1000))
    assert other.partition_indexes is numbers
    assert numbers == list(range(1000, 2000))


@pytest.mark.parametrize("message", [FetchRequest(), OffsetFetchRequest(topics=None)])
def test_a_message_whose_arrays_are_empty_or_null_is_freed_as_well(message):
    held = [message]
    assert len(list(release_in_slices(held))) == 1
    assert held == []


def test_arrays_in_a_struct_of_a_message_are_freed_a_little_at_a_time():
    parts = [StreamsSubtopology(f"part {number}", []) for number in range(20_000)]
    held = [StreamsGroupHeartbeatRequest(topology=StreamsTopology(1, parts))]
    del parts
    freed = blocks_freed_by_each_step(held)
    assert sum(freed) > 20_000
    assert max(freed) < 50 * ELEMENTS_PER_STEP
