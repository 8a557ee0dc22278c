"""The topic configs that storage uses, as typed values.

Names are Kafka's with `_` for `.`; defaults are those of Kafka 4. The table
`server.configuration.topic_configs` parses, validates and describes them for users.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

LONG_MAX: Final = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The resolved configs of one topic: topic value, else broker value, else default."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    unclean_leader_election_enable: bool = False
    throttled_replicas: dict[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """The entries of each list, `partition:broker` or `*`: asked for each partition of a fetch."""

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy
