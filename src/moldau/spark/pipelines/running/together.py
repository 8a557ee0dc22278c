"""Several pipelines in one Spark: each runs as if it were alone, in a thread of its own.

A virtual machine for each would take half a gigabyte and most of a minute of a core; one is enough.
Each pipeline has a session in it, which keeps its queries and settings apart from the others', and
its own lock and status: who looks at one of them, or stops it, sees no difference. All end with the
first that fails, after their running batches: whoever looks after them restarts them as one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from moldau.base.errors import InvariantViolated, MoldauError, UserError
from moldau.spark.pipelines.running.frame import Order, Run
from moldau.spark.pipelines.running.signals import Signals
from moldau.spark.pipelines.session.machine import MachineEnded, telling_of_its_end
from moldau.spark.pipelines.session.starting import beside, running_session
from moldau.spark.pipelines.tables.formats import settings_with

HEAD_START_S: Final = 60.0
"""A pipeline starts when the one before it has had its first batch, so that the first tables appear
soon and Spark is warm for the next ones; on a busy machine, or an empty topic, after so long."""
LOOK_S: Final = 0.1

Show = Callable[[str, Mapping[str, Any]], None]


class Member(threading.Thread):
    """One of the pipelines: takes its lock at once, and waits for its turn to start queries."""

    def __init__(self, title: str, order: Order, show: Show) -> None:
        super().__init__(name=f"pipeline-{title}", daemon=True)
        self.title = title
        self.is_placed = threading.Event()
        """Set once it has its lock, or has failed."""
        self.has_begun = threading.Event()
        """Set once it has had a batch."""
        self.failed: Exception | None = None
        self._show = show
        self._run = Run(order, self._told, session=self._session)
        self._turn = threading.Event()
        self._spark: SparkSession | None = None
        self._refusal: Exception | None = None

    def run(self) -> None:
        """Run to its end."""
        try:
            self._run.run()
        except Exception as failed:  # noqa: BLE001 - who has started it raises it again
            self.failed = failed
        finally:
            self.is_placed.set()

    def begin(self, spark: SparkSession) -> None:
        """Have it start its queries."""
        self._spark = spark
        self._turn.set()

    def refuse(self, reason: Exception) -> None:
        """Have it fail, as there is no Spark."""
        self._refusal = reason
        self._turn.set()

    def stop(self, *, urgent: bool) -> None:
        """Have it end."""
        self._run.stop(urgent=urgent)

    @property
    def is_under_way(self) -> bool:
        """Whether nobody has to wait for it any more."""
        return self.has_begun.is_set() or not self.is_alive()

    @contextmanager
    def _session(self) -> Iterator[SparkSession | None]:
        self.is_placed.set()
        while not self._turn.wait(LOOK_S) and not self._run.is_stopping:
            pass
        if self._refusal is not None:
            raise self._refusal
        yield self._spark

    def _told(self, status: Mapping[str, Any]) -> None:
        self._show(self.title, status)
        if any(query["batch"] >= 0 for query in status["queries"]):
            self.has_begun.set()


class Together:
    """Runs pipelines in one Spark until all have ended."""

    def __init__(
        self,
        orders: Mapping[str, Order],
        show: Show,
        session: Callable[[], AbstractContextManager[SparkSession]],
        *,
        head_start_s: float = HEAD_START_S,
    ) -> None:
        """`session` starts Spark; `show` is told every status, with the title of its order."""
        self._session = session
        self._head_start_s = head_start_s
        self._is_stopping = False
        self._showing = threading.Lock()
        self._signals = Signals(self.stop)

        def in_turn(title: str, status: Mapping[str, Any]) -> None:
            with self._showing:
                show(title, status)

        self._members = [Member(title, order, in_turn) for title, order in orders.items()]

    def run(self) -> None:
        """Run until all have ended; UserError, which names the pipeline, if one has failed."""
        with self._signals:
            for member in self._members:
                member.start()
            for member in self._members:
                member.is_placed.wait()
            try:
                if self._failed() is None:
                    self._run()
            finally:
                self._end()
        if (failed := self._failed()) is not None:
            raise _named(failed)

    def stop(self, *, urgent: bool = False) -> None:
        """Have all end after their running batches, or without them; from any thread."""
        self._is_stopping = True
        for member in self._members:
            member.stop(urgent=urgent)

    def _run(self) -> None:
        try:
            with self._session() as spark:
                self._signals.listen()  # Spark has taken Ctrl-C for itself
                with telling_of_its_end():
                    self._follow(spark)
        except Exception as error:
            for member in self._members:
                member.refuse(error)
            raise

    def _follow(self, spark: SparkSession) -> None:
        """Let one after the other begin, until all have ended."""
        waiting, begun_s = deque(self._members), 0.0
        begun: list[Member] = []
        while any(member.is_alive() for member in self._members):
            if self._failed() is not None and not self._is_stopping:
                self.stop()
            is_time = time.monotonic() > begun_s + self._head_start_s
            is_next = is_time or all(member.is_under_way for member in begun)
            if waiting and is_next and not self._is_stopping:
                begun.append(waiting.popleft())
                begun[-1].begin(beside(spark))
                begun_s = time.monotonic()
            time.sleep(LOOK_S)

    def _end(self) -> None:
        """Wait until all have ended, for whatever reason."""
        if any(member.is_alive() for member in self._members):
            self.stop()
        for member in self._members:
            member.join()

    def _failed(self) -> Member | None:
        return next((one for one in self._members if one.failed is not None), None)


def shared_session(orders: Mapping[str, Order]) -> AbstractContextManager[SparkSession]:
    """Start the Spark that suits all orders, where the first one says; end it with the block."""
    first = next(iter(orders.values()))
    settings = dict(first.settings)
    for order in orders.values():
        settings = settings_with(order.table_format, settings)
    is_local = all(order.places.is_local for order in orders.values())
    return running_session("+".join(orders), first.master, is_local=is_local, given=settings)


def _named(member: Member) -> Exception:
    """Return the error of a pipeline, which says whose it is; the end of Spark is that of all."""
    error = member.failed
    assert error is not None
    if isinstance(error, MachineEnded):
        return error
    if isinstance(error, MoldauError) and not isinstance(error, InvariantViolated):
        return UserError(f"{member.title}: {error}")
    return error
