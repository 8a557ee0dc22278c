"""Retry topics and dead letters for records whose handler fails.

A failed record goes to the first retry topic of its topic, from there to the second, and so on.
After the last retry it goes to the dead-letter topic. Each retry topic has one delay, so its
records become due in order and only the first one must be checked. Headers describe the failure,
beside the user's own headers.

    retries = RetryTopics(producer, group="billing", delays_ms=(1_000, 60_000))
    consumer.subscribe(["orders", *retries.topics("orders")])
    workers = KeyedWorkers(consumer, retries.guard(handle), due_ms=retries.due_ms)

A retried record is processed after later records of its key. Do not use retry topics where the
order of a key matters.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from moldau.base.clock import Clock, SystemClock
from moldau.client.errors import InvalidSetting
from moldau.client.producer import AsyncProducer
from moldau.client.records import Header, Record
from moldau.engine.arguments import check_int, check_text

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

Handler = Callable[[Record[K, V]], Awaitable[object]]

ORIGIN_TOPIC: Final = "moldau-origin-topic"
ORIGIN_PARTITION: Final = "moldau-origin-partition"
ORIGIN_OFFSET: Final = "moldau-origin-offset"
ORIGIN_TIMESTAMP: Final = "moldau-origin-timestamp-ms"
FAILURES: Final = "moldau-failures"
"""The number of failed attempts."""
ERROR_TYPE: Final = "moldau-error-type"
ERROR_TEXT: Final = "moldau-error-text"
DUE: Final = "moldau-due-ms"
"""The time of the next attempt, in milliseconds since 1970. Dead letters have none."""

ERROR_TEXT_SIZE_MAX: Final = 1_024
"""A reason is to be read by people; more of it could make a record too large to be kept."""


class RetryTopics(Generic[K, V]):
    """Sends failed records to retry topics. The producer must serialize what the consumer reads.

    `group` is the consumer's group. It is part of the topic names, because each group has its own
    failures. Exceptions of the classes in `hopeless` go to the dead letters at once.
    """

    def __init__(
        self,
        producer: AsyncProducer[K, V],
        *,
        group: str,
        delays_ms: Sequence[int] = (1_000, 10_000, 60_000),
        hopeless: tuple[type[Exception], ...] = (),
        clock: Clock | None = None,
    ) -> None:
        check_text("group", group)
        for delay_ms in delays_ms:
            check_int("delays_ms", delay_ms)
        if any(delay_ms < 0 for delay_ms in delays_ms):
            raise InvalidSetting(f"delays_ms={tuple(delays_ms)}: a delay is not negative")
        self._producer = producer
        self._group = group
        self._delays_ms = tuple(delays_ms)
        self._hopeless = hopeless
        self._clock = clock or SystemClock()

    # Names

    def topics(self, topic: str) -> list[str]:
        """Return the retry topics of a topic; subscribe to them too."""
        return [self._retry_topic(topic, index) for index in range(len(self._delays_ms))]

    def dead_letter_topic(self, topic: str) -> str:
        """Return the dead-letter topic of a topic."""
        return f"{topic}.{self._group}.dead"

    def _retry_topic(self, topic: str, index: int) -> str:
        return f"{topic}.{self._group}.retry-{index + 1}"

    # Handling

    def guard(self, handle: Handler[K, V]) -> Handler[K, V]:
        """Return a handler that sends a record on if this one fails.

        It raises only if the record cannot be sent on, because the record must not be committed
        then. If cancelled, it cancels the handler and sends nothing.
        """

        async def guarded(record: Record[K, V]) -> None:
            try:
                await handle(record)
            except Exception as error:  # noqa: BLE001 - whatever it is stands in the headers
                await self.send_on(record, error)

        return guarded

    async def send_on(self, record: Record[K, V], error: Exception) -> None:
        """Send a record to its next topic after a failure; waits for the acknowledgement."""
        known = dict(record.headers)
        origin = _text(known.get(ORIGIN_TOPIC)) or record.topic
        failure_count = _number(known.get(FAILURES)) + 1
        topic, due_ms = self._destination(origin, failure_count, error)
        log = logger.info if due_ms is not None else logger.warning
        log(
            "%s-%d at offset %d failed (%s) and goes to %s",
            record.topic,
            record.partition,
            record.offset,
            type(error).__name__,
            topic,
        )
        headers = _headers(record, known, failure_count, error, due_ms)
        await self._producer.send(topic, record.value, record.key, headers=headers)

    def _destination(
        self, origin: str, failure_count: int, error: Exception
    ) -> tuple[str, int | None]:
        if failure_count > len(self._delays_ms) or isinstance(error, self._hopeless):
            return self.dead_letter_topic(origin), None
        index = failure_count - 1
        due_ms = self._clock.wall_ms() + self._delays_ms[index]
        return self._retry_topic(origin, index), due_ms

    @staticmethod
    def due_ms(record: Record[K, V]) -> int | None:
        """Return the time from which a record of a retry topic may be handled, else None."""
        for name, value in record.headers:
            if name == DUE:
                return _number(value)
        return None


def _headers(
    record: Record[K, V],
    known: dict[str, bytes | None],
    failure_count: int,
    error: Exception,
    due_ms: int | None,
) -> list[Header]:
    """Return the user's headers, and what is to be known of the failure."""
    said = str(error).encode(errors="replace")[:ERROR_TEXT_SIZE_MAX]
    ours: dict[str, bytes | None] = {
        ORIGIN_TOPIC: record.topic.encode(),
        ORIGIN_PARTITION: b"%d" % record.partition,
        ORIGIN_OFFSET: b"%d" % record.offset,
        ORIGIN_TIMESTAMP: b"%d" % record.timestamp_ms,
    }
    ours = {name: known.get(name, value) for name, value in ours.items()}
    ours |= {
        FAILURES: b"%d" % failure_count,
        ERROR_TYPE: type(error).__qualname__.encode(),
        ERROR_TEXT: said.decode(errors="ignore").encode(),
    }
    if due_ms is not None:
        ours[DUE] = b"%d" % due_ms
    theirs = [(name, value) for name, value in record.headers if name not in _NAMES]
    return [*theirs, *ours.items()]


_NAMES: Final = frozenset(
    {
        ORIGIN_TOPIC,
        ORIGIN_PARTITION,
        ORIGIN_OFFSET,
        ORIGIN_TIMESTAMP,
        FAILURES,
        ERROR_TYPE,
        ERROR_TEXT,
        DUE,
    }
)


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _number(value: bytes | None) -> int:
    """Read a number; anybody may have written the header, so anything may stand there."""
    text = _text(value)
    return int(text) if text.isdecimal() and text.isascii() else 0
