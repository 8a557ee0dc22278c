"""What was fetched on its way through the user's hands: waiting, handed out, done with.

Answers wait in the order in which they came. One leaves once it was handed out whole, or once
something made it worthless: then its state is at a later revision than it.

Records of a `poll` are handed out together and done with at the next `poll`. An iteration hands
out records one by one from a list the user's loop walks by itself, so that a record costs neither
a call nor a store; how far the loop has come is told by what its iterator has left. Exact either
way: a record is handed out once, and positions lie behind what was handed out, no matter where a
loop was left, cancelled or sought away.

Pure. Read from the user's thread by the blocking face; a list iterator's length is one atomic look.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from operator import length_hint
from typing import Any

from moldau.client.consuming.decoding import Fetched, Taken
from moldau.client.consuming.positions import PartitionState, Stage
from moldau.client.records import Record
from moldau.engine.metadata import NO_EPOCH


class FetchBuffer:
    """Answers that wait for the user, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Fetched] = deque()

    def add(self, fetched: Fetched) -> None:
        """Keep an answer; its partition has counted its bytes already."""
        self._waiting.append(fetched)

    def first(self) -> Fetched | None:
        """Return the first answer that may be handed out."""
        for fetched in self._waiting:
            if fetched.stale:
                self.clear_stale()
                return self.first()
            if fetched.state.stage is Stage.READY and not fetched.state.paused:
                return fetched
        return None

    def exhausted(self, fetched: Fetched) -> None:
        """Let go of an answer that was handed out whole."""
        self._waiting.remove(fetched)
        if not fetched.stale:
            fetched.state.buffered_size -= fetched.size

    def clear_stale(self) -> None:
        """Let go of everything that has become worthless."""
        self._waiting = deque(fetched for fetched in self._waiting if not fetched.stale)


class Walk:
    """Records of one partition that an iteration hands out one by one."""

    __slots__ = ("fetched", "rest", "taken")

    def __init__(self, fetched: Fetched, taken: Taken) -> None:
        self.fetched = fetched
        self.taken = taken
        self.rest: Iterator[Record[Any, Any]] = iter(taken.records)
        """What the user's loop walks; drained by us, the loop ends by itself."""

    @property
    def handed_count(self) -> int:
        """How many records were handed out."""
        return len(self.taken.records) - length_hint(self.rest)

    def consumed(self) -> tuple[int, int]:
        """Return (offset, leader epoch) behind the last record handed out."""
        records, next_offset, epoch = self.taken
        count = self.handed_count
        if count == len(records):
            return next_offset, epoch
        if count == 0:
            state = self.fetched.state
            return state.offset, state.offset_epoch
        return records[count].offset, _epoch(records[count - 1])

    def processed(self) -> tuple[int, int]:
        """Return (offset, leader epoch) behind all but the last record handed out."""
        count = self.handed_count
        if count < 2:
            state = self.fetched.state
            return state.offset, state.offset_epoch
        records = self.taken.records
        return records[count - 1].offset, _epoch(records[count - 2])

    def cut(self) -> Taken | None:
        """End the walk where it is; return what it has left."""
        offset, epoch = self.consumed()
        left = list(self.rest)
        if not left:
            return None
        taken = self.taken
        handed = taken.records[: len(taken.records) - len(left)]
        self.taken = Taken(handed, offset, epoch)
        return taken._replace(records=left)


def _epoch(record: Record[Any, Any]) -> int:
    return NO_EPOCH if record.leader_epoch is None else record.leader_epoch


class Beginnings(dict[PartitionState, tuple[int, int]]):
    """(offset, leader epoch) of partitions before anything of them was handed out since a mark."""


