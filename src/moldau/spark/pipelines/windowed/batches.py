"""The loop of a pipeline with windows: batches one by one, with a state after each.

A batch is landed, the windows it ends are closed, and how things stand then is written down under
its number: this is the commit of the batch as a whole. Spark calls again with the same batch until
`take` has returned once. Whatever of a batch was done before a crash has its number in its table
and is not done again; that it is the same batch, and not another one under its number, the ledger
sees to.

Where no batch comes, the clock closes windows (`pass_time`). It changes the state of the last
batch, and only as long as the next one has not begun. Up to when it closes them is part of the
state before anything is closed; who finds such a state does it again, in the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from moldau.base.errors import UserError
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.windowed.closing import (
    Closing,
    State,
    closed,
    closing_until,
    due,
    due_by_clock,
)
from moldau.spark.pipelines.windowed.landing import Landing

STATES_KEPT: Final = 20
"""Of how many batches the state is kept. Spark runs the last one again; a person who takes a
checkpoint back a little finds the others."""

Close = Callable[[State, Closing], State]
"""Counts the rows of windows that are over, files the counts, and returns the state after that.

It is called again with the same two after a crash, and must then give the same rows. The number of
a closing is `state.closings`.
"""


class Batches:
    """Takes batches."""

    def __init__(
        self,
        stage: Stage,
        landing: Landing,
        close: Close,
        *,
        window_ms: int,
        delay_ms: int,
        lasting_ms: int = 0,
    ) -> None:
        """`lasting_ms` is how long after the last event something may last that windows end."""
        self._stage = stage
        self._landing = landing
        self._close = close
        self._window_ms = window_ms
        self._delay_ms = delay_ms
        self._lasting_ms = lasting_ms
        self._ledger = stage.ledger()
        self._known: dict[int, State] = {-1: State()}
        self._lock = threading.Lock()  # batches and the clock come from threads of their own
        self._number = self._newest_number()
        self._tell(self._find(self._number) or State())

    def take(self, rows: DataFrame, number: int) -> None:
        """Handle a batch of parsed rows."""
        with self._lock:
            state = self._settled(number)
            before = self._before(number) if state is None else state
            self._ledger.begin(number)
            if state is None:
                state = self._done(before, rows, number)
            self._keep(number, state)

    def pass_time(self, now_ms: int, *, is_end: bool) -> bool:
        """Close windows that the clock has left behind, as no batch comes; tell whether any were.

        At the end of a run only those that have events: what follows may be as old as they are.
        """
        with self._lock:
            number = self._number
            state = self._settled(number)
            if state is None or self._ledger.last() != number:
                return False  # the next batch has begun, and follows from the state as it is
            lasting_ms = 0 if is_end else self._lasting_ms
            until_ms = due_by_clock(state, now_ms, self._window_ms, self._delay_ms, lasting_ms)
            if until_ms is None:
                return False
            decided = state._replace(by_clock_until_ms=until_ms)
            self._stage.files.write(self._place(number), decided.to_json())
            self._keep(number, self._closed_by_clock(decided, number))
            return True

    def _settled(self, number: int) -> State | None:
        """Return the state after a batch; what the clock was about to close is closed first."""
        state = self._find(number)
        if state is None or state.by_clock_until_ms is None:
            return state
        return self._closed_by_clock(state, number)

    def _closed_by_clock(self, state: State, number: int) -> State:
        assert state.by_clock_until_ms is not None
        closing = closing_until(state, state.by_clock_until_ms)
        state = state._replace(by_clock_until_ms=None)
        if closing is not None:
            state = closed(self._close(state, closing), closing)
        self._stage.files.write(self._place(number), state.to_json())
        return state

    def _keep(self, number: int, state: State) -> None:
        self._number, self._known = number, {number: state}
        self._tell(state)

    def _done(self, before: State, rows: DataFrame, number: int) -> State:
        """Do a batch from its first step to its last; return the state after it."""
        state = self._landing.land(before, rows, number)
        closing = due(state, self._window_ms, self._delay_ms)
        if closing is not None:
            state = closed(self._close(state, closing), closing)
        self._stage.files.write(self._place(number), state.to_json())
        self._stage.files.remove(self._place(number - STATES_KEPT))
        return state

    def _before(self, number: int) -> State:
        state = self._settled(number - 1)
        if state is None:
            raise UserError(
                f"the state of batch {number - 1} is missing in {self._stage.place('state')}:"
                " the tables cannot go on without it; restore it, or begin with a new --out"
            )
        return state

    def _newest_number(self) -> int:
        """Return the last batch of the run before."""
        names = self._stage.files.names(self._stage.place("state"))
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _find(self, number: int) -> State | None:
        if number in self._known:
            return self._known[number]
        text = self._stage.files.read(self._place(number))
        return None if text is None else State.from_json(text, self._place(number))

    def _place(self, number: int) -> str:
        return f"{self._stage.place('state')}/{number}"

    def _tell(self, state: State) -> None:
        report = self._stage.report
        report.totals = state.totals._asdict()
        report.newest_ms = state.newest_ms
        report.ahead = None if state.ahead is None else state.ahead._asdict()
        if state.newest_ms is not None:
            by_events_ms = state.newest_ms - self._delay_ms
            report.watermark_ms = max(by_events_ms, state.closed_until_ms or by_events_ms)
