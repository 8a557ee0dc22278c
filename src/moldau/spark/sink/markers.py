"""The marker: what a query has published last, written in the same transaction as its rows.

A compacted topic holds one record per query: its id and the number of the batch. Where the rows of
a batch can be read, so can its marker, and the other way round; so the marker says whether a batch
is there, whatever became of the driver that wrote it.

Reading it has to be certain: a marker that was overlooked is a batch written twice. The reader has
taken the transactional id before, so no transaction of its own query is open any more; but one of
another query that shares the partition may be, and hides what lies behind it. So it is read up to
the end that the partition has now, however long such a transaction takes to end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import UserError
from moldau.client.admin import Admin, OffsetSpec
from moldau.client.consumer import Consumer
from moldau.client.records import TopicPartition
from moldau.engine.murmur2 import partition_for_key
from moldau.spark.errors import WriteInterrupted

_FORM: Final = 1
"""The form of a marker's value; a later one that this version cannot read is refused."""

_POLL_MS: Final = 20
"""How long one look for more waits: the last records of a partition are often none for users, and
only the position tells that they were passed."""


class Marker(NamedTuple):
    """What was published last."""

    batch_id: int
    row_count: int

    def written(self) -> bytes:
        """Return it as the value of a record."""
        content = {"form": _FORM, "batch": self.batch_id, "rows": self.row_count}
        return json.dumps(content, sort_keys=True).encode()

    @classmethod
    def read(cls, value: bytes) -> Marker:
        """Read the value of a record; UserError if it is none that we know."""
        try:
            content: Mapping[str, Any] = json.loads(value)
            if content["form"] == _FORM:
                return cls(int(content["batch"]), int(content["rows"]))
        except (ValueError, TypeError, KeyError):
            pass
        raise UserError(
            f"the marker {value[:100]!r} is none that this version of Moldau can read: use the one"
            " that wrote it, or newer"
        )


class Verdict(Enum):
    """What to do with a batch."""

    PUBLISH = auto()
    DONE = auto()
    """It is there already."""
    REFUSE = auto()
    """A later one is there: the checkpoint is older than the topic."""


def decide(last: Marker | None, batch_id: int) -> Verdict:
    """Decide on a batch by what was published last.

    Numbers may be left out: batches without rows are not marked.
    """
    if last is None or batch_id > last.batch_id:
        return Verdict.PUBLISH
    return Verdict.DONE if batch_id == last.batch_id else Verdict.REFUSE


def marker_place(topic: str, writer: str, partition_count: int) -> TopicPartition:
    """Return the partition in which the markers of a query are."""
    return TopicPartition(topic, partition_for_key(writer.encode(), partition_count))


def read_marker(
    admin: Admin,
    consumer: Consumer[bytes, bytes],
    place: TopicPartition,
    key: str,
    clock: Clock,
    patience_s: float,
) -> Marker | None:
    """Read what was published last under a key; None if nothing was.

    The consumer reads committed records; it is assigned the partition.
    """
    end = admin.list_offsets({place: OffsetSpec.LATEST})[place].offset or 0
    deadline = clock.monotonic() + patience_s
    wanted, found = key.encode(), None
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    while consumer.position(place) < end:
        for record in consumer.poll(timeout_ms=_POLL_MS):
            if record.key == wanted:
                found = record.value
        if clock.monotonic() > deadline:
            raise WriteInterrupted(
                f"what {key} has published last cannot be read: a transaction of another query has"
                f" been open in {place} for {patience_s:g} s. Try again when it has ended (moldau"
                " txn list shows it)"
            )
    return None if found is None else Marker.read(found)
