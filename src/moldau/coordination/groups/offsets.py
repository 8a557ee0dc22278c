"""The offsets that the groups of one shard have committed, as the records of its log add up to.

An offset committed in a transaction waits until the transaction's marker stands in the partition;
then it is taken over or dropped. Where both kinds meet, the commit that stands later in the log
wins, whenever its transaction ends: a plain commit, or one of another transaction that was taken
over, supersedes those that stood in the log before it. A superseded offset still makes its
partition unstable (KIP-447), since its transaction is still open, but it is never taken over.

Values are kept as they stand in the log and decoded when somebody asks: a shard may hold hundreds
of thousands, and most are replaced before they are ever read. One that turns out to be damaged is
reported to whoever asks for it, and replaced by the next commit.

Only `replay` and the marker of a transaction change this state, so that a restart finds it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile
from types import MappingProxyType
from typing import Final, NamedTuple

from moldau.base.errors import ProtocolError
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.coordination.groups.records import OffsetKey, check_offset_version, decode_offset

_NO_TOPICS: Final[Mapping[str, dict[int, bytes]]] = MappingProxyType({})


class _Place(NamedTuple):
    """Where a transaction has an offset that waits."""

    group: str
    topic: str
    partition: int


_Waiting = dict[int, bytes | None]
"""Offsets of one partition by producer, in the order of the log; None once superseded."""


class OffsetStore:
    """Committed offsets by group, topic and partition, and those that wait for a transaction."""

    __slots__ = ("_committed", "_transactions", "_waiting")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, bytes]]] = {}
        self._waiting: dict[str, dict[tuple[str, int], _Waiting]] = {}
        self._transactions: dict[int, dict[_Place, None]] = {}

    # Replaying

    def replay(self, key: OffsetKey, value: bytes | None, producer_id: int | None) -> None:
        """Take one record: an offset, one in a transaction, or a tombstone."""
        if value is None:
            self._forget(key)
            return
        check_offset_version(value)
        if producer_id is not None:
            self._wait(key, value, producer_id)
            return
        self._keep(key.group, key.topic, key.partition, value)
        if key.group in self._waiting:
            waiting = self._waiting[key.group].get((key.topic, key.partition), {})
            for earlier in waiting:
                waiting[earlier] = None

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take over, or drop, what a producer's transaction has committed."""
        for place in self._transactions.pop(producer_id, ()):
            group, topic, partition = place
            waiting = self._waiting[group][topic, partition]
            value = waiting[producer_id]
            if committed and value is not None:
                self._keep(group, topic, partition, value)
                for earlier in takewhile(producer_id.__ne__, waiting):
                    waiting[earlier] = None
            del waiting[producer_id]
            if not waiting:
                self._nothing_waits(place)

    def _keep(self, group: str, topic: str, partition: int, value: bytes) -> None:
        topics = self._committed.get(group)
        if topics is None:
            topics = self._committed[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            topics[topic] = {partition: value}
        else:
            partitions[partition] = value

    def _wait(self, key: OffsetKey, value: bytes, producer_id: int) -> None:
        place = _Place(key.group, key.topic, key.partition)
        waiting = self._waiting.setdefault(place.group, {}).setdefault(place[1:], {})
        waiting.pop(producer_id, None)  # what it commits now stands later in the log
        waiting[producer_id] = value
        self._transactions.setdefault(producer_id, {})[place] = None

    def _forget(self, key: OffsetKey) -> None:
        place = _Place(key.group, key.topic, key.partition)
        topics = self._committed.get(place.group, {})
        partitions = topics.get(place.topic, {})
        if partitions.pop(place.partition, None) is not None and not partitions:
            del topics[place.topic]
            if not topics:
                del self._committed[place.group]
        waiting = self._waiting.get(place.group, {}).get(place[1:])
        if waiting is not None:
            for producer_id in waiting:
                del self._transactions[producer_id][place]
            self._nothing_waits(place)

    def _nothing_waits(self, place: _Place) -> None:
        of_group = self._waiting[place.group]
        del of_group[place[1:]]
        if not of_group:
            del self._waiting[place.group]

    # Reading

    def count(self) -> int:
        """Count committed offsets; may be asked from another thread while they change."""
        return sum(
            len(partitions)
            for topics in tuple(self._committed.values())
            for partitions in tuple(topics.values())
        )

    def value(self, group: str, topic: str, partition: int) -> bytes | None:
        """Return a committed offset, encoded."""
        return self.topics(group).get(topic, {}).get(partition)

    def topics(self, group: str) -> Mapping[str, Mapping[int, bytes]]:
        """Return all committed offsets of a group, encoded."""
        return self._committed.get(group, _NO_TOPICS)

    def is_unstable(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether an open transaction may still change this offset."""
        return (topic, partition) in self._waiting.get(group, ())

    def has(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether there is an offset, or one that waits."""
        return self.value(group, topic, partition) is not None or self.is_unstable(
            group, topic, partition
        )

    def groups(self) -> Collection[str]:
        """Return the groups that have offsets here, waiting ones included."""
        return dict.fromkeys((*self._committed, *self._waiting))

    def holds(self, group: str) -> bool:
        """Tell whether a group has offsets here, waiting ones included."""
        return group in self._committed or group in self._waiting

    def keys(self, group: str) -> Iterator[OffsetKey]:
        """Walk over a group's partitions that have an offset, or one that waits."""
        topics = self.topics(group)
        for topic, partitions in topics.items():
            for partition in partitions:
                yield OffsetKey(group, topic, partition)
        for topic, partition in self._waiting.get(group, ()):
            if partition not in topics.get(topic, ()):
                yield OffsetKey(group, topic, partition)

    def keys_of_topic(self, topic: str, topic_id: bytes) -> Iterator[OffsetKey]:
        """Walk over the partitions of one topic, all groups', that have an offset or a waiting one.

        One that was committed to another topic of the same name is left out.
        """
        for group in self.groups():
            values: dict[int, list[bytes | None]] = {
                partition: [value] for partition, value in self.topics(group).get(topic, {}).items()
            }
            for (name, partition), waiting in self._waiting.get(group, {}).items():
                if name == topic:
                    values.setdefault(partition, []).extend(waiting.values())
            for partition, found in values.items():
                if any(value and _may_belong(value, topic_id) for value in found):
                    yield OffsetKey(group, topic, partition)


def _may_belong(value: bytes, topic_id: bytes) -> bool:
    """Tell whether an offset is one of this topic; older records, and damaged ones, name none."""
    try:
        return decode_offset(value).topic_id in (topic_id, ZERO_TOPIC_ID)
    except ProtocolError:
        return True
