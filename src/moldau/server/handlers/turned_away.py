"""Batches that are turned away for now, and come again.

A producer has several batches under way. If replicas join, or the broker begins to lead, between
two of them, the second would be taken for the first of an unknown producer, and the first could
never follow. So the log is told of the first, and the others wait for it (`ProducerStates.expect`).
"""

from __future__ import annotations

import contextlib
from typing import Final

from moldau.base.errors import CorruptRecords, StorageError
from moldau.base.files import Buffer
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.partition import Partition

COMES_BACK: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Refusals after which a producer sends the same batch again."""


def expect_again(
    partition: Partition, records: Buffer | None, error: ApiError | StorageError
) -> None:
    """Have the batches behind one that is turned away wait for it, if it comes again."""
    comes_back = isinstance(error, StorageError) or error.code in COMES_BACK
    if not comes_back or records is None:
        return
    with contextlib.suppress(CorruptRecords):
        header = parse_header(records)
        if header.producer_id >= 0 and header.base_sequence >= 0:
            partition.expect_again(header)
