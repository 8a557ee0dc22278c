"""The settings of a consumer, under Kafka's names and with Kafka's defaults (4.3).

They are checked once, when a consumer is created. Connection settings are in `engine.settings`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final

from moldau.base.errors import ConfigError
from moldau.base.tuples import NamedTuple
from moldau.client.statistics import StatsCallback, check_callback
from moldau.engine.settings import INT64_MAX, IsolationLevel, Settings, at_least

_DURATION: Final = (
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:[.,]\d{1,9})?)S)?)?"
)
"""ISO 8601 as `java.time.Duration` reads it, without signs: no reset lies in the future."""
_UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_DURATION_PREFIX: Final = "by_duration:"


class ResetKind(Enum):
    """Where to start if there is no valid offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class ResetPolicy(NamedTuple):
    """`auto.offset.reset`, understood."""

    kind: ResetKind
    duration_ms: int = 0
    """With BY_DURATION, how far back from now (KIP-1106)."""

    @classmethod
    def parse(cls, text: str) -> ResetPolicy:
        """Read `earliest`, `latest`, `none` or `by_duration:PT1H`; ConfigError for others."""
        if text.startswith(_DURATION_PREFIX):
            return cls(ResetKind.BY_DURATION, _duration_ms(text.removeprefix(_DURATION_PREFIX)))
        for kind in (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.NONE):
            if text == kind.value:
                return cls(kind)
        from moldau.base.removed_settings import removal  # noqa: PLC0415 - only who is refused
        from moldau.client.removed_settings import REMOVED_RESETS  # noqa: PLC0415 - as above

        if (removed := REMOVED_RESETS.get(text)) is not None:
            raise ConfigError(removal(f"auto_offset_reset={text!r}", removed))
        raise ConfigError(
            f"auto_offset_reset={text!r} is not earliest, latest, none or by_duration:PT1H"
        )


def _duration_ms(text: str) -> int:
    found = re.fullmatch(_DURATION, text)
    if found is None or text in ("P", "") or text.endswith("T"):
        raise ConfigError(
            f"auto_offset_reset: {text!r} is not an ISO 8601 duration such as PT1H30M"
        )
    parts = found.groupdict("0").items()
    return round(sum(float(value.replace(",", ".")) * _UNIT_MS[unit] for unit, value in parts))


class ConsumerSettings(Settings):
    """The settings of `Consumer` and `AsyncConsumer` without those of the connection."""

    stats_callback: StatsCallback | None = None
    """Receives the metrics every `statistics_interval_ms`; 0: never."""
    statistics_interval_ms: float = 0
    group_id: str | None = None
    group_instance_id: str | None = None
    """A static member: it may be away for `session_timeout_ms` without a rebalance (KIP-345)."""
    group_protocol: str = "classic"
    """The group protocol; only `classic` is supported."""
    partition_assignment_strategy: tuple[Any, ...] = ("range", "cooperative-sticky")
    """Names of built-in assignors, or assignor objects, in order of preference."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    """Has no effect without a group."""
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: ResetPolicy = ResetPolicy(ResetKind.LATEST)
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    max_poll_records: int = 500
    prefetch_max_bytes: int = 33_554_432
    """Moldau only: the most fetched bytes that wait for the user, over all partitions. One response
    may exceed it, by at most `fetch_max_bytes`."""
    check_crcs: bool = True
    client_rack: str = ""
    exclude_internal_topics: bool = True
    default_api_timeout_ms: int = 60_000

    def check(self) -> None:
        """Refuse invalid values and combinations."""
        check_callback(self.stats_callback)
        for name, least in _LEAST.items():
            at_least(least, name, getattr(self, name))
        for name, least in (("statistics_interval_ms", 0), ("prefetch_max_bytes", 1)):
            at_least(least, name, getattr(self, name), most=INT64_MAX)
        if self.group_protocol.lower() != "classic":
            raise ConfigError(
                f"group_protocol={self.group_protocol!r} is not supported yet: classic is"
            )
        if self.group_id == "":
            raise ConfigError("group_id is empty; leave it out for a consumer without a group")
        if self.group_instance_id == "":
            raise ConfigError("group_instance_id is empty; leave it out for a dynamic member")
        if self.group_id is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below"
                f" session_timeout_ms={self.session_timeout_ms}; a third of it is usual"
            )


_LEAST: Final = {
    "session_timeout_ms": 1,
    "heartbeat_interval_ms": 1,
    "max_poll_interval_ms": 1,
    "auto_commit_interval_ms": 0,
    "fetch_min_bytes": 0,
    "fetch_max_wait_ms": 0,
    "fetch_max_bytes": 0,
    "max_partition_fetch_bytes": 0,
    "max_poll_records": 1,
    "default_api_timeout_ms": 0,
}
"""The smallest value of each number that makes sense, as Kafka's own checks have it."""
