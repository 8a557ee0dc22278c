"""Windows and anomalies to a topic, for who does not want to wait for tables.

They are sent after they are filed and before the batch is done, under the time up to which windows
are closed then: a batch that is run again finds that its windows were sent.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.metrics.folding import ANOMALY, COMPARED, FIGURES, WINDOW
from moldau.spark.pipelines.metrics.samples import SERIES
from moldau.spark.pipelines.records.gathering import Rows
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.windowed.reading import SPAN

_KEY: Final = ("host", "service", "metric", "target")


class Results:
    """Sends results; the records of a series have one key, and so their order."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self._stage = stage
        self._topic = topic

    def send(self, rows: Rows, until_ms: int) -> None:
        """Send the windows up to a time, and anomalies, among the rows of a closing, once."""
        result = F.col("role").alias("result")
        told = F.struct(result, *SPAN, *SERIES, "unit", *FIGURES, *COMPARED)
        records = rows.frame.where(F.col("role").isin(WINDOW, ANOMALY)).select(
            F.concat_ws(" ", *_KEY).alias("key"),
            F.to_json(told, {"ignoreNullFields": "false"}).alias("value"),
        )
        self._stage.send(records, self._topic, until_ms)
