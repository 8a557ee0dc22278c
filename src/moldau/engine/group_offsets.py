"""Committing offsets in the name of a group that has no members."""

from __future__ import annotations

from moldau.engine.asking import Asking
from moldau.engine.broker_errors import broker_error
from moldau.engine.cluster import CoordinatorKind
from moldau.engine.offset_requests import NEWEST_VERSION, Offsets, commit_request
from moldau.engine.partitions import TopicPartition
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.protocol.errors import ErrorCode

COORDINATOR_CODES = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""They stand at every partition of an answer, and are not about any."""


async def commit_offsets(
    asking: Asking, group_id: str, offsets: Offsets, deadline: float
) -> Results[TopicPartition, None]:
    """Commit offsets, trying again what can pass until the deadline.

    A group that is not there comes into being; one with members refuses (UnknownMember).
    """

    async def attempt(tally: Tally[TopicPartition, None]) -> None:
        kept = {partition: offsets[partition] for partition in tally.waiting}
        request = commit_request(group_id, kept)

        async def commit(coordinator: int) -> None:
            answer = await asking.ask(coordinator, request, most=NEWEST_VERSION)
            told = {
                TopicPartition(topic.name, one.partition_index): one.error_code
                for topic in answer.topics
                for one in topic.partitions
            }
            for code in told.values():
                if code in COORDINATOR_CODES:
                    raise_for(code)
            for partition, code in told.items():
                settle_partition(tally, partition, code)

        await asking.at_coordinator(CoordinatorKind.GROUP, group_id, commit, deadline)

    return await asking.settle(offsets, attempt, deadline)


def settle_partition(
    tally: Tally[TopicPartition, None], partition: TopicPartition, code: int
) -> None:
    """Take down what a coordinator says of one partition of a group."""
    if code == ErrorCode.NONE:
        tally.done(partition, None)
        return
    error = broker_error(code, f"{partition}: {ErrorCode.of(code).text}")
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        tally.refuse(partition, error)  # it will not come by itself
    else:
        tally.fail(partition, error)
