"""The Spark session that a pipeline runs in, with the settings that matter to it.

What a user sets by `--conf`, or `spark-submit` has set, is stronger than what stands here.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from moldau.base.errors import UserError
from moldau.spark.pipelines.session.home import PYTHON, SUBMITTED, is_wanted, light_home
from moldau.spark.pipelines.session.java import collecting, what_is_missing
from moldau.spark.pipelines.session.machine import (
    MachineEnded,
    machine,
    reason_in,
    telling_of_its_end,
)

TASKS_PER_CORE: Final = 2
"""On this machine, where nobody says otherwise: a task waits for its Python and for brokers half of
the time, and what somebody waits for should not wait for a long task of the tables."""
_MASTER: Final = "spark.master"
_QUERY_LOG: Final = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
_SHUFFLE: Final = "spark.sql.shuffle.partitions"

SETTINGS: Final[Mapping[str, str]] = {
    # Dates of tables do not depend on where they are written.
    "spark.sql.session.timeZone": "UTC",
    # Spark's default has no zone, and no least and greatest by which readers pass over a file.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # The running batch is waited for by us; what does not end then is interrupted.
    "spark.sql.streaming.stopTimeout": "60s",
    # Batches are small and their plans are known: planning again between stages only costs.
    "spark.sql.adaptive.enabled": "false",
    # As many as states of a pipeline are kept.
    "spark.sql.streaming.minBatchesToRetain": "20",
    # A trigger writes down what has changed of its state, not all of it.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Queries share the cores; by default the job that was there first has them all.
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).with_name("pools.xml").as_uri(),
    # What Spark remembers of jobs for a page that nobody opens.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    # Windows are counted a fifth quicker with it, and state is not held in Java's heap.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}

LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    # The usual manager starts processes for each file; renames of a local disk need none.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""For tables and checkpoints on this machine."""


def settings_for(*, is_local: bool, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session."""
    return {**SETTINGS, **(LOCAL_SETTINGS if is_local else {}), **given}


@contextmanager
def running_session(
    name: str, master: str | None, *, is_local: bool, given: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Start Spark, or join what `spark-submit` has started, and end it at the end of the block.

    UserError if it does not start.
    """
    settings = {"spark.app.name": f"moldau-pipeline-{name}"}
    own_master = f"local[{TASKS_PER_CORE * _cores()}]"
    if SUBMITTED not in os.environ:
        if (missing := what_is_missing()) is not None:
            raise UserError(missing)
        settings[_MASTER] = master or own_master
        if master is None and _MASTER not in given:
            settings |= collecting(given, os.environ)
    elif master is not None:
        settings[_MASTER] = master
    settings |= settings_for(is_local=is_local, given=given)
    with ExitStack() as running:
        if is_wanted(settings.get(_MASTER, ""), given, os.environ):
            running.enter_context(light_home())
        # Without it Spark takes the first `python3` of the path, which need not know Moldau.
        os.environ.setdefault(PYTHON, sys.executable)
        said = running.enter_context(machine(settings))
        try:
            spark = SparkSession.builder.config(map={**settings}).getOrCreate()
        except Exception as error:
            reason = reason_in([], str(error))
            raise UserError(f"Spark does not start: {reason}") from error
        running.callback(_stop, spark)
        if _SHUFFLE not in given:
            # As many as cores: with Spark's 200 a batch of a stream takes ten times longer.
            tasks = spark.sparkContext.defaultParallelism
            is_ours = settings.get(_MASTER) == own_master
            spark.conf.set(_SHUFFLE, str(_cores() if is_ours else tasks))
        _quiet(spark)
        if said is not None:
            said.pass_on()
        yield spark


def _stop(spark: SparkSession) -> None:
    """Stop Spark. If its machine has ended there is nothing to stop, and who ran in it says so."""
    with suppress(MachineEnded), telling_of_its_end(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Spark's own words for the same
        spark.stop()


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def beside(spark: SparkSession) -> SparkSession:
    """Return a session of the same Spark, whose queries and settings are its own."""
    session = spark.newSession()
    shuffle = spark.conf.get(_SHUFFLE)
    assert shuffle is not None
    session.conf.set(_SHUFFLE, shuffle)
    return session


def _quiet(spark: SparkSession) -> None:
    """Have Spark leave it to us to say that a query has failed: it prints two hundred lines."""
    levels: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    levels.core.config.Configurator.setLevel(_QUERY_LOG, levels.Level.OFF)
