"""Jobs for a cluster: one reads a topic, one writes to a topic by tasks that fail or are slow.

Their arguments are a master's address, the name of the job, settings of Spark's and what the job
takes; they know nothing of either cluster.
"""

import json
import os
import sys
import time
from pathlib import Path

from pyspark import BarrierTaskContext, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from moldau.spark.provider import MoldauDataSource

PATIENCE_S = 120


def main(master: str, job: str, settings: str, *arguments: str) -> None:
    """Run a job."""
    given = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", **json.loads(settings)}
    builder = SparkSession.builder.master(master)
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    {"read": read, "write": write}[job](spark, *arguments)
    spark.stop()


def read(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """Print the rows of a topic, and how many Pythons had a hand in it, as JSON."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    rows = spark.read.format("moldau").options(**options).load().select("value").collect()
    print(json.dumps({
        "executors": executors(spark.sparkContext),
        "values": sorted(bytes(row.value).decode() for row in rows),
    }))  # fmt: skip


def executors(context) -> int:
    """Return how many processes ran two tasks that wait for each other."""

    def parent(_):
        BarrierTaskContext.get().barrier()
        return [os.getppid()]

    return len(set(context.parallelize(range(2), 2).barrier().mapPartitions(parent).collect()))


def write(spark: SparkSession, rows: int, tasks: int, options: str) -> None:
    """Write a batch of numbers, or some, by a stream whose sink has bad luck."""
    spark.dataSource.register(UnluckySource)
    source = spark.readStream.format("rate-micro-batch")
    source = source.option("rowsPerBatch", rows).option("numPartitions", tasks)
    stream = source.load().selectExpr("CAST(value AS STRING) AS value")
    writer = stream.writeStream.format("unlucky").options(**json.loads(options))
    writer.trigger(availableNow=True).start().awaitTermination()


class UnluckySource(MoldauDataSource):
    """The format, with a sink whose tasks fail or are slow when their rows are written."""

    @classmethod
    def name(cls) -> str:
        return "unlucky"

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        """Return the format's own writer, with bad luck."""
        return UnluckyWriter(super().streamWriter(schema, overwrite), self.options["attempts"])


class UnluckyWriter(DataSourceStreamArrowWriter):
    """Leaves a file for every attempt of a task that has written its rows, and lets none end well.

    The first attempt at a task fails then; that of the first task is slow instead: it goes on when
    the second, which Spark starts beside it, has written its rows too, and so does the second.
    """

    def __init__(self, writer: DataSourceStreamArrowWriter, attempts: str) -> None:
        self._writer = writer
        self._attempts = Path(attempts)

    def write(self, iterator):
        """Write the rows of a task, and have bad luck."""
        message = self._writer.write(iterator)
        context = TaskContext.get()
        number, task = context.attemptNumber(), context.partitionId()
        batch = context.getLocalProperty("streaming.sql.batchId")
        (self._attempts / f"{batch}-{task}-{number}").touch()
        if task > 0 and number == 0:
            raise RuntimeError("on purpose")
        if task == 0 and number in (0, 1):
            wait_for(self._attempts / f"{batch}-{task}-{1 - number}")
        return message

    def commit(self, messages, batch_id):
        """Let the format do it."""
        self._writer.commit(messages, batch_id)

    def abort(self, messages, batch_id):
        """Let the format do it."""
        self._writer.abort(messages, batch_id)


def wait_for(file: Path) -> None:
    """Wait until a file is there; if it never is, whoever counts the files will see."""
    deadline = time.monotonic() + PATIENCE_S
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
