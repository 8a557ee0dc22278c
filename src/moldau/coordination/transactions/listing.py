"""Which transactional ids somebody wants to see: the filters of ListTransactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from moldau.base.patterns import InvalidPattern, Pattern
from moldau.coordination.transactions.transaction import Transaction, TransactionState
from moldau.protocol.errors import ApiError, ErrorCode

_STATES: Final = {state.label: state for state in TransactionState}


@dataclass(frozen=True, slots=True)
class Listing:
    """What to list; nothing given lets everything through."""

    states: frozenset[TransactionState] | None
    unknown_states: tuple[str, ...]
    producer_ids: frozenset[int]
    duration_ms: int
    """Only those that began longer ago than this (KIP-994); negative for all."""
    pattern: Pattern | None
    """What a whole id must match (KIP-1152)."""

    @classmethod
    def of(
        cls,
        states: Iterable[str],
        producer_ids: Iterable[int],
        duration_ms: int,
        pattern: str | None,
    ) -> Self:
        """Read a request's filters; ApiError for a pattern that is none."""
        names = dict.fromkeys(states)
        try:
            compiled = Pattern(pattern) if pattern else None
        except InvalidPattern as error:
            raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
        return cls(
            frozenset(_STATES[name] for name in names if name in _STATES) if names else None,
            tuple(name for name in names if name not in _STATES),
            frozenset(producer_ids),
            duration_ms,
            compiled,
        )

    def includes(self, transaction: Transaction, now_ms: int) -> bool:
        """Tell whether an id passes every filter.

        One that has never been in a transaction has been waiting for ever, as Kafka counts.
        """
        return (
            (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.states is None or transaction.state in self.states)
            and (self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms)
            and (self.pattern is None or self.pattern.matches(transaction.transactional_id))
        )
