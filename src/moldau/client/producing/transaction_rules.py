r"""What state a transaction is in, what may be done in it, and how bad an error is for it.

    NEW -> READY -> OPEN -> COMMITTING -> READY
                     |  \-> ABORTING  -> READY
                     \-> BROKEN -> ABORTING         an error that aborting heals
    any state -> FATAL                              fenced, forbidden: a new producer is needed

Pure.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from moldau.client.errors import (
    BrokerError,
    ClientClosed,
    ClientError,
    InvalidState,
    ProducerFenced,
)
from moldau.protocol.errors import ErrorCode


class State(Enum):
    """Where a transactional producer stands."""

    NEW = auto()
    """Without an identity: `start` is under way."""
    READY = auto()
    OPEN = auto()
    BROKEN = auto()
    """Something of it failed: it can only be aborted."""
    COMMITTING = auto()
    ABORTING = auto()
    FATAL = auto()


_FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})

_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)
"""Errors that no abort heals, wherever they come from."""

_FATAL_FROM_COORDINATOR: Final = _FATAL | {ErrorCode.INVALID_TXN_STATE}
"""To a partition's leader an unexpected state of the transaction may mean that it timed out."""

FORGOTTEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The coordinator does not know this producer under its transactional id: that has expired
(`transactional.id.expiration.ms`), or is another's."""

ALLOWED: Final = {
    "begin": frozenset({State.READY}),
    "send offsets in": frozenset({State.OPEN}),
    "commit": frozenset({State.OPEN, State.COMMITTING}),
    "abort": frozenset({State.OPEN, State.BROKEN, State.ABORTING}),
}

_ADVICE: Final = {
    State.NEW: "Start the producer first.",
    State.READY: "Begin a transaction first.",
    State.OPEN: "Commit or abort the open transaction first.",
    State.COMMITTING: "Its commit is under way, or timed out: commit again.",
    State.ABORTING: "Its abort is under way, or timed out: abort again.",
}


def refusal(state: State, action: str) -> InvalidState:
    """Make what a call is told that does not fit the state."""
    return InvalidState(
        f"cannot {action} a transaction: the producer is {state.name.lower()}",
        advice=_ADVICE.get(state, ""),
    )


def send_refusal(state: State) -> InvalidState:
    """Make what `send` is told outside of an open transaction."""
    return InvalidState(
        f"no transaction is open: the producer is {state.name.lower()}", advice=_ADVICE[state]
    )


def as_seen_by_user(error: ClientError) -> ClientError:
    """Name a coordinator's refusal of our epoch for what it is: somebody else has a newer one.

    Whoever raises what is returned leaves its cause: raised from itself it would be its own.
    """
    if isinstance(error, BrokerError) and error.code in _FENCING:
        fenced = ProducerFenced(error.what)
        fenced.__cause__ = error
        return fenced
    return error


def is_fatal(error: ClientError, *, from_coordinator: bool) -> bool:
    """Tell whether the producer is of no more use after an error."""
    if isinstance(error, BrokerError):
        return error.code in (_FATAL_FROM_COORDINATOR if from_coordinator else _FATAL)
    return isinstance(error, ClientClosed)
