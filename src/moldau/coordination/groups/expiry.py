"""Expired offsets, and groups that are left without offsets (KIP-211).

An offset expires when its retention is over and its group does not use it: the group is empty, no
member subscribes to the topic, or the group never had members. Clients of versions 2 to 4 could set
an expiry time, which then replaces the retention. An offset that an open transaction may still
change does not expire.

Groups are checked after all offsets, when the tombstones of the offsets are in the state. Otherwise
a group would seem to have offsets that are about to go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.coordination.groups.group import Group
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import (
    NO_TIMESTAMP,
    OffsetKey,
    decode_offset,
    offset_tombstone,
)
from moldau.coordination.groups.slices import Slices
from moldau.coordination.outcome import StateRecord


def expiry(
    groups: Mapping[str, Group], offsets: OffsetStore, retention_ms: int, wall_ms: int
) -> Slices:
    """Walk over everything that is expired at this time: offsets, then groups."""
    return Slices(
        _expired_offsets(groups, offsets, retention_ms, wall_ms),
        _groups_left_over(groups, offsets),
    )


def _expired_offsets(
    groups: Mapping[str, Group], offsets: OffsetStore, retention_ms: int, wall_ms: int
) -> Iterator[StateRecord | None]:
    for group_id in tuple(groups):
        for topic in tuple(offsets.topics(group_id)):
            for partition in tuple(offsets.topics(group_id).get(topic, ())):
                key = OffsetKey(group_id, topic, partition)
                group = groups.get(group_id)
                is_expired = group is not None and _is_expired(
                    group, offsets, key, wall_ms - retention_ms, wall_ms
                )
                yield offset_tombstone(key) if is_expired else None


def _is_expired(
    group: Group, offsets: OffsetStore, key: OffsetKey, oldest_ms: int, wall_ms: int
) -> bool:
    value = offsets.value(key.group, key.topic, key.partition)
    if value is None or group.is_subscribed_to(key.topic):
        return False
    if offsets.is_unstable(key.group, key.topic, key.partition):
        return False
    offset = decode_offset(value)
    start_ms = group.expiry_start_ms(offset.commit_timestamp)
    if start_ms is None:
        return False
    if offset.expire_timestamp != NO_TIMESTAMP:
        return wall_ms >= offset.expire_timestamp
    return start_ms <= oldest_ms


def _groups_left_over(
    groups: Mapping[str, Group], offsets: OffsetStore
) -> Iterator[StateRecord | None]:
    for group_id in tuple(groups):
        group = groups.get(group_id)
        is_over = group is not None and group.is_disposable and not offsets.holds(group_id)
        yield group.tombstone() if group is not None and is_over else None
