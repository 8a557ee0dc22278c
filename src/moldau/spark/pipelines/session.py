"""The Spark session that a pipeline runs in, with the settings that matter to it.

What a user sets by `--conf`, or `spark-submit` has set, is stronger than what stands here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from moldau.base.errors import UserError

LOCAL: Final = "local[*]"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""What `spark-submit` sets for the Python programs it starts."""
_PYTHON: Final = "PYSPARK_PYTHON"
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


def started_session(
    name: str, master: str | None, *, is_local: bool, given: Mapping[str, str]
) -> SparkSession:
    """Start Spark, or join what `spark-submit` has started; UserError if it does not start."""
    # Without it Spark takes the first `python3` of the path, which need not know Moldau.
    os.environ.setdefault(_PYTHON, sys.executable)
    builder = SparkSession.builder.appName(f"moldau-pipeline-{name}")
    if master is not None or _SUBMITTED not in os.environ:
        builder = builder.master(master or LOCAL)
    for key, value in settings_for(is_local=is_local, given=given).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise UserError(f"Spark does not start: {first_line(str(error))}") from error
    if _SHUFFLE not in given:
        # As many as there are cores: with Spark's 200 a batch of a stream takes ten times longer.
        spark.conf.set(_SHUFFLE, str(spark.sparkContext.defaultParallelism))
    _quiet(spark)
    return spark


def _quiet(spark: SparkSession) -> None:
    """Have Spark leave it to us to say that a query has failed: it prints two hundred lines."""
    levels: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    levels.core.config.Configurator.setLevel(_QUERY_LOG, levels.Level.OFF)


def first_line(text: str) -> str:
    """Return the first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
