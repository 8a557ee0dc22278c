"""Admin calls for committed offsets of groups.

Only offsets of a group without members can be changed; members commit their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.administration.face import Calls
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.asking import by_topic
from moldau.engine.cluster import CoordinatorKind
from moldau.engine.group_offsets import commit_offsets, settle_partition
from moldau.engine.offset_requests import NEWEST_VERSION, committed_offsets, fetch_request
from moldau.engine.partitions import ByPartition, Partition, as_offsets, as_partitions, several
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

ALL_PARTITIONS = 2
"""The version of OffsetFetch since which no topics means all of them."""
STABLE_ONLY = 7
"""The version of OffsetFetch that can wait for open transactions (KIP-447)."""


class GroupOffsetCalls(Calls):
    """Admin calls for committed offsets of groups."""

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group: `await admin.list_group_offsets("g")`.

        By default of all partitions. Partitions without an offset are missing from the result; a
        group that does not exist has none. `require_stable` waits for open transactions.
        """
        deadline = self._asking.deadline(timeout_ms)
        request = fetch_request(
            group_id, as_partitions(partitions or ()), require_stable=require_stable
        )
        if partitions is None:
            request.topics = request.groups[0].topics = None
        least = ALL_PARTITIONS if partitions is None else 0
        if require_stable:
            least = STABLE_ONLY

        async def fetch(coordinator: int) -> dict[TopicPartition, OffsetAndMetadata]:
            answer = await self._asking.ask(coordinator, request, least=least, most=NEWEST_VERSION)
            return committed_offsets(answer)

        return await self._asking.at_coordinator(CoordinatorKind.GROUP, group_id, fetch, deadline)

    async def list_offsets_of_groups(
        self,
        group_ids: Iterable[str],
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return committed offsets of groups: `(await admin.list_offsets_of_groups(ids)).ok`."""
        return await self._asking.each(
            several(group_ids, "group_ids"),
            lambda group_id: self.list_group_offsets(
                group_id, require_stable=require_stable, timeout_ms=timeout_ms
            ),
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: ByPartition[int | OffsetAndMetadata],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group: `await admin.alter_group_offsets("g", {("t", 0): 5})`.

        Creates a group that does not exist. Raises UnknownMember if the group has members.
        """
        deadline = self._asking.deadline(timeout_ms)
        return await commit_offsets(self._asking, group_id, as_offsets(offsets), deadline)

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Delete offsets of a group: `await admin.delete_group_offsets("g", [("t", 0)])`.

        GroupSubscribedToTopic means that members still consume the topic.
        """
        deadline = self._asking.deadline(timeout_ms)

        async def attempt(tally: Tally[TopicPartition, None]) -> None:
            request = OffsetDeleteRequest(
                group_id,
                [
                    OffsetDeleteRequestTopic(
                        topic, [OffsetDeleteRequestPartition(one) for one in numbers]
                    )
                    for topic, numbers in by_topic(tally.waiting).items()
                ],
            )

            async def delete(coordinator: int) -> OffsetDeleteResponse:
                answer: OffsetDeleteResponse = await self._asking.ask(coordinator, request)
                raise_for(answer.error_code)
                return answer

            answer = await self._asking.at_coordinator(
                CoordinatorKind.GROUP, group_id, delete, deadline
            )
            for topic in answer.topics:
                for told in topic.partitions:
                    partition = TopicPartition(topic.name, told.partition_index)
                    settle_partition(tally, partition, told.error_code)

        return await self._asking.settle(as_partitions(partitions), attempt, deadline)