class Holding:
    """The records in the user's hands."""

    def __init__(self) -> None:
        self._whole: dict[PartitionState, Taken] = {}
        self._walk: Walk | None = None
        self._beginnings: weakref.ref[Beginnings] | None = None
        """Weak, so that a mark whose owner was abandoned ends by itself."""

    @property
    def empty(self) -> bool:
        """Tell whether the user holds nothing."""
        return not self._whole and self._walk is None

    def states(self) -> list[PartitionState]:
        """Return the partitions of which something is held."""
        walked = () if self._walk is None else (self._walk.fetched.state,)
        return [*self._whole, *walked]

    def hand_out(self, state: PartitionState, taken: Taken) -> None:
        """Hand records out together; of one partition perhaps several times before a settling."""
        self.note(state)
        self._whole[state] = taken

    def hand_out_walk(self, fetched: Fetched, taken: Taken) -> Walk:
        """Hand records out one by one."""
        self.note(fetched.state)
        self._walk = Walk(fetched, taken)
        return self._walk

    def pass_over(self, state: PartitionState, taken: Taken) -> None:
        """Go past what holds no record for the user."""
        if state in self._whole:
            self._whole[state] = taken
        else:
            self.note(state)
            state.settle(taken.next_offset, taken.leader_epoch)

    def settle(self) -> tuple[Fetched, Taken] | None:
        """Count everything handed out as done with; return what a walk has left, if anything."""
        for state, taken in self._whole.items():
            state.settle(taken.next_offset, taken.leader_epoch)
        self._whole.clear()
        return self._settle_walk()

    def release(self, state: PartitionState) -> tuple[Fetched, Taken] | None:
        """Let one partition go, as it is moved elsewhere; return what a walk of it has left."""
        taken = self._whole.pop(state, None)
        if taken is not None:
            state.settle(taken.next_offset, taken.leader_epoch)
        walk = self._walk
        return self._settle_walk() if walk is not None and walk.fetched.state is state else None

    def cut(self, state: PartitionState) -> tuple[Fetched, Taken] | None:
        """Hand out no more of a partition, what was handed out stays held; return what is left."""
        walk = self._walk
        if walk is None or walk.fetched.state is not state:
            return None
        left = walk.cut()
        return None if left is None else (walk.fetched, left)

    def _settle_walk(self) -> tuple[Fetched, Taken] | None:
        walk, self._walk = self._walk, None
        if walk is None:
            return None
        walk.fetched.state.settle(*walk.consumed())
        left = walk.cut()
        return None if left is None else (walk.fetched, left)

    @property
    def is_marked(self) -> bool:
        """Tell whether there is a mark."""
        return self._beginnings is not None and self._beginnings() is not None

    def mark(self) -> Beginnings:
        """Keep account, while the result lives or until `unmark`, of where partitions began.

        A walk goes on handing out by itself, so it begins where it is.
        """
        walk = self._walk
        marked = Beginnings()
        if walk is not None:
            marked[walk.fetched.state] = walk.consumed()
        self._beginnings = weakref.ref(marked)
        return marked

    def unmark(self, marked: Beginnings) -> None:
        """Keep that account no longer."""
        if self._beginnings is not None and self._beginnings() is marked:
            self._beginnings = None

    def note(self, state: PartitionState) -> None:
        """Take note that a partition is about to move, for the first time since a mark or not."""
        marked = None if self._beginnings is None else self._beginnings()
        if marked is not None and state.has_offset:
            marked.setdefault(state, self.consumed(state))

    def consumed(self, state: PartitionState) -> tuple[int, int]:
        """Return (offset, leader epoch) behind every record of a partition that was handed out."""
        taken = self._whole.get(state)
        if taken is not None:
            return taken.next_offset, taken.leader_epoch
        walk = self._walk
        if walk is not None and walk.fetched.state is state:
            return walk.consumed()
        return state.offset, state.offset_epoch

    def processed(self, state: PartitionState) -> tuple[int, int]:
        """Return (offset, leader epoch) behind every record the user is done with.

        Of an iteration that is all but the last record handed out.
        """
        walk = self._walk
        if walk is not None and walk.fetched.state is state:
            return walk.processed()
        return state.offset, state.offset_epoch
