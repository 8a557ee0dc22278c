"""Offsets that nobody needs any more, and groups that are left without any (KIP-211).

An offset expires when its retention is over and its group does not use it: the group is empty, or
no member subscribes to the topic, or it never had members. Clients of versions 2 to 4 could name a
time of their own, which then counts alone. What an open transaction may still change stays.

A shard may hold hundreds of thousands of offsets, so it is swept in slices, each short enough for
the event loop. Groups are looked at after all offsets, when the tombstones of those are in the
state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from moldau.base.errors import ProtocolError
from moldau.coordination.groups.group import Group
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import (
    NO_TIMESTAMP,
    OffsetKey,
    decode_offset,
    offset_tombstone,
)
from moldau.coordination.outcome import StateRecord

LOOKS_PER_SLICE: Final = 500
"""Offsets and groups looked at in one go: a few milliseconds, if all of them are expired."""

TOMBSTONES_PER_BATCH: Final = 500
"""Tombstones written in one go, for the same reason."""

TOMBSTONE_BYTES_PER_BATCH: Final = 256 * 1024
"""Bytes of keys in one batch: a quarter of what a batch may have by default, as ids may be long."""


def tombstones(keys: Iterable[OffsetKey]) -> tuple[list[StateRecord], bool]:
    """Write that offsets are gone, as many as fit into a batch; tell whether those were all."""
    records: list[StateRecord] = []
    size = 0
    for key in keys:
        if len(records) == TOMBSTONES_PER_BATCH or size >= TOMBSTONE_BYTES_PER_BATCH:
            return records, False
        record = offset_tombstone(key)
        records.append(record)
        size += len(record.key)
    return records, True


class Slice(NamedTuple):
    """A part of a sweep."""

    records: list[StateRecord]
    """Tombstones; they must be in the state before the next slice."""
    is_last: bool


class Sweep:
    """One way through all offsets and groups of a shard."""

    def __init__(
        self, groups: Mapping[str, Group], offsets: OffsetStore, retention_ms: int
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._retention_ms = retention_ms
        self._way = self._walk()

    def next_slice(self, wall_ms: int) -> Slice:
        """Look at what comes next, as the state is now."""
        records: list[StateRecord] = []
        size = 0
        for _ in range(LOOKS_PER_SLICE):
            try:
                place = next(self._way)
            except StopIteration:
                return Slice(records, is_last=True)
            if place is None or size >= TOMBSTONE_BYTES_PER_BATCH:
                break
            record = self._look_at(place, wall_ms)
            if record is not None:
                records.append(record)
                size += len(record.key)
        return Slice(records, is_last=False)

    def _walk(self) -> Iterator[OffsetKey | str | None]:
        """Name all offsets, then nothing, then all groups. The state may change under way."""
        for group_id in tuple(self._groups):
            for topic in tuple(self._offsets.topics(group_id)):
                for partition in tuple(self._offsets.topics(group_id).get(topic, ())):
                    yield OffsetKey(group_id, topic, partition)
        yield None
        yield from tuple(self._groups)

    def _look_at(self, place: OffsetKey | str, wall_ms: int) -> StateRecord | None:
        if isinstance(place, str):
            group = self._groups.get(place)
            is_over = group is not None and group.is_disposable and not self._offsets.holds(place)
            return group.tombstone() if group is not None and is_over else None
        return offset_tombstone(place) if self._is_expired(place, wall_ms) else None

    def _is_expired(self, key: OffsetKey, wall_ms: int) -> bool:
        group = self._groups.get(key.group)
        value = self._offsets.value(key.group, key.topic, key.partition)
        if group is None or value is None or group.is_subscribed_to(key.topic):
            return False
        if self._offsets.is_unstable(key.group, key.topic, key.partition):
            return False
        try:
            offset = decode_offset(value)
        except ProtocolError:
            return False  # whoever asks for it is told
        start_ms = group.expiry_start_ms(offset.commit_timestamp)
        if start_ms is None:
            return False
        if offset.expire_timestamp != NO_TIMESTAMP:
            return wall_ms >= offset.expire_timestamp
        return wall_ms - start_ms >= self._retention_ms
