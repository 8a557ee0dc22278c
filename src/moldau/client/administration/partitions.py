"""Admin calls for partitions: offsets, active producers, deletion of old records, elections.

The requests go to the leaders of the partitions; the controller elects these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from moldau.client.administration.face import Calls
from moldau.client.errors import BrokerError, ClientError, InvalidArgument, broker_error
from moldau.client.records import TopicPartition
from moldau.engine.asking import by_topic
from moldau.engine.cluster import Node
from moldau.engine.partitions import ByPartition, Partition, as_partition, as_partitions
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.engine.settings import one_of
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DescribeProducersRequest,
    DescribeProducersTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ProducerState,
)
from moldau.protocol.messages.reassignment import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopic,
)

CONSUMER: Final = -1
"""The replica id of those who are none."""

LEVELS: Final = ("read_uncommitted", "read_committed")

BY_TIME: Final = 1
"""The version of ListOffsets since which it answers with one offset."""
READ_COMMITTED: Final = 2


class OffsetSpec(IntEnum):
    """An offset of a partition to look up.

    A plain number is a time in milliseconds: the first record at or after it.
    """

    LATEST = -1
    """The end of the log; with `read_committed`, the last stable offset."""
    EARLIEST = -2
    """The first record."""
    MAX_TIMESTAMP = -3
    """The record with the latest timestamp."""
    EARLIEST_LOCAL = -4
    """The first record on the broker's own disk."""
    LATEST_TIERED = -5
    """The last record in remote storage."""
    EARLIEST_PENDING_UPLOAD = -6
    """The first record that is not in remote storage yet."""


