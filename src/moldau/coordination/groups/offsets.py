"""The offsets that the groups of one shard have committed.

Only records (`replay`, `commit`) and transaction markers change this state, so a restart finds the
same state in the log.

An offset committed in a transaction is pending until the transaction's marker is in the partition.
Then it is applied or dropped. If several commits are for one partition, the one that is later in
the log wins, no matter when its transaction ends. A plain commit, or an applied one of a
transaction, supersedes the pending offsets before it in the log. A superseded offset is never
applied. It still makes its partition unstable (KIP-447), because its transaction is open.

A marker ends a transaction in one turn of the loop, and the transaction may have tens of thousands
of offsets. Therefore pending offsets are kept by topic and producer, and one `dict.update` applies
all offsets of a topic. Offsets are compared one by one only if there was a commit to the topic
since the transaction's first offset of it. For this comparison each pending offset has a sequence
number.

Values are kept encoded and are decoded when they are read: a shard may hold hundreds of thousands,
and most are replaced before anybody reads them. A damaged value is refused, and the offset that was
committed before it stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.base.limits import PENDING_OFFSETS_PER_PRODUCER, PENDING_TOPICS_PER_PRODUCER
from moldau.coordination.groups.records import OffsetKey, check_offset, decode_offset

_NO_TOPICS: Final[Mapping[str, dict[int, bytes]]] = MappingProxyType({})


class _Pending:
    """The offsets of one open transaction for one topic of one group."""

    __slots__ = ("first", "last", "sequences", "values")

    def __init__(self, first: int) -> None:
        self.first = self.last = first
        """The sequence numbers of its first and its last offset."""
        self.values: dict[int, bytes] = {}
        self.sequences: dict[int, int] = {}
        """By partition. A larger number is later in the log."""


class _PendingTopic:
    """All pending offsets of one topic of one group."""

    __slots__ = ("_partitions", "decided", "last_decided", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, _Pending] = {}
        self.decided: dict[int, int] = {}
        """By partition, the last commit that counts. It supersedes pending ones before it."""
        self.last_decided = 0
        """The largest sequence number in `decided`, or more."""
        self._partitions: set[int] | None = None
        """A cache: the partitions of all producers. Cleared when a producer's transaction ends."""

    def add(self, producer_id: int, partition: int, value: bytes, sequence: int) -> _Pending:
        """Add a pending offset of a producer."""
        pending = self.producers.get(producer_id)
        if pending is None:
            pending = self.producers[producer_id] = _Pending(sequence)
        pending.values[partition] = value
        pending.sequences[partition] = pending.last = sequence
        if self._partitions is not None:
            self._partitions.add(partition)
        return pending

    def remove(self, producer_id: int) -> None:
        """Forget the offsets of a producer."""
        del self.producers[producer_id]
        self._partitions = None

    def forget(self, partition: int) -> list[int]:
        """Forget the pending offsets of a partition; return their producers."""
        partitions = self.partitions()
        if partition not in partitions:
            return []
        partitions.discard(partition)
        found = [one for one, pending in self.producers.items() if partition in pending.values]
        for producer_id in found:
            pending = self.producers[producer_id]
            del pending.values[partition], pending.sequences[partition]
        return found

    def is_superseded(self, pending: _Pending, partition: int) -> bool:
        """Tell whether a later commit counts in place of a pending offset."""
        return pending.sequences[partition] <= self.decided.get(partition, 0)

    def take(self, pending: _Pending) -> dict[int, bytes]:
        """Return the offsets of a committed transaction that are not superseded.

        From now on they supersede those of other transactions before them in the log.
        """
        values, sequences, decided = pending.values, pending.sequences, self.decided
        if pending.first <= self.last_decided:
            for partition in [
                partition
                for partition, sequence in sequences.items()
                if sequence <= decided.get(partition, 0)
            ]:
                del values[partition], sequences[partition]
        if len(self.producers) > 1:
            decided.update(sequences)
            self.last_decided = max(self.last_decided, pending.last)
        return values

    def partitions(self) -> set[int]:
        """Return the partitions with pending offsets. The set is live: it changes with them."""
        if self._partitions is None:
            self._partitions = set().union(*[one.values for one in self.producers.values()])
        return self._partitions


class _OpenTransaction:
    """The pending offsets of a producer's transaction, and their number."""

    __slots__ = ("count", "topics")

    def __init__(self) -> None:
        self.topics: dict[tuple[str, str], _Pending] = {}
        """By group and topic."""
        self.count = 0


