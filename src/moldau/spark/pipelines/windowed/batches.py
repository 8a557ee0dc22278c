"""The loop of a pipeline with windows: batches one by one, with a state after each.

A batch is landed, the windows it ends are closed, and how things stand then is written down under
its number: this is the commit of the batch as a whole. Spark calls again with the same batch until
`take` has returned once. Whatever of a batch was done before a crash has its number in its table
and is not done again; that it is the same batch, and not another one under its number, the ledger
sees to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from moldau.base.errors import UserError
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.windowed.closing import Closing, State, closed, due
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
        self, stage: Stage, landing: Landing, close: Close, *, window_ms: int, delay_ms: int
    ) -> None:
        self._stage = stage
        self._landing = landing
        self._close = close
        self._window_ms = window_ms
        self._delay_ms = delay_ms
        self._ledger = stage.ledger()
        self._known: dict[int, State] = {-1: State()}
        self._tell(self._newest())

    def take(self, rows: DataFrame, number: int) -> None:
        """Handle a batch of parsed rows."""
        state = self._find(number)
        before = self._before(number) if state is None else state
        self._ledger.begin(number)
        if state is None:
            state = self._done(before, rows, number)
        self._known = {number: state}
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
        state = self._find(number - 1)
        if state is None:
            raise UserError(
                f"the state of batch {number - 1} is missing in {self._stage.place('state')}:"
                " the tables cannot go on without it; restore it, or begin with a new --out"
            )
        return state

    def _newest(self) -> State:
        """Return how things stood at the end of the last run, for who asks before a batch comes."""
        names = self._stage.files.names(self._stage.place("state"))
        newest = max((int(name) for name in names if name.isdecimal()), default=-1)
        return self._find(newest) or State()

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
        report.watermark_ms = None if state.newest_ms is None else state.newest_ms - self._delay_ms
