"""DescribeTransactions 0, ListTransactions 0-2, WriteTxnMarkers 0-2.

They serve other brokers and `kafka-transactions.sh` (KIP-664): to look at transactions, and to end
one that hangs by writing its marker straight to the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import groupby
from typing import Any

from moldau.base.clock import Clock
from moldau.base.ids import PartitionKey
from moldau.coordination.answers import Answer, combined
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.listing import Listing
from moldau.coordination.transactions.shard import Listed, TransactionShard
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
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.server.dispatch import RequestContext
from moldau.server.markers import Marker, MarkerWriter


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
    ) -> Answer[DescribeTransactionsResponse]:
        """Show transactional ids."""
        del context
        return combined(
            [self._described(transactional_id) for transactional_id in request.transactional_ids],
            lambda described: DescribeTransactionsResponse(transaction_states=described),
        )

    def _described(self, transactional_id: str) -> Answer[DescribedTransaction]:
        if not transactional_id:
            return DescribedTransaction(ErrorCode.INVALID_REQUEST, transactional_id)
        found: Answer[Transaction | ErrorCode | None] = self._runtime.call(
            transactional_id,
            lambda shard, ticket, _: shard.describe(transactional_id, ticket),
            lambda code: code,
        )
        return combined([found], lambda answers: _description(transactional_id, answers[0]))

    async def list_transactions(
        self, request: ListTransactionsRequest, context: RequestContext
    ) -> ListTransactionsResponse:
        """List the transactional ids of this broker that pass the filters."""
        del context
        try:
            listing = Listing.of(
                request.state_filters,
                request.producer_id_filters,
                request.duration_filter,
                request.transactional_id_pattern,
            )
        except ApiError as error:
            return ListTransactionsResponse(error_code=error.code)
        now_ms = self._clock.wall_ms()
        lists = await self._runtime.call_all(
            lambda shard, ticket, _: shard.list_transactions(
                lambda transaction: listing.includes(transaction, now_ms), ticket
            ),
            Listed,
        )
        return _list(listing, lists)

    def write_txn_markers(
        self, request: WriteTxnMarkersRequest, context: RequestContext
    ) -> Coroutine[Any, Any, WriteTxnMarkersResponse]:
        """Write markers to partitions that this broker leads."""
        del context
        return self._write(request)

    async def _write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        results = await asyncio.gather(*(self._marked(marker) for marker in request.markers))
        return WriteTxnMarkersResponse(markers=results)

    async def _marked(self, asked: WritableTxnMarker) -> WritableTxnMarkerResult:
        codes = await self._writer.write(
            Marker(
                ProducerIdentity(asked.producer_id, asked.producer_epoch),
                asked.transaction_result,
                asked.coordinator_epoch,
                asked.transaction_version,
            ),
            [
                PartitionKey(topic.name, partition)
                for topic in asked.topics
                for partition in topic.partition_indexes
            ],
        )
        return WritableTxnMarkerResult(
            asked.producer_id,
            [
                WritableTxnMarkerTopicResult(
                    topic.name,
                    [
                        WritableTxnMarkerPartitionResult(
                            partition, codes[PartitionKey(topic.name, partition)]
                        )
                        for partition in topic.partition_indexes
                    ],
                )
                for topic in asked.topics
            ],
        )


def _description(
    transactional_id: str, found: Transaction | ErrorCode | None
) -> DescribedTransaction:
    if found is None:
        found = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if isinstance(found, ErrorCode):
        return DescribedTransaction(found, transactional_id)
    return DescribedTransaction(
        ErrorCode.NONE,
        transactional_id,
        found.state.label,
        found.timeout_ms,
        found.start_ms,
        found.producer_id,
        found.producer_epoch,
        [
            DescribedTransactionTopic(topic, [key.partition for key in keys])
            for topic, keys in groupby(sorted(found.partitions), lambda key: key.topic)
        ],
    )


def _list(listing: Listing, lists: list[Listed]) -> ListTransactionsResponse:
    """Put the shards' lists together; one that cannot answer yet makes the client ask again.

    A shard that is elsewhere by now has none.
    """
    here = {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}
    refused = [one.error for one in lists if one.error not in here]
    if refused:
        return ListTransactionsResponse(error_code=refused[0])
    return ListTransactionsResponse(
        unknown_state_filters=list(listing.unknown_states),
        transaction_states=[
            ListedTransaction(one.transactional_id, one.producer_id, one.state.label)
            for listed in lists
            for one in listed.transactions
        ],
    )
