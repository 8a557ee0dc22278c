"""Looks at everything: asks the broker, reads the pipelines' status files and their tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from examples.demo.broker import Topics
from examples.demo.cast import Cast, Pipeline
from examples.demo.excerpts import excerpts
from examples.demo.figures import PipelineFigures, Rates, Snapshot, TopicFigures
from examples.demo.tables import table_of

from moldau.base.errors import UserError
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running.desk import read_status


class Observer:
    """Looks at everything, as often as it is asked to."""

    def __init__(self, cast: Cast, topics: Topics, pipelines: Sequence[Pipeline]) -> None:
        self._topics = topics
        self._folders = {one: cast.tables(one) for one in pipelines}
        self._tables = {
            one: {table: table_of(folder, table) for table in PIPELINES[one.name].tables}
            for one, folder in self._folders.items()
        }
        self._rates = Rates()
        self._began_s = time.monotonic()

    def look(self) -> Snapshot:
        """Return how everything stands."""
        elapsed_s = time.monotonic() - self._began_s
        records = self._topics.records()
        rates = self._rates.of(elapsed_s, records)
        return Snapshot(
            elapsed_s,
            [TopicFigures(name, count, rates[name]) for name, count in records.items()],
            [self._pipeline(one, records[one.topic]) for one in self._folders],
            [found for one, out in self._folders.items() for found in excerpts(one.name, out)],
        )

    def _pipeline(self, one: Pipeline, records: int) -> PipelineFigures:
        status = self._status(one)
        last: dict[str, Any] = next(iter(status.get("queries") or ()), {})
        batch = last.get("batch", -1)
        totals: dict[str, int] = status.get("totals", {})
        return PipelineFigures(
            one.name,
            status.get("state", "waits"),
            None if batch < 0 else batch,
            last.get("batch_ms", 0),
            status.get("watermark_ms"),
            records - sum(totals.values()),
            totals,
            {name: table.row_count() for name, table in self._tables[one].items()},
        )

    def _status(self, one: Pipeline) -> dict[str, Any]:
        try:
            return read_status(Places.of(str(self._folders[one])).desk)
        except UserError:
            return {}  # it has not come that far
