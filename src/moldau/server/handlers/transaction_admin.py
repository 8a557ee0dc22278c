"""DescribeTransactions 0, ListTransactions 0-2, WriteTxnMarkers 0-2.

They serve other brokers and `kafka-transactions.sh` (KIP-664): to look at transactions, and to end
one that hangs by writing its marker straight to the partition.

A transactional id that is described twice in one request is told once, where Kafka tells it twice.
Markers are written once to a partition that one of them names twice, and what became of all markers
of a producer is told together, both as in Kafka.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import NamedTuple

from moldau.base.clock import Clock
from moldau.base.ids import PartitionKey
from moldau.coordination.answers import Answer, combined
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.listing import Listing
from moldau.coordination.transactions.shard import ShownTransactions, TransactionShard
from moldau.coordination.transactions.transaction import Transaction
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.transactions import (
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.server.network.answer_room import AnswerRoom
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.gathering import gather
from moldau.server.network.repeats import once, sort
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns
from moldau.server.transactions.markers import Marker, MarkerWriter, Written

_TRANSACTION_SIZE = 60
"""Bytes of a transaction in an answer, besides what is of any length."""

_LOOKS_PER_STEP = 100
"""Transactions that are looked at for a list between two pauses."""


_MARKERS_PER_STEP = 50
"""Markers that are read, or told, between two pauses."""

_PARTITIONS_PER_STEP = 200
"""Partitions that are told between two pauses."""


class _Found(NamedTuple):
    """What the shard of a transactional id has of it, or why that cannot be said."""

    transactional_id: str
    transaction: Transaction | ErrorCode | None


class TransactionAdminHandlers:
    """Answers those who look after transactions."""

    def __init__(
        self, runtime: Runtime[TransactionShard], writer: MarkerWriter, clock: Clock
    ) -> None:
        self._runtime = runtime
        self._writer = writer
        self._clock = clock

    def describe_transactions(
        self, request: DescribeTransactionsRequest, context: RequestContext
    ) -> Sliced[DescribeTransactionsResponse | Coroutine[None, None, DescribeTransactionsResponse]]:
        """Show transactional ids."""
        del context
        wanted = yield from once(request.transactional_ids)
        room = AnswerRoom()
        return (
            yield from gather(
                (self._found(transactional_id) for transactional_id in wanted),
                lambda found: _description(found, room),
                lambda described: DescribeTransactionsResponse(transaction_states=described),
            )
        )

    def _found(self, transactional_id: str) -> Answer[_Found]:
        if not transactional_id:
            return _Found(transactional_id, ErrorCode.INVALID_REQUEST)
        found: Answer[Transaction | ErrorCode | None] = self._runtime.call(
            transactional_id,
            lambda shard, ticket, _: shard.describe(transactional_id, ticket),
            lambda code: code,
        )
        return combined([found], lambda answers: _Found(transactional_id, answers[0]))

    async def list_transactions(
        self, request: ListTransactionsRequest, context: RequestContext
    ) -> ListTransactionsResponse:
        """List the transactional ids of this broker that pass the filters."""
        del context
        try:
            listing = await take_turns(
                Listing.read(
                    request.state_filters,
                    request.producer_id_filters,
                    request.duration_filter,
                    request.transactional_id_pattern,
                )
            )
        except ApiError as error:
            return ListTransactionsResponse(error_code=error.code)
        shown = await self._runtime.call_all(
            lambda shard, ticket, _: shard.all_transactions(ticket), ShownTransactions
        )
        return await take_turns(_list(listing, shown, self._clock.wall_ms()))

    async def write_txn_markers(
        self, request: WriteTxnMarkersRequest, context: RequestContext
    ) -> WriteTxnMarkersResponse:
        """Write markers to partitions that this broker leads."""
        del context
        written = await self._writer.write_all(await take_turns(_markers(request)))
        return await take_turns(_written(request, written))


def _markers(request: WriteTxnMarkersRequest) -> Sliced[list[tuple[Marker, list[PartitionKey]]]]:
    """Read the markers of a request, each partition of one once."""
    markers = []
    for count, asked in enumerate(request.markers, 1):
        partitions = yield from once(
            PartitionKey(topic.name, partition)
            for topic in asked.topics
            for partition in topic.partition_indexes
        )
        producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
        told = asked.transaction_result, asked.coordinator_epoch, asked.transaction_version
        markers.append((Marker(producer, *told), partitions))
        if not count % _MARKERS_PER_STEP:
            yield
    return markers


def _written(
    request: WriteTxnMarkersRequest, written: Sequence[Written]
) -> Sliced[WriteTxnMarkersResponse]:
    """Tell what became of all markers of a producer together."""
    codes: dict[int, Written] = {}
    for count, (asked, of_marker) in enumerate(zip(request.markers, written, strict=True), 1):
        codes.setdefault(asked.producer_id, {}).update(of_marker)
        if not count % _MARKERS_PER_STEP:
            yield
    response = WriteTxnMarkersResponse()
    told = 0
    for producer_id, of_producer in codes.items():
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for key, code in of_producer.items():
            topic = topics.setdefault(key.topic, WritableTxnMarkerTopicResult(key.topic))
            topic.partitions.append(WritableTxnMarkerPartitionResult(key.partition, code))
            told += 1
            if not told % _PARTITIONS_PER_STEP:
                yield
        response.markers.append(WritableTxnMarkerResult(producer_id, list(topics.values())))
        yield
    return response


def _description(asked: _Found, room: AnswerRoom) -> Sliced[DescribedTransaction]:
    transactional_id, found = asked
    if found is None:
        found = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if isinstance(found, ErrorCode):
        return DescribedTransaction(found, transactional_id)
    try:
        room.take(_TRANSACTION_SIZE + len(transactional_id) + 4 * len(found.partitions))
    except ApiError as error:
        return DescribedTransaction(error.code, transactional_id)
    topics: list[DescribedTransactionTopic] = []
    for count, key in enumerate((yield from sort(tuple(found.partitions))), 1):
        if not topics or topics[-1].topic != key.topic:
            topics.append(DescribedTransactionTopic(key.topic))
        topics[-1].partitions.append(key.partition)
        if not count % _PARTITIONS_PER_STEP:
            yield
    return DescribedTransaction(
        ErrorCode.NONE,
        transactional_id,
        found.state.label,
        found.timeout_ms,
        found.start_ms,
        found.producer_id,
        found.producer_epoch,
        topics,
    )


def _list(
    listing: Listing, shown: Sequence[ShownTransactions], now_ms: int
) -> Sliced[ListTransactionsResponse]:
    """Make one list of those of all shards; one that cannot answer yet makes the client ask again.

    A shard that is elsewhere by now has none.
    """
    here = {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}
    refused = [one.error for one in shown if one.error not in here]
    if refused:
        return ListTransactionsResponse(error_code=refused[0])
    response = ListTransactionsResponse(unknown_state_filters=list(listing.unknown_states))
    room = AnswerRoom()
    looked_at = 0
    for shard in shown:
        for one in shard.transactions:
            looked_at += 1
            if not looked_at % _LOOKS_PER_STEP:
                yield
            if not listing.includes(one, now_ms):
                continue
            try:
                room.take(_TRANSACTION_SIZE + len(one.transactional_id))
            except ApiError as error:
                return ListTransactionsResponse(error_code=error.code)
            response.transaction_states.append(
                ListedTransaction(one.transactional_id, one.producer_id, one.state.label)
            )
    return response
