"""What is taken from fetched answers when the user asks, in each form that it may ask for.

A `Take` looks at one answer and returns what the user gets of it, or None if the answer has
nothing left; then the answer has been let go. It never waits: whether the user may be given
anything, and what happens until there is something, is `core`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.client.consuming.decoding import Fetched, Taken
from moldau.client.consuming.holding import FetchBuffer, Holding, Walk
from moldau.client.errors import ClientError, InvalidArgument
from moldau.client.records import Record
from moldau.engine.arguments import check_int

if TYPE_CHECKING:
    from moldau.engine.arrow_batches import ArrowForm, RecordBatch

T_co = TypeVar("T_co", covariant=True)

Records = list[Record[Any, Any]]
Intercept = Callable[[Records], Records]
Take = Callable[[Fetched], T_co | None]


class Taking:
    """Takes records from the buffer into the user's hands."""

    def __init__(
        self,
        buffer: FetchBuffer,
        holding: Holding,
        count_max: int,
        intercept: Intercept | None,
        has_room: Callable[[], None],
    ) -> None:
        self._buffer = buffer
        self._holding = holding
        self._count_max = count_max
        self._intercept = intercept
        self._has_room = has_room
        """Called when an answer was let go: another may be fetched."""
        self.count = 0
        """How many records were handed out."""

    def walk(self, fetched: Fetched) -> Walk | None:
        """Take records that are handed out one by one."""
        taken = self._take(fetched, self._count_max)
        return None if taken is None else self._holding.hand_out_walk(fetched, taken)

    def batch(self, fetched: Fetched) -> Records | None:
        """Take records of one partition that are handed out together."""
        taken = self._take(fetched, self._count_max)
        if taken is None:
            return None
        self._holding.hand_out(fetched.state, taken)
        return taken.records

    def columns(self, form: ArrowForm) -> Take[RecordBatch]:
        """Have records of one partition taken as a record batch of Arrow's."""
        return partial(self._take_columns, form)

    def up_to(self, count: int | None) -> Take[Records]:
        """Have up to a number of records taken, from as many answers as are there."""
        if count is not None:
            check_int("max_records", count)
            if count < 1:
                raise InvalidArgument(f"max_records={count} is not at least 1")
        return partial(self._gather, count or self._count_max)

    def put_back(self, fetched: Fetched, left: Taken) -> None:
        """Take back what a walk has left, to be handed out again."""
        self.count -= len(left.records)
        fetched.put_back(left)

    def _gather(self, count: int, first: Fetched) -> Records | None:
        fetched: Fetched | None = first
        records: Records = []
        while fetched is not None and len(records) < count:
            try:
                taken = self._take(fetched, count - len(records))
            except ClientError:
                if records:
                    break  # it is raised by the next call
                raise
            if taken is not None:
                self._holding.hand_out(fetched.state, taken)
                records = records + taken.records if records else taken.records
            fetched = self._buffer.first()
        return records or None

    def _take_columns(self, form: ArrowForm, fetched: Fetched) -> RecordBatch | None:
        while (taken := fetched.take_columns(form)) is not None:
            done = Taken([], taken.next_offset, taken.leader_epoch)
            if taken.batch.num_rows:
                self._holding.hand_out(fetched.state, done)
                return taken.batch
            self._holding.pass_over(fetched.state, done)
        self._let_go(fetched)
        return None

    def _take(self, fetched: Fetched, count: int) -> Taken | None:
        while (taken := fetched.take(count)) is not None:
            if self._intercept is not None and taken.records:
                taken = taken._replace(records=self._intercept(taken.records))
            if taken.records:
                self.count += len(taken.records)
                return taken
            self._holding.pass_over(fetched.state, taken)
        self._let_go(fetched)
        return None

    def _let_go(self, fetched: Fetched) -> None:
        self._buffer.exhausted(fetched)
        self._has_room()
