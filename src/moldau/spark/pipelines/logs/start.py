"""Where the log pipeline is put together."""

from __future__ import annotations

import json
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql.streaming.query import StreamingQuery

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.spark.pipelines.logs import alerts, rates
from moldau.spark.pipelines.logs.alerts import Alert, Limits
from moldau.spark.pipelines.logs.landing import LOGS, WINDOWS, LogLanding
from moldau.spark.pipelines.logs.layout import PARTITIONED_BY, write_rows
from moldau.spark.pipelines.logs.merging import Merger, Write, write_plainly
from moldau.spark.pipelines.logs.parsing import Rules
from moldau.spark.pipelines.logs.rates import Windows
from moldau.spark.pipelines.logs.reading import read_lines
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.tables import Table
from moldau.spark.pipelines.windowed.batches import Batches
from moldau.spark.pipelines.windowed.closing import Closing, State
from moldau.spark.pipelines.windowed.filing import Filing
from moldau.spark.pipelines.windowed.landing import DEAD
from moldau.spark.pipelines.windowed.reading import with_now

RATES: Final = "error_rates"
ALERTS: Final = "alerts"
WATCHES: Final = "watches"
"""The note of the state that holds what is known of services."""

_MOMENT: Final = pa.timestamp("us", "UTC")


def start(stage: Stage) -> list[StreamingQuery]:
    """Start the query of the pipeline."""
    rows = read_lines(with_now(stage.records(includeHeaders="true")), rules_of(stage))
    return [stage.started("landing", rows.writeStream.foreachBatch(logs(stage).take))]


def rules_of(stage: Stage) -> Rules:
    """Return what the user says of lines."""
    return Rules(
        _zone(str(stage.options["zone"])), stage.whole("skew") * 1000, stage.whole("max-line")
    )


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UserError(f"--zone {name} is not known: expected one as Europe/Prague") from None


def logs(stage: Stage) -> Batches:
    """Return what takes the batches of the pipeline."""
    tables = {
        LOGS: _table(stage, LOGS, PARTITIONED_BY, write_rows),
        **{name: _table(stage, name, ("date",), write_plainly) for name in (DEAD, RATES, ALERTS)},
    }
    window_ms = stage.whole("window")
    landing = LogLanding(
        Filing(tables),
        window_ms=window_ms,
        bad_ratio=stage.ratio("bad-ratio"),
        skew_ms=stage.whole("skew"),
    )
    closer = Closer(stage, tables)
    return Batches(stage, landing, closer.close, window_ms=window_ms, delay_ms=stage.whole("delay"))


def _table(stage: Stage, name: str, partitioned_by: tuple[str, ...], write: Write) -> Table:
    place = stage.places.table(name)
    merger = Merger(stage.files, place, SystemClock(), write)
    return Table(stage.files, place, partitioned_by, merger)


class Closer:
    """Files the error rates of windows that are over, and tells who is to know."""

    def __init__(self, stage: Stage, tables: dict[str, Table]) -> None:
        self._stage = stage
        self._tables = tables
        self._window_ms = stage.whole("window")
        rate = stage.ratio("alert-rate")
        assert rate is not None
        self._limits = Limits(rate, stage.whole("alert-factor"), stage.whole("alert-errors"))

    def close(self, state: State, closing: Closing) -> State:
        """Tell of the windows that a batch has closed; return the state after that."""
        over, still = rates.parted(rates.from_note(state.notes.get(WINDOWS)), closing.until_ms)
        watches = alerts.from_note(state.notes.get(WATCHES))
        watches, raised = alerts.watched(watches, over, self._limits)
        state = self._append(state, RATES, self._rates(over))
        state = self._append(state, ALERTS, [self._told(alert) for alert in raised])
        self._send(raised)
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
        if not rows:
            return state
        table = pa.Table.from_pylist(rows)
        dates = [row["window_start"].date() for row in rows]
        for place, column in enumerate(("window_start", "window_end")):
            table = table.set_column(place, column, table.column(column).cast(_MOMENT))
        table = table.append_column("date", pa.array(dates, pa.date32()))
        self._tables[name].append(table, state.next_append(name))
        return state.with_append(name)

    def _send(self, raised: list[Alert]) -> None:
        """Send alerts to their topic; a batch that is run again after a crash sends them again."""
        topic = self._stage.options["alerts-topic"]
        if not raised or topic is None:
            return
        records = [(alert.service, _json(self._told(alert))) for alert in raised]
        frame = self._stage.spark.createDataFrame(records, "key STRING, value STRING").coalesce(1)
        options = {**self._stage.connection, "topic": str(topic)}
        frame.write.format("moldau").options(**options).mode("append").save()


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
