"""The offsets that the groups of one shard have committed, as the records of its log add up to.

An offset committed in a transaction waits until the transaction's marker stands in the partition;
then it is taken over or dropped. Where both kinds meet, the commit that stands later in the log
wins, whenever its transaction ends: a plain commit, or one of another transaction that was taken
over, supersedes those that stood in the log before it. A superseded offset still makes its
partition unstable (KIP-447), since its transaction is still open, but it is never taken over.

Values are kept as they stand in the log and decoded when somebody asks: a shard may hold hundreds
of thousands, and most are replaced before they are ever read. One that is damaged is not taken: the
offset that was committed before it stays.

Only `replay` and the marker of a transaction change this state, so that a restart finds it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile
from types import MappingProxyType
from typing import Final, NamedTuple

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.coordination.groups.records import OffsetKey, check_offset, decode_offset

_NO_TOPICS: Final[Mapping[str, dict[int, bytes]]] = MappingProxyType({})


class _Place(NamedTuple):
    """Which partition for which group."""

    group: str
    topic: str
    partition: int


_Waiting = dict[int, bytes | None]
"""Offsets of one partition by producer, in the order of the log; None once superseded."""


class OffsetStore:
    """Committed offsets by group, topic and partition, and those that wait for a transaction."""

    __slots__ = ("_committed", "_groups_of", "_transactions", "_waiting")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, bytes]]] = {}
        self._waiting: dict[str, dict[str, dict[int, _Waiting]]] = {}
        self._transactions: dict[int, dict[_Place, None]] = {}
        """Where the open transaction of a producer has offsets that wait."""
        self._groups_of: dict[str, dict[str, None]] = {}
        """The groups that have offsets of a topic, waiting ones included: a topic that is deleted
        concerns few of them."""

    # Replaying

    def replay(self, key: OffsetKey, value: bytes | None, producer_id: int | None) -> None:
        """Take one record: an offset, one in a transaction, or a tombstone."""
        if value is None:
            self._forget(key)
            return
        check_offset(value)
        if producer_id is not None:
            self._wait(key, value, producer_id)
            return
        self.commit(key.group, key.topic, key.partition, value)

    def commit(self, group: str, topic: str, partition: int, value: bytes) -> None:
        """Take an offset outside of any transaction, which `check_offset` has found whole."""
        try:
            self._committed[group][topic][partition] = value
        except KeyError:
            self._keep(group, topic, partition, value)
        if group in self._waiting:
            waiting = self._waiting_at(_Place(group, topic, partition)) or {}
            for earlier in waiting:
                waiting[earlier] = None

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take over, or drop, what a producer's transaction has committed."""
        for place in self._transactions.pop(producer_id, ()):
            waiting = self._waiting[place.group][place.topic][place.partition]
            value = waiting[producer_id]
            if committed and value is not None:
                self._keep(*place, value)
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
            self._note_group(group, topic)
        else:
            partitions[partition] = value

    def _wait(self, key: OffsetKey, value: bytes, producer_id: int) -> None:
        place = _Place(key.group, key.topic, key.partition)
        topics = self._waiting.setdefault(place.group, {})
        waiting = topics.setdefault(place.topic, {}).setdefault(place.partition, {})
        waiting.pop(producer_id, None)  # what it commits now stands later in the log
        waiting[producer_id] = value
        self._transactions.setdefault(producer_id, {})[place] = None
        self._note_group(place.group, place.topic)

    def _forget(self, key: OffsetKey) -> None:
        place = _Place(key.group, key.topic, key.partition)
        topics = self._committed.get(place.group, {})
        partitions = topics.get(place.topic, {})
        if partitions.pop(place.partition, None) is not None and not partitions:
            del topics[place.topic]
            if not topics:
                del self._committed[place.group]
            self._forget_group(place.group, place.topic)
        waiting = self._waiting_at(place)
        if waiting is not None:
            for producer_id in waiting:
                del self._transactions[producer_id][place]
            self._nothing_waits(place)

    def _waiting_at(self, place: _Place) -> _Waiting | None:
        return self._waiting.get(place.group, {}).get(place.topic, {}).get(place.partition)

    def _nothing_waits(self, place: _Place) -> None:
        topics = self._waiting[place.group]
        partitions = topics[place.topic]
        del partitions[place.partition]
        if not partitions:
            del topics[place.topic]
            if not topics:
                del self._waiting[place.group]
            self._forget_group(place.group, place.topic)

    def _note_group(self, group: str, topic: str) -> None:
        groups = self._groups_of.get(topic)
        if groups is None:
            self._groups_of[topic] = {group: None}
        else:
            groups[group] = None

    def _forget_group(self, group: str, topic: str) -> None:
        """Note that a group may have had its last offset of a topic."""
        if topic in self._committed.get(group, ()) or topic in self._waiting.get(group, ()):
            return
        groups = self._groups_of[topic]
        del groups[group]
        if not groups:
            del self._groups_of[topic]

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
        topics = self._waiting.get(group)
        return topics is not None and partition in topics.get(topic, ())

    def unstable_topics(self, group: str) -> Mapping[str, Collection[int]]:
        """Return, by topic, the partitions whose offset an open transaction may still change."""
        return self._waiting.get(group, _NO_TOPICS)

    def has(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether there is an offset, or one that waits."""
        return self.value(group, topic, partition) is not None or self.is_unstable(
            group, topic, partition
        )

    def holds(self, group: str) -> bool:
        """Tell whether a group has offsets here, waiting ones included."""
        return group in self._committed or group in self._waiting

    def keys(self, group: str) -> Iterator[OffsetKey]:
        """Walk over a group's partitions that have an offset, or one that waits."""
        topics = self.topics(group)
        for topic, partitions in topics.items():
            for partition in partitions:
                yield OffsetKey(group, topic, partition)
        for topic, waiting in self._waiting.get(group, {}).items():
            for partition in waiting:
                if partition not in topics.get(topic, ()):
                    yield OffsetKey(group, topic, partition)

    def has_topic(self, topic: str) -> bool:
        """Tell whether any group has an offset of a topic, or one that waits."""
        return topic in self._groups_of

    def keys_of_topic(self, topic: str, topic_id: bytes) -> Iterator[OffsetKey | None]:
        """Walk over all partitions of a topic that have an offset, or one that waits: all groups'.

        For one that was committed to another topic of the same name there is None, so that every
        step is as short as the others. What changes under way is seen as it is then.
        """
        for group in tuple(self._groups_of.get(topic, ())):
            committed = self.topics(group).get(topic, ())
            waiting = self._waiting.get(group, {}).get(topic, ())
            for partition in dict.fromkeys((*committed, *waiting)):
                place = _Place(group, topic, partition)
                yield OffsetKey(*place) if self._may_belong(place, topic_id) else None

    def _may_belong(self, place: _Place, topic_id: bytes) -> bool:
        """Tell whether an offset, or one that waits, is of this topic as far as one can know."""
        waiting = self._waiting_at(place) or {}
        return any(
            value is not None and _is_of(value, topic_id)
            for value in (self.value(*place), *waiting.values())
        )


def _is_of(value: bytes, topic_id: bytes) -> bool:
    """Tell whether an offset is one of this topic; older records name none."""
    return decode_offset(value).topic_id in (topic_id, ZERO_TOPIC_ID)
