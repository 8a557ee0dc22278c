"""What a producer is told when its transaction's coordinator has an objection to a batch.

The coordinator's words are newer than most producers: each version of Produce knows some of them.
"""

from __future__ import annotations

from typing import Final

from moldau.protocol.errors import ErrorCode

KNOWS_ABORTABLE: Final = 11
"""The version of Produce from which a client knows TRANSACTION_ABORTABLE."""

ADDS_PARTITIONS: Final = 12
"""The version of Produce from which the broker adds the partition (transaction version 2)."""

_NOT_NOW: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def produce_error(code: ErrorCode, version: int) -> ErrorCode:
    """Say what a producer is told for a verdict, in words that its version of Produce knows.

    NOT_ENOUGH_REPLICAS is what every producer retries without looking for another leader.
    """
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NOT_ENOUGH_REPLICAS if code in _NOT_NOW else code
