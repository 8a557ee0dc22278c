"""Runs a pipeline from its start to its end: one session, one owner, an orderly stop.

A run ends when its queries do (`--once`), when one of them fails, or at SIGTERM and Ctrl-C: then
the running batch is let end first. A second signal does not wait for it. Whatever way it ends, the
next run goes on where the last committed batch ended.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import FrameType
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.base.clock import Clock, SystemClock
from moldau.base.errors import UserError
from moldau.spark.pipelines.declaration import Pipeline, Value
from moldau.spark.pipelines.desk import Desk
from moldau.spark.pipelines.identity import claim
from moldau.spark.pipelines.exposition import serve_metrics
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.progress import Figures, figures_of
from moldau.spark.pipelines.session import first_line, started_session
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.storage import SparkFiles

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
LOOK_S: Final = 0.5
"""How often queries are asked how they go: quicker than anybody reads, and cheap."""

RETRY_PAUSES_S: Final = (1.0, 5.0, 20.0, 60.0)
"""How long a run waits before it begins again after a failure that may pass: brokers or executors
that restart are back by then. Each is said; after the last the run ends."""

FINAL: Final = frozenset({"UserError", "ConfigError", "DataLost", "InvariantViolated"})
_OWN_ERROR: Final = re.compile(r"\bmoldau\.[\w.]+\.(\w+): (.+)")


class PipelineFailed(UserError):  # noqa: N818 - it names the event
    """A query has ended with an error; the text says in one line why."""

    def __init__(self, query: str, text: str) -> None:
        own = _OWN_ERROR.search(text)
        _, told, rest = text.partition("terminated with exception: ")
        reason = own[2].strip() if own else first_line(rest if told else text)
        super().__init__(f"the query {query} has failed: {reason}")
        self.is_final = own is not None and own[1] in FINAL
        """Whether it would fail again: what the user has to change does not pass."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a user wants to run."""

    pipeline: Pipeline
    places: Places
    options: Mapping[str, Value]
    connection: Mapping[str, str]
    """How brokers are reached: options of the format, `kafka.` in front."""
    master: str | None = None
    trigger_ms: int = 0
    once: bool = False
    batch_rows: int = 1_000_000
    group: str | None = None
    metrics_port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


Show = Callable[[Mapping[str, Any]], None]


class Run:
    """One run of a pipeline."""

    def __init__(self, order: Order, show: Show, clock: Clock | None = None) -> None:
        self._order = order
        self._show = show
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._insist = False
        self._status: dict[str, Any] = {
            "pipeline": order.pipeline.name,
            "state": "starting",
            "started_ms": self._clock.wall_ms(),
            "queries": [],
            "totals": {},
        }

    def run(self) -> None:
        """Run until the end; PipelineFailed if that was an error."""
        desk = Desk(self._order.places.desk)
        try:
            with self._signals():
                self._run(desk)
        except Exception as error:
            self._tell(desk, state="failed", error=str(error))
            raise
        finally:
            desk.close()

    def _run(self, desk: Desk) -> None:
        order = self._order
        self._tell(desk)
        spark = started_session(
            order.pipeline.name,
            order.master,
            is_local=order.places.is_local,
            given=order.settings,
        )
        close_metrics = None
        try:
            self._listen()  # Spark has taken Ctrl-C for itself
            if order.metrics_port is not None:
                close_metrics = serve_metrics(order.metrics_port, lambda: self._status)
            self._watch(desk, spark)
        finally:
            if close_metrics is not None:
                close_metrics()
            spark.stop()

    def _watch(self, desk: Desk, spark: SparkSession) -> None:
        """Run the queries; begin again, a few times, where a failure may pass."""
        stage = self._stage(spark)
        pauses_s = iter(RETRY_PAUSES_S)
        while True:
            failed = self._follow(desk, stage)
            if failed is None:
                return
            pause_s = next(pauses_s, None)
            if failed.is_final or pause_s is None or self._stop.is_set():
                raise failed
            self._tell(desk, state="retrying", error=str(failed))
            if self._stop.wait(pause_s):
                raise failed

    def _follow(self, desk: Desk, stage: Stage) -> PipelineFailed | None:
        """Run the queries until they end, or shall; return what has failed."""
        module, _, function = self._order.pipeline.entry.partition(":")
        queries: Sequence[StreamingQuery] = getattr(import_module(module), function)(stage)
        self._tell(desk, state="running", error=None)
        known: list[Figures] = []
        while not self._stop.wait(LOOK_S) and all(query.isActive for query in queries):
            self._look(desk, stage, queries, known)
        self._tell(desk, state="stopping")
        failures = [failed for query in queries if (failed := self._end(query)) is not None]
        self._look(desk, stage, queries, known)
        if failures:
            return failures[0]
        self._tell(desk, state="stopped")
        return None

    def _stage(self, spark: SparkSession) -> Stage:
        order, files = self._order, SparkFiles(spark)
        pinned = order.pipeline.pinned(dict(order.options))
        identity = claim(
            files, order.places.identity, order.places.checkpoints, order.pipeline.name, pinned
        )
        self._status["id"] = identity.id
        self._status["master"] = spark.sparkContext.master
        return Stage(
            spark,
            files,
            order.places,
            order.options,
            order.connection,
            {"availableNow": True}
            if order.once
            else {"processingTime": f"{order.trigger_ms} milliseconds"},
            order.batch_rows,
            order.group,
        )

    def _look(
        self, desk: Desk, stage: Stage, queries: Sequence[StreamingQuery], known: list[Figures]
    ) -> None:
        """Write down how it goes, if anything has changed."""
        found = [_figures(query) for query in queries]
        if found == known:
            return
        known[:] = found
        report = stage.report
        self._tell(
            desk,
            queries=[one._asdict() for one in found],
            totals=dict(report.totals),
            watermark_ms=report.watermark_ms,
            newest_ms=report.newest_ms,
        )

    def _tell(self, desk: Desk, **changed: Any) -> None:
        self._status = {**self._status, **changed, "updated_ms": self._clock.wall_ms()}
        desk.tell(self._status)
        self._show(self._status)

    def _end(self, query: StreamingQuery) -> PipelineFailed | None:
        """End a query after its running batch; return the error that has ended it."""
        began = _batch(query)
        while query.isActive and not self._insist:
            if self._order.once and not self._stop.is_set():
                query.awaitTermination(1)
            elif query.status["isTriggerActive"] and _batch(query) == began:
                threading.Event().wait(0.05)
            else:
                break
        query.stop()
        failure = query.exception()
        return None if failure is None else PipelineFailed(query.name or "", str(failure))

    # Signals

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self._listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _listen(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._insist = self._stop.is_set()
        self._stop.set()


def _figures(query: StreamingQuery) -> Figures:
    progress = query.lastProgress
    return Figures(query.name or "") if progress is None else figures_of(json.loads(progress.json))


def _batch(query: StreamingQuery) -> int:
    return _figures(query).batch
