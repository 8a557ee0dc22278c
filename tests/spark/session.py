"""Starting Spark for tests, and ending it so that nothing is left of it.

The virtual machine starts with the quick compiler and the plain collector, and streams keep their
checkpoints with renames instead of a process per file: tests have many small batches and none of
the load that the defaults are for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafka_harness.distribution import cache_directory
from moldau.spark.pipelines.session.home import furnish


def _light_home() -> Path:
    """Return a home of Spark's from which Python starts quickly, as pipelines have it."""
    home = cache_directory() / f"spark-{pyspark.__version__}"
    home.mkdir(parents=True, exist_ok=True)
    furnish(home)
    return home


QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOOPBACK = "127.0.0.1"
ENVIRONMENT = {
    # The suite runs in a virtual environment nobody need have activated: without this Spark would
    # take the first `python3` of the path, which knows nothing of Moldau.
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_HOME": str(_light_home()),
    "SPARK_LOCAL_IP": LOOPBACK,
}
_END_TIMEOUT_S = 60


def settings(directory: Path) -> dict[str, str]:
    """Return what every session of the suite is made with; its files stay below `directory`."""
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "1g",
        "spark.local.dir": str(directory / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def started_session(directory: Path, jars: Path | None = None) -> Iterator[SparkSession]:
    """Run one session in this process, with the jars of a folder on its class path."""
    builder = SparkSession.builder.master("local[2]").appName("moldau-tests")
    if jars is not None:
        builder = builder.config("spark.jars", ",".join(map(str, sorted(jars.glob("*.jar")))))
    for name, value in settings(directory).items():
        builder = builder.config(name, value)
    with _environment(ENVIRONMENT):
        session = builder.getOrCreate()
    gateway = session.sparkContext._gateway
    family = psutil.Process(gateway.proc.pid)
    try:
        yield session
    finally:
        relatives = family.children(recursive=True)
        session.stop()
        _end(gateway, relatives)


def _end(gateway: Any, relatives: list[psutil.Process]) -> None:
    """End the virtual machine, which Spark leaves running until this process ends."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_END_TIMEOUT_S)
    SparkContext._gateway = SparkContext._jvm = None
    _, alive = psutil.wait_procs(relatives, _END_TIMEOUT_S)
    assert not alive, f"Spark left processes behind: {alive}"


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
