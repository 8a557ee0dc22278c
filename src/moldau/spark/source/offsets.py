"""The offset of a stream: where each partition stands, whose it is, and where the stream began.

Spark keeps offsets as text and compares them as text, so the same offset has to be the same text
each time: topics and partitions stand in order. To Spark it is an object of JSON:

    {"moldau": 1, "topics": {"clicks": {"id": "6fYm...", "offsets": {"0": 23, "1": 40}}}}

Two things in it are not in that of Spark's own Kafka connector.

The id of each topic. A topic that was deleted and created again has offsets that look like those of
the old one, and a query would go on somewhere in the middle of it without a word.

Where the stream began. A query that begins at "latest" finds out once where that is. Spark asks
again whenever its first batch is run again after a crash, and keeps neither answer; the answer is
another one by then, and what was written in between would be lost. The reader is told neither the
query's name nor its checkpoint, so that it could not keep the answer anywhere under a name of its
own. But it makes the offset that ends the first batch, and Spark writes this one down before the
batch is run. So that offset also holds where its batch began (`began`), and the beginning that is
looked up is marked as such (`initial`): whoever is given a marked one reads from where the end of
the batch says. What Spark's checkpoint has kept is kept with it, copied with it and deleted with
it.

The plain form of Spark's own connector, `{"clicks": {"0": 23}}`, is understood too: a query moves
with its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from moldau.base.errors import UserError
from moldau.client.records import TopicPartition

_MARK: Final = "moldau"
_VERSION: Final = 1

Positions = Mapping[TopicPartition, int]
"""For each partition the offset of the next record to read."""


class StreamOffset(NamedTuple):
    """Where a stream stands."""

    positions: Positions
    ids: Mapping[str, str]
    """The id of each topic in hexadecimal digits, of those whose broker tells it."""
    initial: bool = False
    """Whether it was looked up as the beginning, and so is not what the stream began with."""
    began: Positions | None = None
    """With the end of the first batch: where that began."""

    def to_json(self) -> dict[str, Any]:
        """Write it as Spark keeps it."""
        told: dict[str, Any] = {_MARK: _VERSION, "topics": self._topics()}
        if self.initial:
            told["initial"] = True
        if self.began is not None:
            told["began"] = _by_topic(self.began)
        return told

    def _topics(self) -> dict[str, Any]:
        return {
            topic: {"id": self.ids.get(topic, ""), "offsets": offsets}
            for topic, offsets in _by_topic(self.positions).items()
        }

    @classmethod
    def from_json(cls, told: Any) -> StreamOffset:
        """Read what Spark has kept; UserError if it is no offset."""
        try:
            if told.get(_MARK) == _VERSION:
                return cls._from_own(told)
            if isinstance(told.get(_MARK), int):
                raise UserError(
                    f"the checkpoint has offsets of version {told[_MARK]}, and this Moldau reads"
                    f" version {_VERSION}: use the one that wrote them, or a newer one"
                )
            return cls(_positions(told), {})
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UserError(f"the checkpoint has an offset that is none: {told!r}") from None

    @classmethod
    def _from_own(cls, told: Mapping[str, Any]) -> StreamOffset:
        topics = told["topics"]
        began = told.get("began")
        return cls(
            _positions({topic: kept["offsets"] for topic, kept in topics.items()}),
            {topic: kept["id"] for topic, kept in topics.items() if kept["id"]},
            told.get("initial", False),
            None if began is None else _positions(began),
        )

    def beginning(self, end: StreamOffset) -> StreamOffset:
        """Return where the batch up to an end begins, this being what Spark takes for it."""
        if self.initial and end.began is not None:
            return StreamOffset(end.began, end.ids)
        return self


def _by_topic(positions: Positions) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(positions):
        topics.setdefault(topic, {})[str(partition)] = positions[TopicPartition(topic, partition)]
    return topics


def _positions(topics: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in topics.items()
        for partition, offset in offsets.items()
    }
