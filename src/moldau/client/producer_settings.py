"""The settings of a producer: Kafka 4.3's names and defaults, checked against each other."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from moldau.base.errors import ConfigError
from moldau.client.statistics import StatsCallback, check_callback
from moldau.engine.settings import INT32_MAX, INT64_MAX, Settings, at_least, one_of
from moldau.records.compression import Codec

ACKS: Final = {"all": -1, "-1": -1, -1: -1, "1": 1, 1: 1, "0": 0, 0: 0}
ALL: Final = -1

LEVELS: Final = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, 22)}
"""The levels each codec knows (KIP-390); -1 is gzip's word for its default."""

IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
"""A broker recognises a repeated batch among a producer's last five."""

IDLE_MIN_MS: Final = 5_000
"""Kafka's own: a topic forgotten sooner would be asked for again and again."""


class ProducerSettings(Settings):
    """How records are batched, sent and acknowledged. Times are in milliseconds."""

    acks: str | int = "all"
    """`all` in-sync replicas, `1` for the leader only, `0` for no acknowledgement."""
    enable_idempotence: bool | None = None
    """Each record once and in order, despite retries; on unless other settings exclude it."""
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    batch_size: int = 16_384
    linger_ms: float = 5
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    max_in_flight_requests_per_connection: int = 5
    retries: int = INT32_MAX
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    metadata_max_idle_ms: int = 300_000
    """Metadata of a topic is dropped after this time without a record for it (KIP-526)."""
    compression_type: str = "none"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    stats_callback: StatsCallback | None = None
    """Receives the metrics every `statistics_interval_ms`; 0: never."""
    statistics_interval_ms: float = 0
    partitioner_ignore_keys: bool = False
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_availability_timeout_ms: int = 0

    @cached_property
    def required_acks(self) -> int:
        """As the protocol numbers it: -1, 1 or 0."""
        return ACKS[self.acks]

    @cached_property
    def idempotent(self) -> bool:
        """Whether each record is written once and in order despite retries."""
        return self._is_idempotent()

    @cached_property
    def codec(self) -> Codec:
        """What batches are compressed with."""
        return Codec.named(self.compression_type)

    @cached_property
    def level(self) -> int | None:
        """The compression level; None for the codec's default."""
        return self._level(self.codec)

    def check(self) -> None:
        """Refuse invalid values and combinations."""
        if type(self.acks) not in (str, int) or self.acks not in ACKS:  # True is 1 to a dict
            raise ConfigError(f"acks={self.acks!r} is not one of all, 1, 0")
        check_callback(self.stats_callback)
        self._check_numbers()
        self._is_idempotent()
        one_of([codec.label for codec in Codec], "compression_type", self.compression_type)
        self._level(self.codec)
        least = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < least:
            raise ConfigError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} is below linger_ms +"
                f" request_timeout_ms ({least:g}): a batch would expire before its response"
            )

    def _check_numbers(self) -> None:
        for name in ("batch_size", "retries", "delivery_timeout_ms"):
            at_least(0, name, getattr(self, name))
        for name in (
            "linger_ms",
            "max_block_ms",
            "partitioner_availability_timeout_ms",
            "statistics_interval_ms",
        ):
            at_least(0, name, getattr(self, name), most=INT64_MAX)
        for name in (
            "max_request_size",
            "max_in_flight_requests_per_connection",
            "transaction_timeout_ms",
        ):
            at_least(1, name, getattr(self, name))
        at_least(1, "buffer_memory", self.buffer_memory, most=INT64_MAX)
        at_least(IDLE_MIN_MS, "metadata_max_idle_ms", self.metadata_max_idle_ms, most=INT64_MAX)

    def _is_idempotent(self) -> bool:
        """Decide on idempotence; ConfigError if it is asked for and another setting excludes it."""
        many = self.max_in_flight_requests_per_connection > IDEMPOTENT_IN_FLIGHT_MAX
        reasons = {
            f"acks={self.acks!r} (all is needed)": self.required_acks != ALL,
            "retries=0 (one at least is needed)": self.retries == 0,
            f"max_in_flight_requests_per_connection above {IDEMPOTENT_IN_FLIGHT_MAX}": many,
        }
        against = [reason for reason, applies in reasons.items() if applies]
        if self.transactional_id == "":
            raise ConfigError("transactional_id is empty; leave it out for no transactions")
        if self.transactional_id is not None:
            if self.enable_idempotence is False:
                against.append("enable_idempotence=False")
            if against:
                raise ConfigError(f"transactional_id excludes {', '.join(against)}")
            return True
        if self.enable_idempotence is None:
            return not against
        if self.enable_idempotence and against:
            raise ConfigError(f"enable_idempotence=True excludes {', '.join(against)}")
        return self.enable_idempotence

    def _level(self, codec: Codec) -> int | None:
        """Return the level for the codec, None for its default."""
        if codec not in LEVELS:
            return None
        name = f"compression_{codec.label}_level"
        level: int = getattr(self, name)
        if codec is Codec.GZIP and level == -1:
            return None
        least, most = LEVELS[codec]
        if not least <= level <= most:
            raise ConfigError(f"{name}={level!r} is not between {least} and {most}")
        return level