VERSION_OF_SPEC: Final[Mapping[int, int]] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""The versions of ListOffsets since which the later questions are understood."""

END: Final = -1
"""To delete all records: up to the high watermark."""


class ElectionType(IntEnum):
    """Which leader to elect (KIP-460)."""

    PREFERRED = 0
    """The first of the replicas, if it is in sync."""
    UNCLEAN = 1
    """Any live replica, where there is no leader. Acknowledged records may be lost."""


UNCLEAN_ELECTIONS: Final = 1
"""The version of ElectLeaders since which there are unclean ones."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset that was looked up."""

    offset: int | None
    """None if there is no such record."""
    timestamp_ms: int | None
    """The timestamp of the record, if a time was looked up."""
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """The state of a producer in a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    """The coordinator epoch of the last transaction marker, if any."""
    transaction_start_offset: int | None
    """The first offset of its open transaction, if any."""


class PartitionCalls(Calls):
    """Admin calls for partitions."""

    async def delete_records(
        self, offsets: ByPartition[int], *, timeout_ms: float | None = None
    ) -> Results[TopicPartition, int]:
        """Delete records before offsets: `await admin.delete_records({("t", 0): 100})`.

        Returns the new first offsets. `END` deletes all records.
        """
        wanted = {as_partition(partition): offset for partition, offset in offsets.items()}
        deadline = self._asking.deadline(timeout_ms)

        async def attempt(tally: Tally[TopicPartition, int]) -> None:
            async def ask(leader: int, partitions: list[TopicPartition]) -> None:
                request = DeleteRecordsRequest(
                    [
                        DeleteRecordsTopic(
                            topic,
                            [
                                DeleteRecordsPartition(one, wanted[TopicPartition(topic, one)])
                                for one in numbers
                            ],
                        )
                        for topic, numbers in by_topic(partitions).items()
                    ],
                    self._asking.patience_ms(deadline),
                )
                for topic in (await self._asking.ask(leader, request)).topics:
                    for told in topic.partitions:
                        partition = TopicPartition(topic.name, told.partition_index)
                        if told.error_code == ErrorCode.NONE:
                            tally.done(partition, told.low_watermark)
                        else:
                            tally.fail(partition, _error(told.error_code, partition))

            await self._asking.of_leaders(tally, ask)

        return await self._asking.settle(wanted, attempt, deadline)

    async def list_offsets(
        self,
        specs: ByPartition[OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """Look up offsets: `await admin.list_offsets({("t", 0): OffsetSpec.LATEST})`.

        A number is a time in milliseconds since 1970: the first record at or after it.
        """
        one_of(LEVELS, "isolation_level", isolation_level)
        wanted = {as_partition(partition): _spec(one) for partition, one in specs.items()}
        deadline = self._asking.deadline(timeout_ms)
        level = LEVELS.index(isolation_level)

        async def attempt(tally: Tally[TopicPartition, ListedOffset]) -> None:
            async def ask(leader: int, partitions: list[TopicPartition]) -> None:
                await self._look_up(leader, {one: wanted[one] for one in partitions}, level, tally)

            await self._asking.of_leaders(tally, ask)

        return await self._asking.settle(wanted, attempt, deadline)

    async def _look_up(
        self,
        leader: int,
        specs: Mapping[TopicPartition, int],
        level: int,
        tally: Tally[TopicPartition, ListedOffset],
    ) -> None:
        request = ListOffsetsRequest(
            CONSUMER,
            level,
            [
                ListOffsetsTopic(
                    topic,
                    [
                        ListOffsetsPartition(one, timestamp=specs[TopicPartition(topic, one)])
                        for one in numbers
                    ],
                )
                for topic, numbers in by_topic(specs).items()
            ],
            self._asking.cluster.settings.request_timeout_ms,
        )
        least = max(READ_COMMITTED if level else BY_TIME,
                    *(VERSION_OF_SPEC.get(spec, 0) for spec in specs.values()))  # fmt: skip
        for topic in (await self._asking.ask(leader, request, least=least)).topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                if told.error_code == ErrorCode.NONE:
                    tally.done(
                        partition,
                        ListedOffset(
                            _known(told.offset), _known(told.timestamp), _known(told.leader_epoch)
                        ),
                    )
                else:
                    tally.fail(partition, _error(told.error_code, partition))

    async def describe_producers(
        self,
        partitions: Iterable[Partition],
        *,
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, tuple[ProducerDescription, ...]]:
        """Describe the active producers: `(await admin.describe_producers([("t", 0)])).ok`.

        Asks the leaders, or the given broker, which must have replicas of the partitions.
        """
        deadline = self._asking.deadline(timeout_ms)

        async def attempt(tally: Tally[TopicPartition, tuple[ProducerDescription, ...]]) -> None:
            async def ask(broker: int, asked: list[TopicPartition]) -> None:
                request = DescribeProducersRequest(
                    [DescribeProducersTopic(*each) for each in by_topic(asked).items()]
                )
                for topic in (await self._asking.ask(broker, request)).topics:
                    for told in topic.partitions:
                        partition = TopicPartition(topic.name, told.partition_index)
                        if told.error_code == ErrorCode.NONE:
                            tally.done(partition, tuple(map(_producer, told.active_producers)))
                        else:
                            error = broker_error(told.error_code, told.error_message)
                            tally.fail(partition, error)

            if broker_id is None:
                await self._asking.of_leaders(tally, ask)
            else:
                await ask(await self._asking.known_broker(broker_id), list(tally.waiting))

        return await self._asking.settle(as_partitions(partitions), attempt, deadline)

    async def elect_leaders(
        self,
        partitions: Iterable[Partition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Elect leaders: `await admin.elect_leaders([("t", 0)])`; None means all partitions.

        A partition that already has the leader has the error ElectionNotNeeded; of all partitions
        those are left out.
        """
        deadline = self._asking.deadline(timeout_ms)
        wanted = None
        if partitions is not None:
            named = by_topic(as_partitions(partitions)).items()
            wanted = [ElectLeadersTopic(*each) for each in named]
        least = UNCLEAN_ELECTIONS if election_type is ElectionType.UNCLEAN else 0

        async def attempt() -> ElectLeadersResponse:
            request = ElectLeadersRequest(election_type, wanted, self._asking.patience_ms(deadline))
            answer: ElectLeadersResponse = await self._asking.ask(
                Node.CONTROLLER, request, least=least
            )
            raise_for(answer.error_code)
            return answer

        return _elected(await self._asking.until_done(attempt, deadline))


def _elected(answer: ElectLeadersResponse) -> Results[TopicPartition, None]:
    ok: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, ClientError] = {}
    for topic in answer.replica_election_results:
        for told in topic.partition_result:
            partition = TopicPartition(topic.topic, told.partition_id)
            if told.error_code == ErrorCode.NONE:
                ok[partition] = None
            else:
                errors[partition] = broker_error(told.error_code, told.error_message)
    return Results(ok, errors)


def _spec(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < min(OffsetSpec):
        raise InvalidArgument(
            f"{given!r} is neither a time in milliseconds nor an OffsetSpec such as"
            " OffsetSpec.LATEST"
        )
    return int(given)


def _error(code: int, partition: TopicPartition) -> BrokerError:
    return broker_error(code, f"{partition}: {ErrorCode.of(code).text}")


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _producer(told: ProducerState) -> ProducerDescription:
    return ProducerDescription(
        told.producer_id,
        told.producer_epoch,
        _known(told.last_sequence),
        _known(told.last_timestamp),
        _known(told.coordinator_epoch),
        _known(told.current_txn_start_offset),
    )
