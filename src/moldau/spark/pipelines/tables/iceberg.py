"""Tables of Apache Iceberg: files written as for plain Parquet, committed by Iceberg's library.

A table is a folder with the layout of Iceberg's Hadoop catalogs: one whose warehouse is the folder
above that of the pipeline has it as `<folder of the pipeline>.<table>`. How many appends there are
is a property of the table, which changes in one commit with its files: unlike a snapshot's own
properties it is there for as long as the table is, whoever expires snapshots.

Only the library's core is used, through Spark's virtual machine: it is the same for all versions
of Spark, also of those whose SQL it does not know yet. Merging of small files is Iceberg's matter,
too: `rewrite_data_files`, run by whoever keeps the tables.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from moldau.base.errors import InvariantViolated
from moldau.spark.pipelines.storage import FileEntry, Files
from moldau.spark.pipelines.tables.appending import Append, prefix_of

APPENDS: Final = "moldau.appends"
"""The property of a table that says how many appends it has."""
APPEND: Final = "moldau.append"
"""The property of a snapshot that says which append has made it."""
NAMES: Final = "schema.name-mapping.default"
"""Iceberg's own: by which names files have the columns, as ours have no ids for them."""

PROPERTIES: Final = {
    "format-version": "2",
    # Each append makes a file that describes the table; of those only the last ones are kept.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

_SIMPLE: Final = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamptz",
}


class IcebergCommits:
    """What Iceberg knows of one table."""

    def __init__(
        self, spark: SparkSession, files: Files, path: str, partitioned_by: Sequence[str]
    ) -> None:
        self._files = files
        self._path = path
        self._partitioned_by = list(partitioned_by)
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to libraries
        self._jvm = jvm
        self._iceberg = jvm.org.apache.iceberg
        self._tables = self._iceberg.hadoop.HadoopTables(
            spark._jsc.hadoopConfiguration()  # noqa: SLF001
        )
        self._table: Any = None

    def count(self) -> int:
        """Return how many appends are committed."""
        if not self._tables.exists(self._path):
            return 0
        self._table = self._tables.load(self._path)
        return int(self._table.properties().get(APPENDS) or 0)

    def commit(self, append: Append, wanted: Collection[str]) -> None:
        """Commit an append, which is the next one; Iceberg keeps what is wanted."""
        del wanted
        table = self._table = self._table or self._created(append.columns)
        table.refresh()  # others may have merged files since
        mapping = self._iceberg.mapping
        names = mapping.MappingUtil.create(table.schema())
        transaction = table.newTransaction()
        if append.entries:
            change = transaction.newAppend().set(APPEND, str(append.number))
            for entry in append.entries:
                change = change.appendFile(self._data_file(table, names, entry))
            change.commit()
        properties = transaction.updateProperties().set(APPENDS, str(append.number + 1))
        properties.set(NAMES, mapping.NameMappingParser.toJson(names)).commit()
        transaction.commitTransaction()

    def files_of(self, number: int) -> list[str]:
        """Return the paths of the files of the last append, whose number this is."""
        deep = "/".join("*" for _ in self._partitioned_by)
        found = self._files.matching(self._path, f"{deep}/{prefix_of(number)}*.parquet")
        return [entry.path for entry in found]

    def _created(self, columns: pa.Schema) -> Any:
        # Columns of folders last: who knows no names goes by the places of columns in files.
        others = [one for one in columns if one.name not in self._partitioned_by]
        filed = [columns.field(name) for name in self._partitioned_by]
        columns = pa.schema([*others, *filed])
        schema = self._iceberg.SchemaParser.fromJson(schema_json(columns))
        spec = self._iceberg.PartitionSpec.builderFor(schema)
        for name in self._partitioned_by:
            spec = spec.identity(name)
        properties = self._jvm.java.util.HashMap()
        for name, value in PROPERTIES.items():
            properties.put(name, value)
        return self._tables.create(schema, spec.build(), properties, self._path)

    def _data_file(self, table: Any, names: Any, entry: FileEntry) -> Any:
        iceberg = self._iceberg
        file = table.io().newInputFile(entry.path)
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(
            file, iceberg.MetricsConfig.forTable(table), names
        )
        folders = entry.path.split("/")[-1 - len(self._partitioned_by) : -1]
        return (
            iceberg.DataFiles.builder(table.spec())
            .withPath(entry.path)
            .withFormat("parquet")
            .withFileSizeInBytes(entry.size)
            .withMetrics(metrics)
            .withPartitionPath("/".join(folders))
            .build()
        )


def schema_json(columns: pa.Schema) -> str:
    """Return the columns of a table as Iceberg writes them down."""
    ids = count(1)
    return json.dumps({"type": "struct", "schema-id": 0, "fields": _fields(columns, ids)})


def _fields(fields: Any, ids: count[int]) -> list[dict[str, Any]]:
    return [
        {"id": next(ids), "name": one.name, "required": False, "type": _type(one.type, ids)}
        for one in fields
    ]


def _type(kind: pa.DataType, ids: count[int]) -> Any:
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": _fields(kind, ids)}
    if pa.types.is_list(kind):
        inside = {"element-id": next(ids), "element-required": False}
        return {"type": "list", **inside, "element": _type(kind.value_type, ids)}
    if pa.types.is_map(kind):
        inside = {"key-id": next(ids), "value-id": next(ids), "value-required": False}
        key, value = _type(kind.key_type, ids), _type(kind.item_type, ids)
        return {"type": "map", **inside, "key": key, "value": value}
    if kind not in _SIMPLE:
        raise InvariantViolated(f"a table of a pipeline has a column of the type {kind}")
    return _SIMPLE[kind]
