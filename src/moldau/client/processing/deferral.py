"""Partitions whose next record is not due yet.

Pure. A record that has to wait holds up its partition and nothing else: the partition is paused and
sought back to it, so that nothing is kept in memory and no handler is occupied meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.records import TopicPartition


class Deferrals:
    """When paused partitions go on, in milliseconds of wall time."""

    def __init__(self) -> None:
        self._until_ms: dict[TopicPartition, int] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._until_ms

    def hold(self, partition: TopicPartition, until_ms: int) -> None:
        """Let a partition rest until then."""
        self._until_ms[partition] = until_ms

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Let partitions go that are no longer ours."""
        for partition in partitions:
            self._until_ms.pop(partition, None)

    def take_due(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that go on now; they are not held any more."""
        due = [one for one, until_ms in self._until_ms.items() if until_ms <= now_ms]
        self.forget(due)
        return due

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long it is until the next one goes on; None if none is held."""
        if not self._until_ms:
            return None
        return max(0, min(self._until_ms.values()) - now_ms)
