"""A program that runs the metrics pipeline with tables of some format, with a crash in the middle.

    python table_format_run.py FORMAT JARS BROKER FOLDER

Libraries of formats have to be there when a virtual machine starts, so that it is a process of its
own. It brings a batch, undoes what is noted of it, as a crash at its end does, and brings it again
and another one, which reads what the first has filed. Tables of Delta get a checkpoint between the
two, so that their log has both forms. Prints, for Iceberg, what its own reader
finds then: `{"TABLE": {"files": [...], "rows": [{"host": "a", ...}, ...]}, ...}`; values are texts.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.spark.pipelines.declaration import DELTA, ICEBERG
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running.frame import Order, Run
from moldau.spark.pipelines.session.starting import running_session
from moldau.spark.pipelines.windowed.batches import Batches
from spark.metrics_kit import OPTIONS, made_up
from spark.pipeline_kit import option_values
from spark.session import ENVIRONMENT, settings

BATCHES = 2
BATCH_ROWS = 300
"""So many that every table has rows."""


def records() -> list[bytes]:
    """Return what the pipeline is given."""
    return made_up(BATCHES * BATCH_ROWS)


def main(table_format: str, jars: str, address: str, folder: str) -> None:
    """Run it, and print what there is."""
    os.environ.update(ENVIRONMENT)
    topic = create_topic(address, fresh_topic("metrics"))
    values = records()
    out = Path(folder, "out")
    order = Order(
        METRICS,
        Places.of(str(out)),
        option_values(METRICS, {**OPTIONS, "topic": topic}),
        {"kafka.bootstrap.servers": address},
        once=True,
        batch_rows=BATCH_ROWS,
        settings={**settings(Path(folder)), "spark.jars": jars},
        table_format=table_format,
    )
    # A crash, as it is made here, comes before the end of a run closes windows.
    Batches.pass_time = lambda *_, **__: False  # type: ignore[method-assign]
    before = (BATCHES - 1) * BATCH_ROWS
    given = order.spark_settings
    with running_session("metrics", "local[2]", is_local=True, given=given) as spark:
        for part in (values[:before], values[before:]):
            send(address, topic, part)
            Run(order, lambda _: None, session=lambda: nullcontext(spark)).run()
            if part is not values[before:]:
                _crash(spark, out, table_format)
        found = _read(spark, out) if table_format == ICEBERG else {}
    json.dump(found, sys.stdout)


def _crash(spark: SparkSession, out: Path, table_format: str) -> None:
    """Undo what is noted of the last batch, and have the next run know nothing of this one."""
    memory, last = out / "_moldau", str(BATCHES - 2)
    for path in (memory / "state" / last, memory / "checkpoint" / "landing" / "commits" / last):
        path.unlink()
        path.with_name(f".{last}.crc").unlink(missing_ok=True)
    if table_format == DELTA:
        jvm: Any = spark._jvm
        delta = jvm.org.apache.spark.sql.delta.DeltaLog
        for table in METRICS.tables:
            delta.forTable(spark._jsparkSession, str(out / table)).checkpoint()
        delta.clearCache()


def _read(spark: SparkSession, out: Path) -> dict[str, Any]:
    jvm: Any = spark._jvm
    iceberg = jvm.org.apache.iceberg
    tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
    found = {}
    for name in METRICS.tables:
        table = tables.load(str(out / name))
        columns = [field.name() for field in table.schema().columns()]
        found[name] = {
            "files": [str(task.file().location()) for task in _each(table.newScan().planFiles())],
            "rows": [
                {column: _text(row.getField(column)) for column in columns}
                for row in _each(iceberg.data.IcebergGenerics.read(table).build())
            ],
        }
    return found


def _each(iterable: Any) -> Any:
    """Go through something of Java's that py4j does not know how to."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