class OffsetStore:
    """Committed offsets by group, topic and partition, and pending ones of transactions."""

    __slots__ = ("_committed", "_groups_of", "_pending", "_sequence", "_transactions")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, bytes]]] = {}
        self._pending: dict[str, dict[str, _PendingTopic]] = {}
        self._transactions: dict[int, _OpenTransaction] = {}
        self._sequence = 0
        """Numbers pending offsets, and commits that supersede them, in the order of the log."""
        self._groups_of: dict[str, dict[str, None]] = {}
        """The groups with committed or pending offsets of a topic, for the deletion of a topic."""

    # Replaying

    def replay(self, key: OffsetKey, value: bytes | None, producer_id: int | None) -> None:
        """Take one record into the state: an offset, one of a transaction, or a tombstone."""
        if value is None:
            self._forget(key)
            return
        check_offset(value)
        if producer_id is not None:
            self._wait(key, value, producer_id)
            return
        self.commit(key.group, key.topic, key.partition, value)

    def commit(self, group: str, topic: str, partition: int, value: bytes) -> None:
        """Take an offset outside of any transaction. Call `check_offset` first."""
        try:
            self._committed[group][topic][partition] = value
        except KeyError:
            self._keep(group, topic, partition, value)
        if group in self._pending:
            waiting = self._pending[group].get(topic)
            if waiting is not None:
                self._sequence += 1
                waiting.decided[partition] = waiting.last_decided = self._sequence

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the pending offsets of a producer if its transaction committed; else drop them."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return
        for (group, topic), pending in transaction.topics.items():
            waiting = self._pending[group][topic]
            if committed:
                self._take_over(group, topic, waiting.take(pending))
            self._nothing_waits(group, topic, producer_id)

    def _take_over(self, group: str, topic: str, taken: dict[int, bytes]) -> None:
        """Apply offsets. The store keeps the dictionary."""
        if not taken:
            return
        topics = self._committed.get(group)
        if topics is None:
            topics = self._committed[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            topics[topic] = taken
        else:
            partitions.update(taken)

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
        group, topic, partition = key.group, key.topic, key.partition
        self._sequence += 1
        waiting = self._pending.setdefault(group, {}).get(topic)
        if waiting is None:
            waiting = self._pending[group][topic] = _PendingTopic()
            self._note_group(group, topic)
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            transaction = self._transactions[producer_id] = _OpenTransaction()
        known = transaction.topics.get((group, topic))
        if known is None or partition not in known.values:
            transaction.count += 1
        pending = waiting.add(producer_id, partition, value, self._sequence)
        if known is None:
            transaction.topics[group, topic] = pending

    def _forget(self, key: OffsetKey) -> None:
        group, topic, partition = key.group, key.topic, key.partition
        topics = self._committed.get(group, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is not None and not partitions:
            del topics[topic]
            if not topics:
                del self._committed[group]
            self._forget_group(group, topic)
        waiting = self._pending.get(group, {}).get(topic)
        if waiting is None:
            return
        for producer_id in waiting.forget(partition):
            transaction = self._transactions[producer_id]
            transaction.count -= 1
            if not waiting.producers[producer_id].values:
                del transaction.topics[group, topic]
                if not transaction.topics:
                    del self._transactions[producer_id]
                self._nothing_waits(group, topic, producer_id)

    def _nothing_waits(self, group: str, topic: str, producer_id: int) -> None:
        """Forget that a producer has pending offsets of this topic."""
        topics = self._pending[group]
        waiting = topics[topic]
        waiting.remove(producer_id)
        if not waiting.producers:
            del topics[topic]
            if not topics:
                del self._pending[group]
            self._forget_group(group, topic)

    def _note_group(self, group: str, topic: str) -> None:
        groups = self._groups_of.get(topic)
        if groups is None:
            self._groups_of[topic] = {group: None}
        else:
            groups[group] = None

    def _forget_group(self, group: str, topic: str) -> None:
        """Forget that a group has offsets of a topic, unless it still has some."""
        if topic in self._committed.get(group, ()) or topic in self._pending.get(group, ()):
            return
        groups = self._groups_of[topic]
        del groups[group]
        if not groups:
            del self._groups_of[topic]

    # Reading

    def count(self) -> int:
        """Count committed offsets. Another thread may call this."""
        return sum(
            len(partitions)
            for topics in tuple(self._committed.values())
            for partitions in tuple(topics.values())
        )

    def counts(self) -> Iterator[tuple[str, int]]:
        """Count the committed offsets of each group. Another thread may call this."""
        for group, topics in tuple(self._committed.items()):
            yield group, sum(map(len, tuple(topics.values())))

    def values(self, group: str) -> Iterator[tuple[str, int, bytes]]:
        """Walk over a group's committed offsets, encoded. Another thread may call this."""
        for topic, partitions in tuple(self.topics(group).items()):
            for partition, value in tuple(partitions.items()):
                yield topic, partition, value

    def value(self, group: str, topic: str, partition: int) -> bytes | None:
        """Return a committed offset, encoded."""
        return self.topics(group).get(topic, {}).get(partition)

    def topics(self, group: str) -> Mapping[str, Mapping[int, bytes]]:
        """Return all committed offsets of a group, encoded."""
        return self._committed.get(group, _NO_TOPICS)

    def is_unstable(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether an open transaction may still change this offset."""
        waiting = self._pending.get(group, {}).get(topic)
        return waiting is not None and partition in waiting.partitions()

    def unstable_topics(self, group: str) -> Mapping[str, Collection[int]]:
        """Return, by topic, the partitions whose offset an open transaction may still change."""
        topics = self._pending.get(group, {})
        return {topic: waiting.partitions() for topic, waiting in topics.items()}

    def has(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether there is a committed or a pending offset."""
        return self.value(group, topic, partition) is not None or self.is_unstable(
            group, topic, partition
        )

    def holds(self, group: str) -> bool:
        """Tell whether a group has committed or pending offsets."""
        return group in self._committed or group in self._pending

    def has_room(
        self, producer_id: int, group: str, topics: Iterable[tuple[str, Sequence[int]]]
    ) -> bool:
        """Tell whether a producer's transaction may have these pending offsets too."""
        transaction = self._transactions.get(producer_id) or _OpenTransaction()
        offset_count, topic_count = transaction.count, len(transaction.topics)
        for topic, partitions in topics:
            pending = transaction.topics.get((group, topic))
            if pending is None:
                topic_count += 1
                offset_count += len(partitions)
            else:
                offset_count += sum(partition not in pending.values for partition in partitions)
        return (
            offset_count <= PENDING_OFFSETS_PER_PRODUCER
            and topic_count <= PENDING_TOPICS_PER_PRODUCER
        )

    def pending(self) -> dict[tuple[str, str, int], dict[int, bytes | None]]:
        """Return pending offsets, by producer in the order of the log; None if superseded.

        For checks that compare two stores.
        """
        found: dict[tuple[str, str, int], list[tuple[int, int, bytes | None]]] = {}
        for group, topics in self._pending.items():
            for topic, waiting in topics.items():
                for producer_id, one in waiting.producers.items():
                    for partition, value in one.values.items():
                        left = None if waiting.is_superseded(one, partition) else value
                        sequence = one.sequences[partition]
                        commits = found.setdefault((group, topic, partition), [])
                        commits.append((sequence, producer_id, left))
        return {
            key: {producer_id: value for _, producer_id, value in sorted(commits)}
            for key, commits in found.items()
        }

    def keys(self, group: str) -> Iterator[OffsetKey]:
        """Walk over a group's partitions that have a committed or a pending offset."""
        topics = self.topics(group)
        for topic, partitions in topics.items():
            for partition in partitions:
                yield OffsetKey(group, topic, partition)
        for topic, waiting in self._pending.get(group, {}).items():
            for partition in tuple(waiting.partitions()):
                if partition not in topics.get(topic, ()):
                    yield OffsetKey(group, topic, partition)

    def has_topic(self, topic: str) -> bool:
        """Tell whether any group has a committed or a pending offset of a topic."""
        return topic in self._groups_of

    def keys_of_topic(self, topic: str, topic_id: bytes) -> Iterator[OffsetKey | None]:
        """Walk over a topic's partitions with a committed or pending offset, in all groups.

        Yields None for an offset of another topic with the same name, so that each step is short.
        The state may change between two steps; the walk then sees the new state.
        """
        for group in tuple(self._groups_of.get(topic, ())):
            committed = self.topics(group).get(topic, ())
            waiting = self._pending.get(group, {}).get(topic)
            pending = set() if waiting is None else waiting.partitions()
            for partition in dict.fromkeys((*committed, *pending)):
                key = OffsetKey(group, topic, partition)
                yield key if self._may_belong(key, topic_id) else None

    def _may_belong(self, key: OffsetKey, topic_id: bytes) -> bool:
        """Tell whether a committed or pending offset may be of the topic with this id."""
        value = self.value(key.group, key.topic, key.partition)
        if value is not None and _is_of(value, topic_id):
            return True
        waiting = self._pending.get(key.group, {}).get(key.topic)
        return waiting is not None and any(
            _is_of(pending.values[key.partition], topic_id)
            for pending in waiting.producers.values()
            if key.partition in pending.values and not waiting.is_superseded(pending, key.partition)
        )


def _is_of(value: bytes, topic_id: bytes) -> bool:
    """Tell whether an offset may be of the topic with this id. Older records have no id."""
    return decode_offset(value).topic_id in (topic_id, ZERO_TOPIC_ID)
