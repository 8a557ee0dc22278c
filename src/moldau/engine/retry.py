"""Trying again: one place that knows which failures pass, how long to wait, and what to ask anew.

async def attempt() -> int:
    broker_id = await cluster.coordinator(CoordinatorKind.GROUP, group_id, deadline)
    answer = await cluster.call(broker_id, request)
    raise_for(answer.error_code)
    return answer.generation_id

generation_id = await retried(
    cluster, attempt, deadline, coordinator=(CoordinatorKind.GROUP, group_id)
)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from moldau.engine.backoff import Backoff
from moldau.engine.broker_errors import BrokerError, RequestTimedOut, broker_error
from moldau.engine.coordinator_lookup import CoordinatorKind
from moldau.engine.errors import ClientError, ConnectionLost, CorruptAnswer
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode

T = TypeVar("T")

METADATA_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Codes which say that what is known of topics and leaders is out of date."""

COORDINATOR_ERRORS = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Codes which say that the coordinator is to be looked for again."""


class Retrying(Protocol):
    """What trying again needs of a cluster."""

    @property
    def settings(self) -> ConnectionSettings: ...

    @property
    def ports(self) -> ClientPorts: ...

    @property
    def trouble(self) -> ClientError | None: ...

    def request_refresh(self) -> None: ...

    def forget_coordinator(
        self, kind: CoordinatorKind, key: str, broker_id: int | None = None
    ) -> None: ...


def raise_for(code: int, message: str | None = None) -> None:
    """Raise the BrokerError for an error code of an answer, unless it is none."""
    if code != ErrorCode.NONE:
        raise broker_error(code, message)


async def read_or_lost(answer: Awaitable[T]) -> T:
    """Wait for an answer; one that cannot be read is a lost connection, for that was closed.

    For questions that may be asked twice: whether the first one took effect is not known.
    Cancelled, so is the waiting.
    """
    try:
        return await answer
    except CorruptAnswer as error:
        raise ConnectionLost(error.what) from error


def asks_for_metadata(error: ClientError) -> bool:
    """Tell whether a failure means that metadata should be refreshed."""
    if isinstance(error, BrokerError):
        return error.code in METADATA_ERRORS
    return isinstance(error, ConnectionLost)


def asks_for_coordinator(error: ClientError) -> bool:
    """Tell whether a failure means that the coordinator should be looked for again."""
    if isinstance(error, RequestTimedOut):
        return True
    if isinstance(error, BrokerError):
        return error.code in COORDINATOR_ERRORS
    return isinstance(error, ConnectionLost)


async def retried(
    cluster: Retrying,
    attempt: Callable[[], Awaitable[T]],
    deadline: float,
    *,
    coordinator: tuple[CoordinatorKind, str] | None = None,
) -> T:
    """Run an attempt until it succeeds, fails for good, or the deadline passes.

    The attempt raises BrokerError for error codes in its answer. Between two attempts there is a
    growing pause; metadata is refreshed and the coordinator forgotten where the failure asks for
    that. At the deadline the last failure is raised, or RequestTimedOut if there was none or an
    attempt was still under way; it says what went wrong before, here or with the metadata.
    Cancelled, it cancels the attempt.
    """
    waits = Backoff(cluster.settings.retry_backoff_ms, cluster.settings.retry_backoff_max_ms)
    clock = cluster.ports.clock
    failure: ClientError | None = None
    failure_count = 0
    while True:
        try:
            async with asyncio.timeout(max(0.0, deadline - clock.monotonic())) as limit:
                return await attempt()
        except TimeoutError:
            if not limit.expired():
                raise
            cause = failure or cluster.trouble
            raise _too_late(cause) from cause
        except ClientError as error:
            if not error.retriable:
                raise
            failure = error
        failure_count += 1
        if asks_for_metadata(failure):
            cluster.request_refresh()
        if coordinator is not None and asks_for_coordinator(failure):
            cluster.forget_coordinator(*coordinator)
        pause_s = waits.wait_s(failure_count, cluster.ports.random)
        if clock.monotonic() + pause_s >= deadline:
            raise failure
        await asyncio.sleep(pause_s)


def _too_late(failure: ClientError | None) -> RequestTimedOut:
    if failure is None:
        return RequestTimedOut("no success in time")
    return RequestTimedOut(f"no success in time; the attempt before: {failure.what}")
