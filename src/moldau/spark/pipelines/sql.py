"""Questions about all tables of a pipeline in SQL, answered by a Spark on this machine."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.querying import current_frame
from moldau.spark.pipelines.changelog.reading import TABLE
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.session.starting import running_session
from moldau.spark.pipelines.storage import SparkFiles
from moldau.spark.pipelines.tables.committed import LOG

_ERRORS_LOGGER: Final = "SQLQueryContextLogger"
"""With which PySpark writes a trace of what it raises as well."""


def asked(
    out: str,
    tables: Sequence[str],
    alias: str | None,
    question: str,
    limit: int,
    settings: Mapping[str, str],
) -> tuple[pa.Table, bool]:
    """Return the rows of an answer, and whether there would be more than the limit.

    Tables are known by their names, that of a changelog by the name of its topic too.
    """
    logging.getLogger(_ERRORS_LOGGER).setLevel(logging.CRITICAL)
    with running_session("sql", None, is_local=True, given=settings) as spark:
        for name in tables:
            frame = _frame(spark, out, name)
            if frame is not None:
                frame.createOrReplaceTempView(f"`{name}`")
            if frame is not None and name == TABLE and alias:
                frame.createOrReplaceTempView(view_name(alias))
        try:
            found = spark.sql(question).limit(limit + 1).toArrow()
        except PySparkException as error:
            raise UserError(str(error).partition("\n")[0].partition(" SQLSTATE")[0]) from None
    return found.slice(0, limit), found.num_rows > limit


def _frame(spark: SparkSession, out: str, name: str) -> DataFrame | None:
    """Return a table; None if nothing was appended to it yet."""
    if name == TABLE:
        return current_frame(spark, out)
    place = Places.of(out, desk=".").table(name)
    if not SparkFiles(spark).names(f"{place}/{LOG}"):
        return None
    return spark.read.parquet(place)


def view_name(topic: str) -> str:
    """Return the name of a topic as SQL can write it without quotes."""
    return re.sub(r"\W", "_", topic, flags=re.ASCII)
