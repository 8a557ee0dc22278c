"""Spark as it is measured: its defaults, both connectors, and what its processes have used.

The virtual machine compiles and collects as it would in production, unlike that of the tests. Only
what would get in the way is turned off: the web page, the bar of progress, and the log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.kafka_harness.distribution import CHECKOUT, SPARK_CONNECTOR, jars

from bench.usage import cpu_seconds

_LOOPBACK = "127.0.0.1"
_END_TIMEOUT_S = 60


class Spark:
    """A running session, and its family of processes: the virtual machine and Python's workers."""

    def __init__(self, session: SparkSession, pid: int) -> None:
        self.session = session
        self.pid = pid

    def cpu_seconds(self) -> float:
        """Return what all its processes have used so far, also those that have ended."""
        return cpu_seconds(self.pid)


@contextmanager
def started(cores: int, directory: Path) -> Iterator[Spark]:
    """Run a session on so many cores; its files stay below `directory`."""
    # Workers import the variants of `bench.spark.variants`, and Moldau, as this process does.
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    builder = SparkSession.builder.master(f"local[{cores}]").appName("moldau-bench")
    for name, value in _settings(directory).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    gateway = session.sparkContext._gateway  # noqa: SLF001 - Spark tells its process nowhere else
    assert gateway is not None
    family = psutil.Process(gateway.proc.pid)
    try:
        yield Spark(session, family.pid)
    finally:
        relatives = family.children(recursive=True)
        session.stop()
        _end(gateway, relatives)


def _settings(directory: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, sorted(jars(SPARK_CONNECTOR).glob("*.jar")))),
        "spark.local.dir": str(directory / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _end(gateway: Any, relatives: list[psutil.Process]) -> None:
    """End the virtual machine, which Spark leaves running until this process ends."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_END_TIMEOUT_S)
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - or the next one uses it
    psutil.wait_procs(relatives, _END_TIMEOUT_S)
