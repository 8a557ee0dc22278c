"""Tables of Delta and of Iceberg, by their own libraries: the same rows, each of them once.

Libraries are there from the start of a virtual machine or not at all, so that runs are processes of
their own; the one of the suite has none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pyspark
import pytest

from kafka_harness.distribution import CHECKOUT, SPARK_DELTA, SPARK_ICEBERG
from kits.cli_kit import moldau
from moldau.base.errors import UserError
from moldau.spark.pipelines.declaration import DELTA, ICEBERG
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running.frame import Order, Run
from spark.activity_model import rows_of
from spark.foreign_tables import as_parquet, library_settings, live_files
from spark.metrics_kit import OPTIONS, RULES
from spark.metrics_model import check_tables
from spark.pipeline_kit import option_values
from spark.table_format_run import records

PROGRAM = Path(__file__).with_name("table_format_run.py")


def run(table_format, address, folder):
    """Run the pipeline with a crash in the middle; return what the program has printed."""
    done = tried(table_format, address, folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tried(table_format, address, folder):
    libraries = library_settings(table_format)["spark.jars"]
    return subprocess.run(
        [sys.executable, str(PROGRAM), table_format, libraries, address, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "tests")},
    )


def check_shown(out, seen):
    """See that `moldau table` finds the same rows, without the library of the format."""
    for name in METRICS.tables:
        filed = rows_of(seen, name)
        words = (name, "--out", out, "-o", "json")
        assert moldau("table", "count", *words).data == [{"table": name, "rows": len(filed)}]
        shown = moldau("table", "show", *words, "-n", 10_000).data
        assert {*shown[0]} == {*filed[0], "date"}
        assert all(row["date"] for row in shown)
        for column in {"host", "metric", "reason", "offset"} & {*filed[0]}:
            expected = [str(row[column]) for row in filed]
            assert sorted(str(row[column]) for row in shown) == sorted(expected)


HAS_DELTA = pyspark.__version__.startswith("4.2.")
"""Whether the Delta of the tests, which is made for one Spark, is for the one that runs here."""


@pytest.mark.skipif(HAS_DELTA, reason="this Delta is for this Spark")
@pytest.mark.java(SPARK_DELTA)
def test_delta_for_another_spark_is_refused_before_anything_is_written(broker, tmp_path):
    done = tried(DELTA, broker.address, tmp_path)
    assert "is made for Spark 4.2 and this is Spark" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out" / "_moldau" / "moldau-pipeline.json").exists()


@pytest.mark.skipif(not HAS_DELTA, reason="this Delta is for Spark 4.2")
@pytest.mark.java(SPARK_DELTA)
@pytest.mark.long
def test_delta_has_what_the_records_say_after_a_batch_that_came_twice(broker, tmp_path):
    run(DELTA, broker.address, tmp_path)

    seen = as_parquet(tmp_path / "out", tmp_path / "seen")
    check_tables(seen, records(), RULES)
    check_shown(tmp_path / "out", seen)


@pytest.mark.java(SPARK_ICEBERG)
@pytest.mark.long
def test_iceberg_has_what_the_records_say_after_a_batch_that_came_twice(broker, tmp_path):
    told = run(ICEBERG, broker.address, tmp_path)

    seen = as_parquet(tmp_path / "out", tmp_path / "seen")
    check_tables(seen, records(), RULES)
    check_shown(tmp_path / "out", seen)
    for name, one in told.items():
        files = sorted(path.removeprefix("file:") for path in one["files"])
        assert files == [*map(str, live_files(tmp_path / "out" / name))]
        filed = rows_of(seen, name)
        names = [column for column in ("host", "metric", "target", "reason") if column in filed[0]]
        expected = [tuple(row[column] for column in names) for row in filed]
        found = [tuple(row[column] for column in names) for row in one["rows"]]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert all(row["date"] for row in one["rows"])  # which stands in no file


@pytest.mark.parametrize(
    ("table_format", "package"),
    [(DELTA, "io.delta:delta-spark_4.2_2.13:"), (ICEBERG, "org.apache.iceberg:iceberg-spark-")],
)
def test_a_format_without_its_library_is_refused_before_anything_is_written(
    spark, tmp_path, table_format, package
):
    order = Order(
        METRICS,
        Places.of(str(tmp_path)),
        option_values(METRICS, {**OPTIONS, "topic": "none"}),
        {"kafka.bootstrap.servers": "127.0.0.1:1"},
        once=True,
        table_format=table_format,
    )
    with pytest.raises(UserError) as refused:
        Run(order, lambda _: None, session=lambda: nullcontext(spark)).run()
    said = str(refused.value)
    assert "\n" not in said
    if table_format == DELTA and not HAS_DELTA:  # it would be refused as well
        assert said.startswith("delta-spark_4.2_2.13-4.4.0.jar is made for Spark 4.2 and this is")
    else:
        assert f"give --conf spark.jars.packages={package}" in said
    assert not (tmp_path / "_moldau" / "moldau-pipeline.json").exists()
