"""Runs a pipeline from its start to its end: one session, one owner, an orderly stop.

A run ends when its queries do (`--once`), when one of them fails, or at SIGTERM and Ctrl-C: then
the running batch is let end first. A second signal does not wait for it. Whatever way it ends, the
next run goes on where the last committed batch ended.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.base.clock import Clock, SystemClock
from moldau.base.errors import UserError
from moldau.spark.pipelines.declaration import PARQUET, TABLE_FORMAT, Pipeline, Value
from moldau.spark.pipelines.identity import OUT, claim
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running.desk import Desk, read_status
from moldau.spark.pipelines.running.exposition import serve_metrics
from moldau.spark.pipelines.running.failures import PipelineFailed
from moldau.spark.pipelines.running.idleness import Idleness
from moldau.spark.pipelines.running.progress import Figures, figures_of
from moldau.spark.pipelines.running.signals import Signals
from moldau.spark.pipelines.session.machine import is_silence, telling_of_its_end
from moldau.spark.pipelines.session.starting import running_session
from moldau.spark.pipelines.stage import LANDING, Report, Stage
from moldau.spark.pipelines.storage import Files, LocalFiles, SparkFiles
from moldau.spark.pipelines.tables.formats import check_library, settings_with

LOOK_S: Final = 0.5
"""How often queries are asked how they go: quicker than anybody reads, and cheap."""

RETRY_PAUSES_S: Final = (1.0, 5.0, 20.0, 60.0)
"""How long a run waits before it begins again after a failure that may pass: brokers or executors
that restart are back by then. Each is said; after the last the run ends."""


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
    table_format: str = PARQUET

    @property
    def spark_settings(self) -> dict[str, str]:
        """What Spark is to be started with: what the user has set, and what tables need."""
        return settings_with(self.table_format, self.settings)


Show = Callable[[Mapping[str, Any]], None]
Session = Callable[[], AbstractContextManager[SparkSession | None]]
"""What gives a session to run in; None where the run was asked to end before there was one."""


class Run:
    """One run of a pipeline."""

    def __init__(
        self,
        order: Order,
        show: Show,
        *,
        session: Session | None = None,
        clock: Clock | None = None,
        pauses_s: Sequence[float] = RETRY_PAUSES_S,
    ) -> None:
        """`session` gives the session to run in; without it one is started, and ended."""
        self._order = order
        self._show = show
        self._session = session or self._own_session
        self._clock = clock or SystemClock()
        self._pauses_s = pauses_s
        self._stop = threading.Event()
        self._insist = False
        self._signals = Signals(self.stop)
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
        desk.listen(self.stop)
        try:
            with self._signals:
                self._run(desk)
        except Exception as error:
            self._tell(desk, state="failed", error=str(error))
            raise
        finally:
            desk.close()

    def stop(self, *, urgent: bool = False) -> None:
        """Have it end after the running batch, or without it; from any thread, at any time."""
        self._insist = self._insist or urgent
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stop.is_set()

    def _run(self, desk: Desk) -> None:
        port = self._order.metrics_port
        self._tell(desk, **_counted(self._order.places.desk))
        with ExitStack() as running:
            if port is not None:
                running.callback(serve_metrics(port, lambda: self._status))
            spark = running.enter_context(self._session())
            self._signals.listen()  # Spark has taken Ctrl-C for itself
            if spark is None or self.is_stopping:
                self._tell(desk, state="stopped")
                return
            with telling_of_its_end():
                self._watch(desk, spark)

    def _own_session(self) -> AbstractContextManager[SparkSession | None]:
        order = self._order
        return running_session(
            order.pipeline.name,
            order.master,
            is_local=order.places.is_local,
            given=order.spark_settings,
        )

    def _watch(self, desk: Desk, spark: SparkSession) -> None:
        """Run the queries; begin again, a few times, where a failure may pass."""
        stage = self._stage(spark)
        pauses_s = iter(self._pauses_s)
        while True:
            gone_on: set[str] = set()
            failed = self._follow(desk, stage, gone_on)
            if failed is None:
                return
            # That another query goes on says nothing of this one: it may fail each time.
            if failed.query in gone_on:
                pauses_s = iter(self._pauses_s)  # it has gone on since: this is another failure
            pause_s = next(pauses_s, None)
            if failed.is_final or pause_s is None or self._stop.is_set():
                raise failed
            reason = str(failed).rstrip(".")
            self._tell(desk, state="retrying", error=f"{reason}; next try in {pause_s:g} s")
            if self._stop.wait(pause_s):
                raise failed

    def _follow(self, desk: Desk, stage: Stage, gone_on: set[str]) -> PipelineFailed | None:
        """Run the queries until they end, or shall; return what has failed.

        `gone_on` is filled with the names of those that have done a batch with rows.
        """
        known: list[Figures] = []
        idle_ms = self._order.options.get("idle")
        idleness = Idleness(int(idle_ms) / 1000) if idle_ms is not None else None
        by_clock: PipelineFailed | None = None
        try:
            queries = self._started(stage)
        except Exception as error:
            if isinstance(error, UserError) or is_silence(error):
                raise
            return PipelineFailed("", str(error))
        self._tell(desk, state="running", error=None)
        while not self._stop.wait(LOOK_S) and all(query.isActive for query in queries):
            known = self._look(desk, stage, queries, known)
            gone_on.update(one.query for one in known if one.rows)
            if idleness is not None and self._is_idle(idleness, queries, known):
                by_clock = self._pass_time(desk, stage, is_end=False)
                if by_clock is not None:
                    break
        self._tell(desk, state="stopping")
        failures = [one for query in queries if (one := self._end(query)) is not None]
        known = self._look(desk, stage, queries, known)
        gone_on.update(one.query for one in known if one.rows)
        if self._order.once and not failures and not self._stop.is_set():
            by_clock = self._pass_time(desk, stage, is_end=True)
        failed = next(iter(failures), by_clock)
        if failed is None:
            self._tell(desk, state="stopped")
        return failed

    def _is_idle(
        self, idleness: Idleness, queries: Sequence[StreamingQuery], known: Sequence[Figures]
    ) -> bool:
        """Tell whether the query that files records has had none for a while."""
        for query, figures in zip(queries, known, strict=True):
            if query.name == LANDING and not self._order.once:
                return idleness.observe(figures.batch, query.status, self._clock.monotonic())
        return False

    def _pass_time(self, desk: Desk, stage: Stage, *, is_end: bool) -> PipelineFailed | None:
        """Have the pipeline do what is due by the clock; return what has failed."""
        try:
            for pass_time in stage.clocked:
                if pass_time(self._clock.wall_ms(), is_end=is_end):
                    self._tell(desk, **_reported(stage.report))
        except Exception as error:
            if is_silence(error):
                raise
            kind = type(error)
            return PipelineFailed(LANDING, f"{kind.__module__}.{kind.__qualname__}: {error}")
        return None

    def _started(self, stage: Stage) -> Sequence[StreamingQuery]:
        module, _, function = self._order.pipeline.entry.partition(":")
        start: Callable[[Stage], Sequence[StreamingQuery]]
        start = getattr(import_module(module), function)
        try:
            return start(stage)
        except Exception:
            for query in stage.spark.streams.active:
                query.stop()
            raise

    def _stage(self, spark: SparkSession) -> Stage:
        order = self._order
        files: Files = LocalFiles() if order.places.is_local else SparkFiles(spark)
        check_library(spark, order.table_format)
        pinned = {
            OUT: order.places.out,
            TABLE_FORMAT: order.table_format,
            **order.pipeline.pinned(dict(order.options)),
        }
        places = order.places
        identity = claim(files, places.identity, places.checkpoints, order.pipeline, pinned)
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
            identity.id,
            order.table_format,
        )

    def _look(
        self, desk: Desk, stage: Stage, queries: Sequence[StreamingQuery], known: list[Figures]
    ) -> list[Figures]:
        """Return how it goes, and write it down if that is not known."""
        found = [_figures(query) for query in queries]
        report = stage.report
        if found != known:
            self._tell(desk, queries=[one._asdict() for one in found], **_reported(report))
        return found

    def _tell(self, desk: Desk, **changed: Any) -> None:
        self._status = {**self._status, **changed, "updated_ms": self._clock.wall_ms()}
        with suppress(OSError):  # a full disk: what matters will say so, and a status comes again
            desk.tell(self._status)
        try:
            self._show(self._status)
        except BrokenPipeError:
            raise  # who has read it wants no more
        except OSError:
            pass  # a log on that disk, or a terminal that is gone: no reason to end

    def _end(self, query: StreamingQuery) -> PipelineFailed | None:
        """End a query after its running batch; return the error that has ended it."""
        began = _batch(query)
        while query.isActive and not self._insist:
            to_its_end = self._order.once and not self._stop.is_set()
            if not to_its_end and not (query.status["isTriggerActive"] and _batch(query) == began):
                break
            threading.Event().wait(0.05)
        query.stop()
        failure = query.exception()
        return None if failure is None else PipelineFailed(query.name or "", str(failure))


def _reported(report: Report) -> dict[str, Any]:
    """Return what the pipeline itself tells, as the status has it."""
    return {
        "totals": dict(report.totals),
        "watermark_ms": report.watermark_ms,
        "newest_ms": report.newest_ms,
        "ahead": report.ahead,
    }


def _counted(folder: Path) -> dict[str, Any]:
    """Return what the last run has counted, which stands until a batch of this one tells more."""
    try:
        told = read_status(folder)
    except UserError:
        return {}
    kept = ("totals", "newest_ms", "watermark_ms", "ahead")
    return {name: told[name] for name in kept if name in told}


def _figures(query: StreamingQuery) -> Figures:
    progress = query.lastProgress
    return Figures(query.name or "") if progress is None else figures_of(json.loads(progress.json))


def _batch(query: StreamingQuery) -> int:
    return _figures(query).batch
