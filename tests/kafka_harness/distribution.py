"""Where the jars of Apache Kafka come from: pinned poms, fetched once by Maven, kept in a cache.

The cache is `.cache/kafka/<version>` of the checkout, or below `MOLDAU_CACHE` where several
checkouts share one. A version is fetched into a folder beside its place and renamed when complete,
under a lock, so that two test runs neither fetch twice nor see half of it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

CURRENT = "4.3.1"
"""The Kafka that Moldau is measured and checked against."""
ZOOKEEPER_ERA = "3.9.1"
"""The last line with ZooKeeper and its inter-broker messages."""
LAST_ZOOKEEPER_TOOLS = "2.8.2"
"""The last line whose tools take `--zookeeper`."""
OLDEST = "1.1.1"
"""The oldest clients and tools Moldau serves."""
VERSIONS = (CURRENT, ZOOKEEPER_ERA, OLDEST)
NEWEST_CLIENT = "clients-4.4.0"
"""The newest released client alone: whose versions of the APIs are Kafka's newest."""
MIRROR_MAKER = "mirror-4.3.1"
"""MirrorMaker 2 of the current Kafka, without a broker."""
SPARK_CONNECTOR = "spark-4.2.0"
"""Spark's own source and sink: not a Kafka to run, but fetched and kept as one is."""
SPARK_DELTA = "spark-delta-4.4.0"
SPARK_ICEBERG = "spark-iceberg-1.12.0"
"""Libraries of table formats for Spark, likewise."""

_FETCH_TIMEOUT_S = 900
"""A cold fetch takes two minutes on a usual line; a stuck one must not hold a run for ever."""


class KafkaUnavailableError(Exception):
    """Java, Maven or the jars are missing; the text is one line for the skip reason."""


def cache_directory() -> Path:
    """Return the folder for everything fetched or compiled."""
    return Path(os.environ.get("MOLDAU_CACHE") or CHECKOUT / ".cache")


def jars(version: str) -> Path:
    """Return the folder with the jars of a version, fetching them the first time."""
    place = cache_directory() / "kafka" / version
    if not place.exists():
        with lock(place.parent):
            if not place.exists():
                _fetch(version, place)
    require("java")
    return place


def require(program: str) -> str:
    """Return the path of a program, or say in one line that it is missing."""
    found = shutil.which(program)
    if found is None:
        raise KafkaUnavailableError(f"{program} is not installed (needed to run Apache Kafka)")
    return found


@contextmanager
def lock(directory: Path) -> Iterator[None]:
    """Hold a folder of the cache against other processes."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(version: str, place: Path) -> None:
    maven = require("mvn")
    pom = CHECKOUT / "tools" / "kafka" / version / "pom.xml"
    if not pom.exists():
        raise KafkaUnavailableError(f"no pom for Apache Kafka {version} in tools/kafka")
    partial = place.with_name(f"{version}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [
        maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
        "-DincludeScope=runtime", f"-DoutputDirectory={partial}",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise KafkaUnavailableError(
            f"Maven did not fetch Apache Kafka {version} within {_FETCH_TIMEOUT_S} s"
        ) from None
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        why = lines[0].replace("[ERROR]", "").strip() if lines else f"status {done.returncode}"
        raise KafkaUnavailableError(f"Maven could not fetch Apache Kafka {version}: {why}")
    partial.rename(place)
