"""Questions about all tables of a pipeline in SQL, answered by a Spark on this machine."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from moldau.base.errors import UserError
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.changelog.querying import current_frame
from moldau.spark.pipelines.changelog.reading import TABLE
from moldau.spark.pipelines.declaration import DELTA
from moldau.spark.pipelines.identity import PipelineIdentity
from moldau.spark.pipelines.places import IDENTITY, Places
from moldau.spark.pipelines.session.starting import running_session
from moldau.spark.pipelines.storage import SparkFiles
from moldau.spark.pipelines.tables.committed import DELTA_LOG, ICEBERG_LOG, LOG
from moldau.spark.pipelines.tables.formats import check_library, has_library, settings_with
from moldau.spark.pipelines.tables.live_files import live_files
from moldau.spark.pipelines.tables.querying import frame_of_files

_ERRORS_LOGGER: Final = "SQLQueryContextLogger"
"""With which PySpark writes a trace of what it raises as well."""


def asked(
    out: str, question: str, limit: int, settings: Mapping[str, str]
) -> tuple[pa.Table, bool]:
    """Return the rows of an answer, and whether there would be more than the limit.

    Tables are known by their names, that of a changelog by the name of its topic too.
    """
    logging.getLogger(_ERRORS_LOGGER).setLevel(logging.CRITICAL)
    with running_session("sql", None, is_local=True, given=_with_delta(settings)) as spark:
        places = Places.of(out, desk=".")
        told = _identity(spark, places)
        names = (TABLE,) if told is None else PIPELINES[told.pipeline].tables
        for name in names:
            frame = _frame(spark, places, name)
            if frame is not None:
                frame.createOrReplaceTempView(f"`{name}`")
            if frame is not None and told is not None and name == TABLE:
                frame.createOrReplaceTempView(view_name(str(told.pinned.get("topic"))))
        try:
            found = spark.sql(question).limit(limit + 1).toArrow()
        except PySparkException as error:
            raise UserError(str(error).partition("\n")[0].partition(" SQLSTATE")[0]) from None
    return found.slice(0, limit), found.num_rows > limit


def _with_delta(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return settings with those that Delta's library needs, if it is brought along."""
    brought = f"{given.get('spark.jars.packages')} {given.get('spark.jars')}"
    return settings_with(DELTA, given) if "delta-spark" in brought else given


def _identity(spark: SparkSession, places: Places) -> PipelineIdentity | None:
    """Return whose the tables are; None if nobody has written that down."""
    place = f"{places.identity}/{IDENTITY}"
    text = SparkFiles(spark).read(place)
    told = None if text is None else PipelineIdentity.from_json(text, place)
    if told is not None and told.pipeline not in PIPELINES:
        raise UserError(
            f"{place} names a pipeline {told.pipeline}, which this Moldau does not know"
        )
    return told


def _frame(spark: SparkSession, places: Places, name: str) -> DataFrame | None:
    """Return a table; None if nothing was appended to it yet."""
    if name == TABLE:
        return current_frame(spark, places.out)
    place, files = places.table(name), SparkFiles(spark)
    if files.names(f"{place}/{DELTA_LOG}"):
        if has_library(spark, DELTA):
            return spark.read.format(DELTA).load(place)
        if not places.is_local:
            check_library(spark, DELTA)
    elif files.names(f"{place}/{ICEBERG_LOG}"):
        if not places.is_local:
            raise UserError(f"{place} is a table of Iceberg: ask an engine that reads these")
    else:
        return spark.read.parquet(place) if files.names(f"{place}/{LOG}") else None
    return frame_of_files(spark, live_files(Path(place)))


def view_name(topic: str) -> str:
    """Return the name of a topic as SQL can write it without quotes."""
    return re.sub(r"\W", "_", topic, flags=re.ASCII)
