"""The loop: batches one by one, and a version of the table after each.

Spark calls again with the same batch until `take` has returned once. Whatever of it was done before
a crash is either in a version, and then the batch is done, or in no version, and then it is cleared
up and done again; dead letters have their own numbers. That it is the same batch, and not another
one under its number, the ledger sees to.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from moldau.base.clock import Clock
from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.landing import Landing
from moldau.spark.pipelines.changelog.querying import frame_of, newest_changes
from moldau.spark.pipelines.changelog.reading import TABLE
from moldau.spark.pipelines.changelog.store import Store
from moldau.spark.pipelines.changelog.version import Merge, Version, due, merged
from moldau.spark.pipelines.stage import Stage


class Batches:
    """Takes batches."""

    def __init__(self, stage: Stage, clock: Clock) -> None:
        self._stage = stage
        self._clock = clock
        self._store = Store(stage.files, stage.places.table(TABLE))
        self._landing = Landing(self._store, stage.table("dead_letters"), stage.ratio("bad-ratio"))
        self._ratio = stage.ratio("merge-ratio") or 0.0
        self._ledger = stage.ledger()
        self._version: Version | None = None
        stage.report.totals = self._store.newest().totals._asdict()

    def take(self, records: DataFrame, number: int) -> None:
        """Handle a batch of records."""
        version = self._version or self._store.newest()
        _check(version, number)
        self._ledger.begin(number)
        self._clear_up(version)
        if version.batch < number:
            version = self._commit(self._landing.land(version, records))
        merge = due(version, self._ratio)
        if merge is not None:
            version = self._commit(self._merge(version, merge))
            self._store.show_base(version)
        self._stage.report.totals = version.totals._asdict()

    def _clear_up(self, version: Version) -> None:
        """Clear up after a crash, before the first batch.

        Not before it is known that the batch follows: where the newest version is gone, what looks
        like the files of a crash is its rows, and it has to find them if it is put back.
        """
        if self._version is None:
            self._store.clear_up(version)
            self._store.show_base(version)
            self._version = version

    def _commit(self, version: Version) -> Version:
        self._version = self._store.commit(version, self._clock.wall_ms())
        return self._version

    def _merge(self, version: Version, merge: Merge) -> Version:
        spark, path = self._stage.spark, self._store.path
        rows_max = sum(part.rows for part in merge.changes)
        if merge.into_base:
            rows_max += version.base.rows
            rows = frame_of(spark, path, version)
            part = self._store.write_base(version, rows, rows_max)
        else:
            rows = newest_changes(spark, path, merge.changes)
            part = self._store.write_changes(version, rows, rows_max)
        return merged(version, merge, part, self._clock.wall_ms())


def _check(version: Version, number: int) -> None:
    """Refuse a batch where the one before it is missing."""
    if version.batch < number - 1:
        raise UserError(
            f"the table has batches up to {version.batch}, and is to get {number}: part of it is"
            " missing, or it belongs to another checkpoint"
        )
