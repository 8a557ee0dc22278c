"""What a user can say about writing: the sink's own options, and the client's settings for it.

Pure. Names and meaning are those of Spark's own Kafka connector; what begins with `exactly.once` is
ours. Everything is checked here, before the first row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from moldau.base.errors import ConfigError
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.producer_settings import ProducerSettings
from moldau.spark.settings import ConnectionOptions, Options, checked

EXACTLY_ONCE: Final = "exactly.once"
ONCE_ID: Final = "exactly.once.id"
ONCE_NUMBER: Final = "exactly.once.number"
MARKER_TOPIC: Final = "exactly.once.marker.topic"
STAGING_PREFIX: Final = "exactly.once.staging.prefix"
STAGING_RETENTION: Final = "exactly.once.staging.retention.ms"
INLINE_SIZE_MAX: Final = "exactly.once.inline.max.bytes"

NAMES: Final = (
    "topic",
    "includeHeaders",
    "checkpointLocation",
    "path",
    EXACTLY_ONCE,
    ONCE_ID,
    ONCE_NUMBER,
    MARKER_TOPIC,
    STAGING_PREFIX,
    STAGING_RETENTION,
    INLINE_SIZE_MAX,
)

BATCH_SIZE: Final = 512 * 1024
"""Kafka's 16 KiB suit records that come one by one. Rows come by the ten thousand, and what a batch
costs the broker, and us, hardly depends on its size; two of them still fit one request."""

MAX_BLOCK_MS: Final = 120_000
"""How long a task waits for room in its buffer: as long as a batch may wait to be acknowledged.
With Kafka's minute a broker that is gone for that long would fail the task, though nothing of what
it has sent is too late yet."""

TRANSACTION_TIMEOUT_MS: Final = 300_000
"""How long the driver may take to copy a batch, and how long at most readers wait for a driver that
died in the middle and is never started again. Kafka's minute is short for tens of gigabytes."""

DEFAULT_MARKER_TOPIC: Final = "moldau-spark-markers"
DEFAULT_STAGING_PREFIX: Final = "moldau-spark-staging"

DEFAULT_RETENTION_MS: Final = 24 * 60 * 60 * 1000
"""Staged rows are deleted once they are published; this is for those that nobody comes back for. It
has to be longer than a batch takes."""

DEFAULT_INLINE_SIZE_MAX: Final = 256 * 1024
"""What a task may send through Spark itself. A driver holds the messages of all tasks of a batch at
once, and two hundred tasks with this much are a twentieth of what it takes (1 GiB)."""

ONLY_NUMBER: Final = 0
"""That of a write which is the only one under its id."""
_NUMBER_MIN: Final = -(2**63)

_TOPIC_NAME_MAX: Final = 249
_QUERY_ID_SIZE: Final = 1 + 36
"""A dash and a UUID are put behind the prefix."""


class SinkOptions(NamedTuple):
    """How rows are to be written. Travels to executors, so it holds plain values only."""

    connection: ConnectionOptions
    topic: str | None
    """Where all rows go; None if a column says that for each."""
    exactly_once: bool
    once_id: str | None
    """Under which a write of a batch query counts as the same write."""
    once_number: int
    """Which of the writes under that id it is; they grow."""
    marker_topic: str
    staging_prefix: str
    staging_retention_ms: int
    inline_size_max: int

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> SinkOptions:
        """Read the options of a query; ConfigError says in one line what is wrong with them."""
        options = Options(given)
        options.check_names(NAMES)
        connection = ConnectionOptions.from_options(given)
        if "transactional.id" in connection.settings:
            raise ConfigError(
                "kafka.transactional.id is not taken, as all tasks would share it: set"
                f" {EXACTLY_ONCE}=true to have rows written in a transaction"
            )
        number = options.number(ONCE_NUMBER, least=_NUMBER_MIN)
        read = cls(
            connection=connection,
            topic=options.text("topic"),
            exactly_once=options.flag(EXACTLY_ONCE, default=False),
            once_id=options.text(ONCE_ID),
            once_number=ONLY_NUMBER if number is None else number,
            marker_topic=options.text(MARKER_TOPIC) or DEFAULT_MARKER_TOPIC,
            staging_prefix=options.text(STAGING_PREFIX) or DEFAULT_STAGING_PREFIX,
            staging_retention_ms=options.number_or(
                STAGING_RETENTION, DEFAULT_RETENTION_MS, least=1
            ),
            inline_size_max=options.number_or(INLINE_SIZE_MAX, DEFAULT_INLINE_SIZE_MAX),
        )
        if number is not None and read.once_id is None:
            raise ConfigError(f"{ONCE_NUMBER} has no effect without {ONCE_ID}: set that too")
        read._check()
        return read

    def _check(self) -> None:
        if self.topic is not None and not self.topic:
            raise ConfigError("the option topic is empty: name a topic, or leave it out")
        if self.once_id is not None and not self.exactly_once:
            raise ConfigError(f"{ONCE_ID} has no effect without {EXACTLY_ONCE}=true: set that too")
        if self.once_id is not None and not self.once_id:
            raise ConfigError(f"{ONCE_ID} is empty: name the write, or leave it out")
        most = _TOPIC_NAME_MAX - _QUERY_ID_SIZE
        if len(self.staging_prefix) > most:
            raise ConfigError(f"{STAGING_PREFIX} is longer than {most} characters")
        self._check_clients()

    def _check_clients(self) -> None:
        """Refuse settings that a client would refuse, which is made only when rows are there."""
        checked(ProducerSettings, self.producer())
        if self.exactly_once:
            checked(ConsumerSettings, self.consumer())
            try:
                checked(ProducerSettings, self.publisher("any"))
            except ConfigError as error:
                told = str(error).replace("kafka.transactional.id", f"{EXACTLY_ONCE}=true")
                raise ConfigError(told) from None

    def staging_topic(self, writer: str) -> str:
        """Return the topic for staging of a query, or of one write."""
        return f"{self.staging_prefix}-{writer}"

    def producer(self) -> dict[str, Any]:
        """Return the settings of a producer that is given whole batches."""
        own = {"batch_size": BATCH_SIZE, "max_block_ms": MAX_BLOCK_MS}
        return {**own, **self.connection.producer()}

    def publisher(self, transactional_id: str) -> dict[str, Any]:
        """Return the settings of the driver's producer."""
        settings = {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, **self.producer()}
        return {**settings, "transactional_id": transactional_id}

    def consumer(self) -> dict[str, Any]:
        """Return the settings of a consumer without a group."""
        own = {"group_id": None, "enable_auto_commit": False, "allow_auto_create_topics": False}
        return {**self.connection.consumer(), **own}
