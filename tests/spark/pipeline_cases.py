"""The four pipelines, each with records that are hard on it and with what must come of them.

A case knows how its records are sent, how the pipeline is run, and how its tables, and the topic it
tells things on, are compared with a plain computation over the same records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.changelog.declared import CHANGELOG
from moldau.spark.pipelines.declaration import Pipeline
from moldau.spark.pipelines.logs.declared import LOGS
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.stage import LANDING
from spark import (
    activity_kit,
    activity_model,
    changelog_model,
    logs_model,
    metrics_kit,
    metrics_model,
)
from spark.activity_model import rows_of
from spark.topic_rows import FIRST_MS, TopicRow

SAMPLES_PER_BATCH = 200
LINES_PER_BATCH = 120
CHANGES_PER_BATCH = 10_000
CHANGED_KEYS = 20_000
"""Of these a batch changes some 8,000: every second one has the table written anew."""

RESULT_OF = ("host", "service", "metric", "target", "kind")


class Told(NamedTuple):
    """What a pipeline tells on a topic beside filing it: each row once, and as it is filed."""

    option: str
    """The option that names the topic."""
    columns: tuple[str, ...]
    """What tells one message from all others of its window."""
    filed: Callable[[Path], Iterable[dict[str, Any]]]
    """Return the rows of tables that there must be a message for."""

    def check(self, sent: Sequence[TopicRow], out: Path, records: Sequence[Any]) -> None:
        """Compare the messages with the tables."""
        del records
        expected = {self._key(row): row for row in self.filed(out)}
        messages = [_timed(json.loads(row.value or b"")) for row in sent]
        assert expected
        assert Counter(map(self._key, messages)) == Counter(expected.keys())
        for message in messages:
            row = expected[self._key(message)]
            row.pop("date", None)  # of which Delta's tables are made; Parquet's have it in paths
            assert {name: message[name] for name in row} == row

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("window_start", *self.columns))


def _timed(message: dict[str, Any]) -> dict[str, Any]:
    span = {name: datetime.fromisoformat(message[name]) for name in ("window_start", "window_end")}
    return {**message, **span}


class Live(NamedTuple):
    """What a query of its own tells of windows that are open: the last message of a key counts."""

    option: str = "live-topic"

    def check(self, sent: Sequence[TopicRow], out: Path, records: Sequence[Any]) -> None:
        """Compare the last messages with the records."""
        del out
        pairs = [(row.key or b"", row.value or b"") for row in sent]
        rules, rows = activity_kit.RULES, activity_kit.BATCH_ROWS
        activity_model.check_live(pairs, list(records), rules, rows)


@dataclass(frozen=True, slots=True)
class Case:
    """One pipeline."""

    pipeline: Pipeline
    options: Mapping[str, Any]
    batch_rows: int
    made_up: Callable[[int], Sequence[Any]]
    """Return records of so many batches, as the model of the pipeline has them."""
    row: Callable[[Any, str, int], TopicRow]
    """Return what is sent of a record to a topic, and has this offset there."""
    check: Callable[[Path, Any], None]
    """Compare the tables with the records."""
    told: tuple[Told | Live, ...] = ()
    """What it tells on topics."""
    queries: tuple[str, ...] = (LANDING,)

    def __str__(self) -> str:
        return self.pipeline.name


def _check_activity(out: Path, records: list[activity_model.Record]) -> None:
    expected = activity_model.check_tables(out, records, activity_kit.RULES)
    assert all(expected.fates.values())
    assert expected.sessions()


def _check_logs(out: Path, records: list[logs_model.Sent]) -> None:
    fates = logs_model.check_tables(out, records)
    assert set(fates) == {"late", "on time"}
    assert all(rows_of(out, name) for name in LOGS.tables)


def _check_metrics(out: Path, records: list[bytes]) -> None:
    expected = metrics_model.check_tables(out, list(records), metrics_kit.RULES)
    assert all(expected.fates.values())
    assert rows_of(out, "anomalies")


def _log_row(line: logs_model.Sent, topic: str, offset: int) -> TopicRow:
    headers = (("host", line.host.encode()), ("path", line.path.encode()))
    sent_ms = round(line.sent.timestamp() * 1000)
    return TopicRow(None, line.value, topic, 0, offset, sent_ms, headers=headers)


def _results(out: Path) -> Iterable[dict[str, Any]]:
    """Return windows, and anomalies with the figures of their windows."""
    names = ("window_start", *RESULT_OF)
    windows = {tuple(row[name] for name in names): row for row in rows_of(out, "windows")}
    for row in windows.values():
        yield {**row, "result": "window"}
    for row in rows_of(out, "anomalies"):
        yield {**windows[tuple(row[name] for name in names)], **row, "result": "anomaly"}


CASES = (
    Case(
        ACTIVITY,
        activity_kit.OPTIONS,
        activity_kit.BATCH_ROWS,
        activity_kit.made_up_records,
        lambda record, topic, at: TopicRow(None, record.value, topic, 0, at, FIRST_MS),
        _check_activity,
        (Live(),),
        (LANDING, "live"),
    ),
    Case(
        LOGS,
        logs_model.OPTIONS,
        LINES_PER_BATCH,
        lambda batches: logs_model.made_up(batches * LINES_PER_BATCH),
        _log_row,
        _check_logs,
        (
            Told("alerts-topic", ("service", "kind"), lambda out: rows_of(out, "alerts")),
            Told("rates-topic", ("service",), lambda out: rows_of(out, "error_rates")),
        ),
    ),
    Case(
        METRICS,
        metrics_kit.OPTIONS,
        SAMPLES_PER_BATCH,
        lambda batches: metrics_kit.made_up(batches * SAMPLES_PER_BATCH),
        lambda value, topic, at: TopicRow(None, value, topic, 0, at, FIRST_MS),
        _check_metrics,
        (Told("results-topic", ("result", *RESULT_OF), _results),),
    ),
    Case(
        CHANGELOG,
        {},
        CHANGES_PER_BATCH,
        lambda batches: changelog_model.made_up_records(batches * CHANGES_PER_BATCH, CHANGED_KEYS),
        lambda change, topic, at: TopicRow(*change, topic, 0, at, FIRST_MS),
        changelog_model.check_tables,
    ),
)
