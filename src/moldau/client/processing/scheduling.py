"""Which record may be worked on next, which has to wait until it is due, and how far the work is.

Records of one key are worked on one after the other, others side by side: each key has a lane, in
which one record is under way and the others wait. Records without a key say nothing about their
order, so each is a lane of its own.

A committed offset says that everything below it is done; so it may only move over records that are
finished without a gap, whatever was finished beyond it.

A record that is not due yet holds up its partition and nothing else: the partition is paused and
sought back to it, so that nothing is kept in memory and no handler is occupied meanwhile.

Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterable
from typing import Any, NamedTuple

from moldau.client.records import OffsetAndMetadata, Record, TopicPartition


class Progress:
    """The records of one partition that were taken on, for as long as it is assigned."""

    __slots__ = ("_finished", "_open", "committed", "reached")

    def __init__(self) -> None:
        self._open: deque[tuple[int, int | None]] = deque()
        """Offset and leader epoch of what was taken on and lies at or behind the first gap."""
        self._finished: set[int] = set()
        """What was finished behind the first gap."""
        self.reached: OffsetAndMetadata | None = None
        """What may be committed: behind it nothing is finished without a gap."""
        self.committed: OffsetAndMetadata | None = None
        """What is known to have been committed."""

    def begin(self, record: Record[Any, Any]) -> None:
        """Take a record on; its offset is above all before."""
        self._open.append((record.offset, record.leader_epoch))

    def finish(self, offset: int) -> None:
        """Note that the work on a record is done."""
        self._finished.add(offset)
        last: tuple[int, int | None] | None = None
        while self._open and self._open[0][0] in self._finished:
            last = self._open.popleft()
            self._finished.remove(last[0])
        if last is not None:
            self.reached = OffsetAndMetadata(last[0] + 1, leader_epoch=last[1])

    @property
    def first_open(self) -> int | None:
        """The offset of the first record that is not finished, if there is one."""
        return self._open[0][0] if self._open else None


Lane = tuple[TopicPartition, Hashable] | None


class Work(NamedTuple):
    """One record to be worked on."""

    record: Record[Any, Any]
    partition: TopicPartition
    lane: Lane
    progress: Progress


class Lanes:
    """Everything that was taken on and has not begun, and the lanes that are busy."""

    def __init__(self) -> None:
        self._ready: deque[Work] = deque()
        self._behind: dict[Lane, deque[Work]] = {}
        """The busy lanes, and what waits in them."""
        self.waiting_count = 0

    def put(self, work: Work) -> None:
        """Take on a record, behind those of its lane."""
        self.waiting_count += 1
        if work.lane is None:
            self._ready.append(work)
        elif (behind := self._behind.get(work.lane)) is not None:
            behind.append(work)
        else:
            self._behind[work.lane] = deque()
            self._ready.append(work)

    def take(self) -> Work | None:
        """Return what may begin now; its lane is busy until `leave`."""
        if not self._ready:
            return None
        self.waiting_count -= 1
        return self._ready.popleft()

    def leave(self, work: Work) -> None:
        """Let the next of a lane come forward: what was taken from it is over."""
        if work.lane is None:
            return
        behind = self._behind[work.lane]
        if behind:
            self._ready.append(behind.popleft())
        else:
            del self._behind[work.lane]

    def waits(self, partitions: Container[TopicPartition]) -> bool:
        """Tell whether anything of these partitions has not begun."""
        return any(work.partition in partitions for work in self._ready) or any(
            behind and behind[0].partition in partitions for behind in self._behind.values()
        )

    def drop(self, partitions: Container[TopicPartition]) -> None:
        """Forget what has not begun of these partitions; what is under way keeps its lane."""
        for work in [one for one in self._ready if one.partition in partitions]:
            self._ready.remove(work)
            self.waiting_count -= 1
            if work.lane is not None:
                self.waiting_count -= len(self._behind.pop(work.lane))
        for lane, behind in self._behind.items():
            if lane is not None and lane[0] in partitions:
                self.waiting_count -= len(behind)
                behind.clear()


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
