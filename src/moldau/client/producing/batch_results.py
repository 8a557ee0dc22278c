"""What becomes of the records of a batch: not known yet, written, or failed.

A producer hands out one delivery for each record, and a million records a second leave no room for
a future each. All records of a batch share one batch result; a delivery is that and the record's
index in it. A batch result can move: a batch too large for the broker is split, and a record that
waited for its topic gets its batch later. Then it points on to where its records are now.

In the blocking face two threads meet here: `watch` and `settle` are called with `guard` held there,
and what `settle` returns is called after it was let go. Pure: knows neither loop nor thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain

from moldau.base.tuples import NamedTuple
from moldau.client.errors import ClientError, DeliveryAborted

Watcher = Callable[[], object]
"""Told once, with nothing: the batch result says what happened."""

Guard = AbstractContextManager[object]

UNKNOWN_OFFSET = -1
NO_APPEND_TIME = -1


def fresh(error: ClientError) -> ClientError:
    """Return an exception of its own for everybody who is told: tracebacks must not pile up."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy


def aborted_transaction() -> DeliveryAborted:
    """Make what records are told whose transaction was aborted before they were written."""
    return DeliveryAborted("the transaction was aborted")


class BatchResult:
    """What became of the records of one batch, or of one record that has no batch yet."""

    __slots__ = (
        "append_time_ms",
        "base_offset",
        "done",
        "error",
        "guard",
        "moved",
        "partition",
        "topic",
        "watchers",
    )

    def __init__(self, topic: str, partition: int, guard: Guard) -> None:
        self.topic = topic
        self.partition = partition
        self.guard = guard
        self.done = False
        self.error: ClientError | None = None
        self.base_offset = UNKNOWN_OFFSET
        self.append_time_ms = NO_APPEND_TIME
        self.moved: tuple[Moved, ...] = ()
        """Where the records are now, if not here."""
        self.watchers: dict[int, list[Watcher]] = {}
        """By the index of the record, so that one of thousands is found to be taken back."""

    def located(self, index: int) -> tuple[BatchResult, int]:
        """Return the batch result that decides on a record now, and the record's index in it."""
        batch_result = self
        while batch_result.moved:
            for moved in batch_result.moved:
                if index < moved.size:
                    batch_result, index = moved.batch_result, index + moved.first_index
                    break
                index -= moved.size
        return batch_result, index

    def watch(self, index: int, watcher: Watcher) -> bool:
        """Have somebody told when the record is decided on; False if it is already."""
        batch_result, place = self.located(index) if self.moved else (self, index)
        if batch_result.done:
            return False
        watchers = batch_result.watchers.get(place)
        if watchers is None:
            batch_result.watchers[place] = [watcher]
        else:
            watchers.append(watcher)
        return True

    def unwatch(self, index: int, is_meant: Callable[[Watcher], bool]) -> list[Watcher]:
        """Tell some of those who watch a record nothing; return them."""
        batch_result, place = self.located(index)
        watchers = batch_result.watchers.get(place)
        if watchers is None:
            return []
        gone = [watcher for watcher in watchers if is_meant(watcher)]
        if len(gone) == len(watchers):
            del batch_result.watchers[place]
        elif gone:
            watchers[:] = [watcher for watcher in watchers if watcher not in gone]
        return gone

    def settle(
        self,
        error: ClientError | None,
        base_offset: int = UNKNOWN_OFFSET,
        append_time_ms: int = NO_APPEND_TIME,
    ) -> list[Watcher]:
        """Decide, for good; return who is to be told."""
        self.error = error
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.done = True
        if not self.watchers:
            return []
        watchers, self.watchers = self.watchers, {}
        return list(chain.from_iterable(watchers.values()))

    def move(self, *targets: Moved) -> None:
        """Point on to where the records are now, and take those who wait along."""
        moving, self.watchers = self.watchers, {}
        self.moved = targets
        self.done = True
        for index, watchers in moving.items():
            for watcher in watchers:
                self.watch(index, watcher)


class Moved(NamedTuple):
    """Some records of a batch result, from an index on, and where they are now.

    It stands behind `BatchResult`: compiled, a named tuple needs the classes of its fields.
    """

    size: int
    """How many."""
    batch_result: BatchResult
    first_index: int
