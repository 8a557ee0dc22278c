"""Every limit that is not a Kafka setting, in one place, each with its reason."""

from __future__ import annotations

UNSENT_BYTES_PER_CONNECTION = 8 * 1024 * 1024
"""A slow reader is not read from while more than this waits for it."""

INFLATED_BATCH_BYTES = 128 * 1024 * 1024
"""No compressed batch may grow beyond this: a bomb is refused, not unpacked (CVE-2023-34455)."""

OPEN_FILES_CACHED = 512
"""Closed segments whose descriptors are kept open for readers, least recently used first out."""

INDEXES_CACHED_BYTES = 32 * 1024 * 1024
"""Index bytes of closed segments kept in memory, least recently used first out."""

ABORTED_CACHED_BYTES = 16 * 1024 * 1024
"""Bytes of `.txnindex` kept in memory: half a million aborted transactions, least recently used
segments first out. The index of one segment that has more is read for each fetch that needs it."""
