"""What tests of pipelines share: a stage without a frame, batches without a broker, crashes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from moldau.spark.pipelines.declaration import Kind, Pipeline
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.records.arriving import with_now
from moldau.spark.pipelines.session.starting import SETTINGS
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.storage import Files, LocalFiles, SparkFiles

_NUMBERS = {Kind.COUNT: int, Kind.RATIO: float, Kind.DURATION: int, Kind.TEXT: str}


class Crash(Exception):  # noqa: N818 - it names the event
    """What ends a batch in the middle."""


class CrashingFiles(SparkFiles):
    """Files that fail at one of the steps that leave something behind."""

    def __init__(self, spark: SparkSession, survived: int) -> None:
        super().__init__(spark)
        self.left = survived

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def write(self, path: str, data: str | bytes) -> None:
        self._step()
        super().write(path, data)

    def move(self, old: str, new: str) -> None:
        self._step()
        super().move(old, new)


@contextlib.contextmanager
def pipeline_settings(spark: SparkSession) -> Iterator[SparkSession]:
    """Give the session the setting of pipelines that tables show."""
    name = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(name, SETTINGS[name])
    try:
        yield spark
    finally:
        spark.conf.unset(name)


def option_values(pipeline: Pipeline, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a pipeline; what is not given has its default."""
    return {
        one.name: options[one.name]
        if one.name in options
        else one.default and _NUMBERS[one.kind](one.default)
        for one in pipeline.options
    }


def stage_of(
    spark: SparkSession,
    pipeline: Pipeline,
    out: Path,
    options: Mapping[str, Any],
    files: Files | None = None,
    address: str = "none:1",
) -> Stage:
    """Return a stage for a pipeline."""
    return Stage(
        spark,
        files or LocalFiles(),
        Places.of(str(out)),
        option_values(pipeline, options),
        {"kafka.bootstrap.servers": address},
        {"availableNow": True},
        1_000_000,
        None,
        str(out),
    )


def frame_of(
    spark: SparkSession, records: Iterable[tuple[bytes | None, bytes | None, int]]
) -> DataFrame:
    """Return records of one partition (key, value, offset) as the source gives them."""
    frame = spark.createDataFrame(
        [
            (key, value, "none", 0, offset, None, len(key or b"") + len(value or b""))
            for key, value, offset in records
        ],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
        " size BIGINT",
    )
    return with_now(frame)


STRIDES = [
    pytest.param(2, id="every second step"),
    pytest.param(1, id="every step", marks=pytest.mark.long),
]


def until_done(
    spark: SparkSession, survived: int, take: Callable[[Files], None], stride: int = 1
) -> Iterator[int]:
    """Run a batch again, each time in a new process as it were, until it is done.

    Each try survives `stride` steps more than the last. Yield how many have crashed, each time.
    """
    for crashes in itertools.count(1):
        try:
            take(CrashingFiles(spark, survived))
        except Crash:
            yield crashes
        else:
            return
        survived += stride
