"""The files of a table's versions.

Below its folder there are

    NUMBER-*.parquet            the base that version NUMBER has written
    _changes/NUMBER-*.parquet   changes that it has written
    _versions/NUMBER            which of them are the table: the commit
    _spark_metadata/N.compact   the base once more, in the form of Spark's own streaming sink, so
                                that `spark.read.parquet` of the folder gives the last merge

Who reads goes by a version. Files that a version has no more are kept for a while for readers of
older ones.
"""

from __future__ import annotations

import uuid
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.reading import TRIES, VERSIONS
from moldau.spark.pipelines.changelog.rows import KEY
from moldau.spark.pipelines.changelog.version import Part, Version, newest, without_old
from moldau.spark.pipelines.storage import Files
from moldau.spark.pipelines.tables.appending import STAGING, file_count, parquet_bytes
from moldau.spark.pipelines.tables.committed import COMPACT, LOG
from moldau.spark.pipelines.tables.file_log import log_text

CHANGES: Final = "_changes"

LOGS_KEPT: Final = 2
"""From two entries Spark finds out how far apart compact ones are."""

VERSIONS_KEPT: Final = 20
"""Readers take the newest; the others are for people who want to see what happened."""
FILES_KEPT_MS: Final = 10 * 60 * 1000
"""How long a file stays that no version has any more: as long as queries of one version take."""


class Store:
    """The files of one table, with one writer. Who makes it holds the lock of its folder."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files

    def newest(self) -> Version:
        """Return the newest version; one without anything if there is none yet."""
        for _ in range(TRIES):
            number = newest(self._files.names(f"{self.path}/{VERSIONS}"))
            if number is None:
                return Version()
            if (text := self._files.read(self._place(number))) is not None:
                return Version.from_json(text, self._place(number))
        raise UserError(f"{self.path}/{VERSIONS} changes all the time: nothing can be read there")

    def clear_up(self, version: Version) -> None:
        """Remove what a crash has left: files that no version has."""
        self._files.remove(f"{self.path}/{STAGING}")
        known = version.names()
        for folder in ("", f"{CHANGES}/"):
            for name in self._files.names(f"{self.path}/{folder}"):
                if name.endswith(".parquet") and f"{folder}{name}" not in known:
                    self._files.remove(f"{self.path}/{folder}{name}")

    def write_changes(self, version: Version, rows: pa.Table | DataFrame, rows_max: int) -> Part:
        """Write changes, one of a key, for the version that is to follow.

        No version has them yet. `rows_max` is how many there may be.
        """
        prefix = f"{CHANGES}/{version.number + 1:010d}"
        if isinstance(rows, DataFrame):
            return self._have_written(rows, prefix, rows_max)
        name = f"{prefix}-0.parquet"
        self._files.write(f"{self.path}/{name}", parquet_bytes(rows))
        return Part((name,), rows.num_rows)

    def write_base(self, version: Version, rows: DataFrame, rows_max: int) -> Part:
        """Write a base for the version that is to follow."""
        return self._have_written(rows, f"{version.number + 1:010d}", rows_max)

    def _have_written(self, rows: DataFrame, prefix: str, rows_max: int) -> Part:
        """Have Spark write rows aside, and move the files to where they belong.

        Each is sorted, so that a key is found without reading all of it.
        """
        staging = f"{self.path}/{STAGING}/{uuid.uuid4().hex}"
        seen = Observation()
        rows = rows.repartition(file_count(rows_max), KEY).sortWithinPartitions(KEY)
        rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.parquet(staging)
        staged = [one for one in self._files.below(staging) if one.name.endswith(".parquet")]
        names = tuple(f"{prefix}-{place}.parquet" for place in range(len(staged)))
        for one, name in zip(staged, names, strict=True):
            self._files.move(one.path, f"{self.path}/{name}")
        self._files.remove(staging)
        return Part(names, seen.get["rows"])

    def commit(self, version: Version, now_ms: int) -> Version:
        """Make a version the newest; return it as it was written."""
        version, old = without_old(version, now_ms - FILES_KEPT_MS)
        for name in old:
            self._files.remove(f"{self.path}/{name}")
        self._files.write(self._place(version.number), version.to_json())
        self._files.remove(self._place(version.number - VERSIONS_KEPT))
        return version

    def show_base(self, version: Version) -> None:
        """Have Spark's own readers see the base of a version, if they do not yet.

        The log has nothing but compact entries, each of which holds all there is.
        """
        log, number = f"{self.path}/{LOG}", version.merges - 1
        if number < 0 or self._files.exists(f"{log}/{number}{COMPACT}"):
            return
        entries = [self._files.entry(f"{self.path}/{name}") for name in version.base.names]
        self._files.write(f"{log}/{number}{COMPACT}", log_text(entries))
        self._files.remove(f"{log}/{number - LOGS_KEPT}{COMPACT}")

    def _place(self, number: int) -> str:
        return f"{self.path}/{VERSIONS}/{number}"
