"""Where the activity pipeline is put together, and its batches are taken one by one."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from moldau.base.errors import UserError
from moldau.spark.pipelines.activity import closing
from moldau.spark.pipelines.activity.closing import State
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.activity.events import read_events
from moldau.spark.pipelines.activity.landing import Landing
from moldau.spark.pipelines.activity.live import live_counts
from moldau.spark.pipelines.activity.rollups import Rollups
from moldau.spark.pipelines.activity.sessions import Sessions
from moldau.spark.pipelines.stage import Stage

STATES_KEPT: Final = 20
"""Of how many batches the state is kept. Spark runs the last one again; a person who takes a
checkpoint back a little finds the others."""


class Activity:
    """Takes batches: files what they bring, closes what they end, and writes down how it stands."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._window_ms = stage.whole("window")
        self._delay_ms = stage.whole("delay")
        tables = {name: stage.table(name) for name in ACTIVITY.tables}
        self._landing = Landing(tables, stage.ratio("bad-ratio"))
        sessions = Sessions(
            stage.spark, stage.files, stage.place("sessions"), stage.whole("session-gap")
        )
        self._rollups = Rollups(
            stage.spark, tables, sessions, window_ms=self._window_ms, top=stage.whole("top")
        )
        self._known: dict[int, State] = {-1: State()}

    def take(self, events: DataFrame, number: int) -> None:
        """Handle a batch; Spark calls again with the same one until this has returned once."""
        state = self._find(number)
        if state is None:
            state = self._landing.land(self._before(number), events, number)
            due = closing.due(state, self._window_ms, self._delay_ms)
            if due is not None:
                state = self._rollups.close(state, due)
            self._stage.files.write(self._place(number), state.to_json())
            self._stage.files.remove(self._place(number - STATES_KEPT))
        self._known = {number: state}
        self._tell(state)

    def _before(self, number: int) -> State:
        state = self._find(number - 1)
        if state is None:
            raise UserError(
                f"the state of batch {number - 1} is missing in {self._stage.place('state')}:"
                " the tables cannot go on without it"
            )
        return state

    def _find(self, number: int) -> State | None:
        if number not in self._known and (text := self._stage.files.read(self._place(number))):
            return State.from_json(text)
        return self._known.get(number)

    def _place(self, number: int) -> str:
        return f"{self._stage.place('state')}/{number}"

    def _tell(self, state: State) -> None:
        report = self._stage.report
        report.totals = state.totals._asdict()
        report.newest_ms = state.newest_ms
        report.watermark_ms = None if state.newest_ms is None else state.newest_ms - self._delay_ms


def start(stage: Stage) -> list[StreamingQuery]:
    """Start the queries of the pipeline."""
    activity = Activity(stage)
    events = read_events(stage.records(), stage.whole("skew"))
    landing = stage.started("landing", events.writeStream.foreachBatch(activity.take))
    live_topic = stage.options["live-topic"]
    if live_topic is None:
        return [landing]
    live = live_counts(
        read_events(stage.records(), stage.whole("skew")),
        {**stage.connection, "topic": str(live_topic)},
        window_ms=stage.whole("window"),
        delay_ms=stage.whole("delay"),
    )
    return [landing, stage.started("live", live)]
