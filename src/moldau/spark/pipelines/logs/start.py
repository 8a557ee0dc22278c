"""Where the log pipeline is put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.streaming.query import StreamingQuery

from moldau.spark.pipelines.logs import alerts, rates
from moldau.spark.pipelines.logs.alerts import Alert, Limits
from moldau.spark.pipelines.logs.forms.own import OwnForm, pattern_of
from moldau.spark.pipelines.logs.landing import LOGS, WINDOWS, LogLanding
from moldau.spark.pipelines.logs.layout import PARTITIONED_BY, write_rows
from moldau.spark.pipelines.logs.moments import zone_of
from moldau.spark.pipelines.logs.parsing import Rules
from moldau.spark.pipelines.logs.rates import Windows
from moldau.spark.pipelines.logs.reading import read_lines
from moldau.spark.pipelines.logs.sketches import sketch_place
from moldau.spark.pipelines.records.arriving import with_now
from moldau.spark.pipelines.stage import LANDING, Stage
from moldau.spark.pipelines.tables.appending import TableWriter
from moldau.spark.pipelines.tables.merging import Layout
from moldau.spark.pipelines.windowed.batches import Batches
from moldau.spark.pipelines.windowed.closing import Closing, State
from moldau.spark.pipelines.windowed.filing import Filing
from moldau.spark.pipelines.windowed.landing import DEAD

RATES: Final = "error_rates"
ALERTS: Final = "alerts"
TOPICS: Final = {RATES: "rates-topic", ALERTS: "alerts-topic"}
"""The options that name where rows of tables are sent to."""
WATCHES: Final = "watches"
"""The note of the state that holds what is known of services."""

_MOMENT: Final = pa.timestamp("us", "UTC")
_OF_WINDOW: Final = {
    "window_start": _MOMENT,
    "window_end": _MOMENT,
    "service": pa.string(),
    "rows": pa.int64(),
    "errors": pa.int64(),
    "rate": pa.float64(),
}
_OF_ALERT: Final = {"kind": pa.string(), "usual": pa.float64(), "limit": pa.float64()}
COLUMNS: Final = {
    RATES: pa.schema({**_OF_WINDOW, "date": pa.date32()}),
    ALERTS: pa.schema({**_OF_WINDOW, **_OF_ALERT, "date": pa.date32()}),
}


def start(stage: Stage) -> list[StreamingQuery]:
    """Start the query of the pipeline."""
    rules = rules_of(stage)
    records = stage.records(rules.record_size_max, includeHeaders="true")
    rows = read_lines(with_now(records), rules)
    batches = logs(stage)
    landing = stage.started(LANDING, rows.writeStream.foreachBatch(batches.take))
    stage.follow_clock(batches.pass_time)
    return [landing]


def rules_of(stage: Stage) -> Rules:
    """Return what the user says of lines."""
    pattern, name = stage.options["pattern"], str(stage.options["format"] or "own")
    return Rules(
        zone_of(str(stage.options["zone"])),
        stage.whole("skew") * 1000,
        stage.whole("max-line"),
        None if pattern is None else OwnForm(name, pattern_of(str(pattern))),
    )


def logs(stage: Stage) -> Batches:
    """Return what takes the batches of the pipeline."""
    tables = {
        LOGS: stage.table(LOGS, PARTITIONED_BY, Layout(write_rows, sketch_place)),
        **{name: stage.table(name) for name in (DEAD, RATES, ALERTS)},
    }
    window_ms = stage.whole("window")
    landing = LogLanding(
        Filing(tables),
        window_ms=window_ms,
        bad_ratio=stage.ratio("bad-ratio"),
        skew_ms=stage.whole("skew"),
        delay_ms=stage.whole("delay"),
    )
    closer = Closer(stage, tables)
    return Batches(
        stage,
        landing,
        closer.close,
        window_ms=window_ms,
        delay_ms=stage.whole("delay"),
        lasting_ms=window_ms,  # the window without lines in which an alert is over
    )


class Closer:
    """Files the error rates of windows that are over, and tells who is to know."""

    def __init__(self, stage: Stage, tables: dict[str, TableWriter]) -> None:
        self._stage = stage
        self._tables = tables
        self._window_ms = stage.whole("window")
        rate = stage.ratio("alert-rate")
        assert rate is not None
        self._limits = Limits(rate, stage.whole("alert-factor"), stage.whole("alert-errors"))

    def close(self, state: State, closing: Closing) -> State:
        """Tell of the windows that a batch has closed; return the state after that.

        Every closing appends to both tables, if need be nothing. So the number of an append does
        not depend on what is an alert, which an option may change before a batch is run again.
        """
        over, still = rates.parted(rates.from_note(state.notes.get(WINDOWS)), closing.until_ms)
        watches = alerts.from_note(state.notes.get(WATCHES))
        all_windows = alerts.with_silence(over, watches, self._window_ms, closing.until_ms)
        watches, raised = alerts.watched(watches, all_windows, self._limits)
        told = {RATES: self._rates(over), ALERTS: [self._told(alert) for alert in raised]}
        for name, rows in told.items():
            state = self._append(state, name, rows)
        self._send(told, closing.until_ms)
        notes = state.with_note(WINDOWS, rates.to_note(still))
        return notes.with_note(WATCHES, alerts.to_note(watches))

    def _rates(self, windows: Windows) -> list[dict[str, Any]]:
        return [
            {
                **self._span(window_ms),
                "service": service,
                "rows": count.rows,
                "errors": count.errors,
                "rate": count.rate,
            }
            for window_ms, services in windows.items()
            for service, count in services.items()
        ]

    def _told(self, alert: Alert) -> dict[str, Any]:
        return {
            **self._span(alert.window_ms),
            "service": alert.service,
            "kind": alert.kind,
            "rows": alert.counted.rows,
            "errors": alert.counted.errors,
            "rate": alert.counted.rate,
            "usual": alert.usual,
            "limit": alert.limit,
        }

    def _span(self, window_ms: int) -> dict[str, datetime]:
        return {
            "window_start": _moment(window_ms),
            "window_end": _moment(window_ms + self._window_ms),
        }

    def _append(self, state: State, name: str, rows: list[dict[str, Any]]) -> State:
        dated = [{**row, "date": row["window_start"].date()} for row in rows]
        table = pa.Table.from_pylist(dated, COLUMNS[name])
        self._tables[name].append(table, state.next_append(name))
        return state.with_append(name)

    def _send(self, told: Mapping[str, list[dict[str, Any]]], until_ms: int) -> None:
        """Send what is told of all windows up to a time to its topics, once.

        Tables may share a topic, which takes what belongs to one time in one piece.
        """
        records: dict[str, list[tuple[str, str]]] = {}
        for name, option in TOPICS.items():
            if (topic := self._stage.options[option]) is not None and told[name]:
                sent = [(row["service"], _json(row)) for row in told[name]]
                records.setdefault(str(topic), []).extend(sent)
        for topic, sent in records.items():
            frame = self._stage.spark.createDataFrame(sent, "key STRING, value STRING").coalesce(1)
            self._stage.send(frame, topic, until_ms)


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _json(told: dict[str, Any]) -> str:
    plain = {
        name: value.isoformat(timespec="seconds").replace("+00:00", "Z")
        if isinstance(value, datetime)
        else value
        for name, value in told.items()
    }
    return json.dumps(plain)
