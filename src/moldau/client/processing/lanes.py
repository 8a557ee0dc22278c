"""Which record may be worked on next: those of one key one after the other, others side by side.

Pure. Each key has a lane, in which one record is under way and the others wait. Records without a
key say nothing about their order, so each is a lane of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable
from typing import Any, NamedTuple

from moldau.client.processing.progress import Progress
from moldau.client.records import Record, TopicPartition

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
