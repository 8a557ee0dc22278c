"""Windows and anomalies to a topic, for who does not want to wait for tables.

They are sent after they are filed and before the batch is done, so at least once: a batch that is
run again sends the same records again, and series, window and result tell that they are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.metrics.folding import ANOMALY, COMPARED, FIGURES, WINDOW
from moldau.spark.pipelines.metrics.samples import SERIES
from moldau.spark.pipelines.windowed.gathering import Rows
from moldau.spark.pipelines.windowed.reading import SPAN

_KEY: Final = ("host", "service", "metric", "target")


class Results:
    """Sends results; the records of a series have one key, and so their order."""

    def __init__(self, connection: Mapping[str, str], topic: str) -> None:
        self._options = {**connection, "topic": topic}

    def send(self, rows: Rows) -> None:
        """Send the windows and anomalies among the rows of a closing."""
        result = F.col("role").alias("result")
        told = F.struct(result, *SPAN, *SERIES, "unit", *FIGURES, *COMPARED)
        records = rows.frame.where(F.col("role").isin(WINDOW, ANOMALY)).select(
            F.concat_ws(" ", *_KEY).alias("key"),
            F.to_json(told, {"ignoreNullFields": "false"}).alias("value"),
        )
        records.write.format("moldau").options(**self._options).mode("append").save()
