"""Formats of tables: what they need, what is remembered of them, and who cannot read them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

from moldau.base.errors import InvariantViolated, UserError
from moldau.cli.pipeline import pipeline
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.declaration import DELTA, ICEBERG, PARQUET, TABLE_FORMAT
from moldau.spark.pipelines.identity import PipelineIdentity, agreed
from moldau.spark.pipelines.running import frame
from moldau.spark.pipelines.tables.committed import files_of
from moldau.spark.pipelines.tables.formats import (
    EXTENSIONS,
    LIBRARIES,
    check_release,
    settings_with,
)
from moldau.spark.pipelines.tables.iceberg import schema_json

OLD = PipelineIdentity("a", "activity", {"window": 60_000})


def with_format(name):
    return OLD._replace(pinned={TABLE_FORMAT: name, **OLD.pinned})


def test_tables_keep_their_format_and_those_of_before_are_parquet():
    for tables, wanted in ((OLD, PARQUET), (with_format(DELTA), DELTA)):
        assert agreed(tables, tables, with_format(wanted), PIPELINES["activity"].typed) == tables
    for tables, wanted in ((OLD, DELTA), (with_format(ICEBERG), PARQUET)):
        said = f"table-format=.*, and cannot go on with {wanted}"
        with pytest.raises(UserError, match=said):
            agreed(tables, tables, with_format(wanted), PIPELINES["activity"].typed)


def test_settings_of_a_format_give_way_to_those_of_the_user_and_extensions_add_up():
    ours = LIBRARIES[DELTA].settings
    assert settings_with(PARQUET, {"a": "1"}) == {"a": "1"}
    assert settings_with(DELTA, {"a": "1"}) == {**ours, "a": "1"}
    name = "spark.databricks.delta.snapshotPartitions"
    assert settings_with(DELTA, {name: "9"})[name] == "9"
    assert settings_with(DELTA, {EXTENSIONS: "x.Y"})[EXTENSIONS] == f"x.Y,{ours[EXTENSIONS]}"
    both = f"{ours[EXTENSIONS]},x.Y"
    assert settings_with(DELTA, {EXTENSIONS: both})[EXTENSIONS] == both


def test_a_library_that_is_made_for_another_spark_is_refused():
    delta = "file:/jars/delta-spark_4.2_2.13-4.4.0.jar"
    for fine in (delta, "file:/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar", "file:/jars/x.jar"):
        check_release(fine, "4.2.0")
    for other in ("4.3.0", "4.20.1"):
        said = f"delta-spark_4.2_2.13-4.4.0.jar is made for Spark 4.2 and this is Spark {other}: "
        with pytest.raises(UserError, match=said):
            check_release(delta, other)


@pytest.mark.parametrize(("folder", "name"), [("_delta_log", "Delta"), ("metadata", "Iceberg")])
def test_who_reads_without_spark_says_that_it_reads_parquet_only(tmp_path, folder, name):
    (tmp_path / folder).mkdir()
    with pytest.raises(UserError, match=f"is a table of {name}: this reads tables of Parquet only"):
        files_of(tmp_path)


def test_columns_are_told_to_iceberg_with_an_id_each():
    told = json.loads(schema_json(pa.schema({
        "time": pa.timestamp("us", "UTC"),
        "fields": pa.map_(pa.string(), pa.string()),
        "buckets": pa.list_(pa.struct({"bound": pa.float64()})),
        "date": pa.date32(),
    })))  # fmt: skip
    assert [(one["id"], one["name"]) for one in told["fields"]] == [
        (1, "time"), (2, "fields"), (5, "buckets"), (8, "date"),
    ]  # fmt: skip
    time, fields, buckets, date = (one["type"] for one in told["fields"])
    assert (time, date) == ("timestamptz", "date")
    assert (fields["type"], fields["key-id"], fields["value-id"]) == ("map", 3, 4)
    assert buckets["element"]["fields"][0] == {
        "id": 7, "name": "bound", "required": False, "type": "double",
    }  # fmt: skip


def test_a_column_that_iceberg_has_no_type_for_is_our_mistake():
    with pytest.raises(InvariantViolated, match="duration"):
        schema_json(pa.schema({"a": pa.duration("us")}))


def test_the_command_orders_tables_of_the_format_it_was_told(monkeypatch, tmp_path):
    ordered = []

    class Recorded:
        def __init__(self, order, show):
            del show
            ordered.append(order)

        def run(self):
            pass

    monkeypatch.setattr(frame, "Run", Recorded)
    words = ["run", "activity", "--out", str(tmp_path), "--conf", "a=1"]
    for more in ([], ["--table-format", "delta"]):
        assert CliRunner().invoke(pipeline, [*words, *more]).exit_code == 0
    assert [order.table_format for order in ordered] == [PARQUET, DELTA]
    assert [order.spark_settings for order in ordered] == [
        {"a": "1"}, {**LIBRARIES[DELTA].settings, "a": "1"},
    ]  # fmt: skip
    assert CliRunner().invoke(pipeline, [*words, "--table-format", "orc"]).exit_code == 2
