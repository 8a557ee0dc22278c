"""The filters of ListTransactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from moldau.base.patterns import InvalidPattern, Pattern
from moldau.coordination.transactions.transaction import Transaction, TransactionState
from moldau.protocol.errors import ApiError, ErrorCode

_STATES: Final = {state.label: state for state in TransactionState}

_FILTERS_PER_STEP: Final = 256
"""Filters that are read between two pauses. They take some tens of microseconds."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which transactional ids to list. An empty filter lets every id through."""

    states: frozenset[TransactionState] | None
    unknown_states: Collection[str]
    producer_ids: Collection[int]
    duration_ms: int
    """Only transactions that began longer ago than this (KIP-994); negative for all."""
    pattern: Pattern | None
    """The whole id must match it (KIP-1152)."""

    @classmethod
    def read(
        cls,
        states: Sequence[str],
        producer_ids: Sequence[int],
        duration_ms: int,
        pattern: str | None,
    ) -> Generator[None, None, Self]:
        """Read a request's filters, with pauses, because there may be many of them.

        Raises ApiError for an invalid pattern.
        """
        try:
            compiled = Pattern(pattern) if pattern else None
        except InvalidPattern as error:
            raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
        known: set[TransactionState] = set()
        unknown: dict[str, None] = {}
        for count, name in enumerate(states, 1):
            if name in _STATES:
                known.add(_STATES[name])
            else:
                unknown[name] = None
            if not count % _FILTERS_PER_STEP:
                yield
        ids: set[int] = set()
        for first in range(0, len(producer_ids), _FILTERS_PER_STEP):
            ids.update(producer_ids[first : first + _FILTERS_PER_STEP])
            yield
        return cls(frozenset(known) if states else None, unknown, ids, duration_ms, compiled)

    def includes(self, transaction: Transaction, now_ms: int) -> bool:
        """Tell whether an id passes every filter.

        An id without a start time passes each duration filter, as in Kafka.
        """
        return (
            (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.states is None or transaction.state in self.states)
            and (self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms)
            and (self.pattern is None or self.pattern.matches(transaction.transactional_id))
        )
