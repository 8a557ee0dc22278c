"""All pipelines in one Spark: each as `moldau pipeline run` would run it, a thread for each.

Four virtual machines would take two gigabytes and most of the first minute. One is enough: a
session of its own keeps the queries of each pipeline apart, and the cores are shared.

    python -m examples.demo.driver FOLDER BROKER PIPELINE...
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pyspark
from examples.demo.cast import PIPELINES, Cast, Pipeline
from examples.demo.ending import Ending
from pyspark.sql import SparkSession

from moldau.base.errors import MoldauError
from moldau.cli.frame.offset_words import parse_duration_ms
from moldau.cli.pipeline import status_line
from moldau.spark.pipelines.catalog import PIPELINES as DECLARED
from moldau.spark.pipelines.declaration import Kind, Value
from moldau.spark.pipelines.frame import Order, Run
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.session import started_session

CORES: Final = 2
TRIGGER_MS: Final = 3000

JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Two minutes do not earn back what Java's second compiler costs, and one thread is enough to
collect a small heap."""

HEAD_START_S: Final = 60.0
"""A pipeline starts when the one before it has had its first batch, so that the first tables appear
soon and Spark is warm for the next ones; on a busy machine after so long."""

STOP_S: Final = 5.0
"""How long a pipeline takes at most to notice that its queries have ended."""
_LOOK_S: Final = 0.1

READ: Final[Mapping[Kind, Callable[[str], Value]]] = {
    Kind.TEXT: str,
    Kind.COUNT: int,
    Kind.RATIO: float,
    Kind.DURATION: parse_duration_ms,
}


class Running(threading.Thread):
    """One pipeline."""

    def __init__(self, order: Order, spark: SparkSession) -> None:
        super().__init__(name=order.pipeline.name, daemon=True)
        self._spark = spark
        self._run = Run(order, self._show, session=lambda: nullcontext(spark))
        self.has_begun = threading.Event()
        """Set once it has had a batch."""
        self.failed: MoldauError | None = None

    def run(self) -> None:
        """Run until its queries have ended."""
        try:
            self._run.run()
        except MoldauError as failed:
            self.failed = failed

    def end(self, urgent: threading.Event) -> None:
        """End its queries, after their running batches unless it is urgent."""
        for query in self._spark.streams.active:
            while query.isActive and query.status["isTriggerActive"] and not urgent.is_set():
                time.sleep(_LOOK_S)
            query.stop()
        self.join(STOP_S)

    def _show(self, status: Mapping[str, Any]) -> None:
        print(f"moldau: {status_line(status)}", flush=True)
        if any(query["batch"] >= 0 for query in status["queries"]):
            self.has_begun.set()


class Driver:
    """Runs pipelines in one Spark until it shall end, or one fails."""

    def __init__(self, spark: SparkSession, ending: Ending) -> None:
        self._spark = spark
        self._ending = ending
        self._urgent = threading.Event()
        self._running: list[Running] = []
        ending.in_haste = self._urgent.set

    def run(self, orders: Sequence[Order]) -> MoldauError | None:
        """Return what has failed, if anything has."""
        waiting, started_s = deque(orders), 0.0
        while not self._ending.wait(_LOOK_S) and self._failed() is None:
            has_begun = all(one.has_begun.is_set() for one in self._running)
            if waiting and (has_begun or time.monotonic() > started_s + HEAD_START_S):
                self._start(waiting.popleft())
                started_s = time.monotonic()
        for one in self._running:
            one.end(self._urgent)
        return self._failed()

    def _start(self, order: Order) -> None:
        session = self._spark.newSession()
        # As many as there are cores: with Spark's 200 a small batch takes ten times longer.
        session.conf.set("spark.sql.shuffle.partitions", str(CORES))
        self._running.append(Running(order, session))
        self._running[-1].start()

    def _failed(self) -> MoldauError | None:
        return next((one.failed for one in self._running if one.failed is not None), None)


def order_of(cast: Cast, pipeline: Pipeline) -> Order:
    """Return what is to be run, with the pipeline's own defaults where nothing is said."""
    declared = DECLARED[pipeline.name]
    given = {"topic": pipeline.topic, **pipeline.options}
    texts = {one: given.get(one.name, one.default) for one in declared.options}
    values = {one.name: text and READ[one.kind](text) for one, text in texts.items()}
    return Order(
        declared,
        Places.of(str(cast.tables(pipeline))),
        values,
        {"kafka.bootstrap.servers": cast.address},
        trigger_ms=TRIGGER_MS,
    )


def light_home(folder: Path) -> Path:
    """Return a home of Spark's that has no copy of PySpark.

    Spark puts an archive with PySpark's sources in front of the path of every Python it starts, and
    each compiles them for more than a second. Without it they find PySpark where it is installed.
    """
    home, installed = folder / "spark", Path(pyspark.__file__).parent
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(installed / name)
    return home


def settings(folder: Path) -> dict[str, str]:
    """Return how Spark is kept small, and from leaving anything behind."""
    own = folder / "tmp"
    return {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={own}",
        "spark.local.dir": str(own),
    }


def main(folder: Path, address: str, names: Sequence[str]) -> int:
    """Run pipelines; return the status to exit with."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    ending = Ending()
    ending.listen()
    os.environ["SPARK_HOME"] = str(light_home(folder))
    cast = Cast(folder, address)
    try:
        orders = [order_of(cast, one) for one in PIPELINES if one.name in names]
        spark = started_session("demo", f"local[{CORES}]", is_local=True, given=settings(folder))
    except MoldauError as error:
        print(f"moldau: {error}")
        return 1
    ending.listen()  # Spark has taken Ctrl-C for itself
    failed = Driver(spark, ending).run(orders)
    spark.stop()
    if failed is not None:
        print(f"moldau: {failed}")
    return 0 if failed is None else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
