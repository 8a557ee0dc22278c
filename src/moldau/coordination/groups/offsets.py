"""The offsets that the groups of one shard have committed, as the records of its log add up to.

An offset committed in a transaction waits until the transaction's marker stands in the partition;
then it is taken over or dropped. Where both kinds meet, the commit that stands later in the log
wins, whenever its transaction ends: a plain commit, or one of another transaction that was taken
over, supersedes those that stood in the log before it. A superseded offset still makes its
partition unstable (KIP-447), since its transaction is still open, but it is never taken over.

A marker ends a transaction in one turn of the loop, and the transaction may have tens of thousands
of offsets. Therefore pending offsets are kept by topic and producer, and one `dict.update` takes
all of a topic over. Offsets are compared one by one only if something was committed to the topic
since the transaction's first offset of it. For this, every pending offset has a sequence number.

Values are kept as they stand in the log and decoded when somebody asks: a shard may hold hundreds
of thousands, and most are replaced before they are ever read. One that is damaged is not taken: the
offset that was committed before it stays.

Only `replay` and the marker of a transaction change this state, so that a restart finds it again.
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
    """What one open transaction has committed for one topic of one group."""

    __slots__ = ("first", "last", "sequences", "values")

    def __init__(self, first: int) -> None:
        self.first = self.last = first
        """The sequence numbers of its first offset and of its last one."""
        self.values: dict[int, bytes] = {}
        self.sequences: dict[int, int] = {}
        """By partition, the order of the log: the larger one stands later."""


class _PendingTopic:
    """Everything that waits for one topic of one group."""

    __slots__ = ("_partitions", "decided", "last_decided", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, _Pending] = {}
        self.decided: dict[int, int] = {}
        """By partition, the last commit that counts: it supersedes what stands before it."""
        self.last_decided = 0
        """No sequence number of those is larger."""
        self._partitions: set[int] | None = None
        """Those of all producers, once somebody has asked, until a producer's end changes them."""

    def add(self, producer_id: int, partition: int, value: bytes, sequence: int) -> _Pending:
        """Take an offset of a producer that has some already, or of another one."""
        pending = self.producers.get(producer_id)
        if pending is None:
            pending = self.producers[producer_id] = _Pending(sequence)
        pending.values[partition] = value
        pending.sequences[partition] = pending.last = sequence
        if self._partitions is not None:
            self._partitions.add(partition)
        return pending

    def remove(self, producer_id: int) -> None:
        """Forget a producer."""
        del self.producers[producer_id]
        self._partitions = None

    def forget(self, partition: int) -> list[int]:
        """Forget what waits for a partition; return whose offsets it was."""
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
        """Tell whether a pending offset will not be taken over."""
        return pending.sequences[partition] <= self.decided.get(partition, 0)

    def take(self, pending: _Pending) -> dict[int, bytes]:
        """Return the offsets of a transaction that nothing has superseded.

        From now on they supersede those of other transactions that stand before them.
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
        """Return the partitions for which anything waits; the set changes with them."""
        if self._partitions is None:
            self._partitions = set().union(*[one.values for one in self.producers.values()])
        return self._partitions


class _OpenTransaction:
    """Where a producer's transaction has pending offsets, and how many."""

    __slots__ = ("count", "topics")

    def __init__(self) -> None:
        self.topics: dict[tuple[str, str], _Pending] = {}
        """By group and topic."""
        self.count = 0


class OffsetStore:
    """Committed offsets by group, topic and partition, and those that wait for a transaction."""

    __slots__ = ("_committed", "_groups_of", "_pending", "_sequence", "_transactions")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, bytes]]] = {}
        self._pending: dict[str, dict[str, _PendingTopic]] = {}
        self._transactions: dict[int, _OpenTransaction] = {}
        self._sequence = 0
        """Counts pending offsets, and commits that supersede them, in the order of the log."""
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
        if group in self._pending:
            waiting = self._pending[group].get(topic)
            if waiting is not None:
                self._sequence += 1
                waiting.decided[partition] = waiting.last_decided = self._sequence

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take over, or drop, what a producer's transaction has committed."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return
        for (group, topic), pending in transaction.topics.items():
            waiting = self._pending[group][topic]
            if committed:
                self._take_over(group, topic, waiting.take(pending))
            self._nothing_waits(group, topic, producer_id)

    def _take_over(self, group: str, topic: str, taken: dict[int, bytes]) -> None:
        """Let offsets count; the dictionary is the store's from now on."""
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
        """Note that a producer has no pending offset of this topic any more."""
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
        """Note that a group may have had its last offset of a topic."""
        if topic in self._committed.get(group, ()) or topic in self._pending.get(group, ()):
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
        waiting = self._pending.get(group, {}).get(topic)
        return waiting is not None and partition in waiting.partitions()

    def unstable_topics(self, group: str) -> Mapping[str, Collection[int]]:
        """Return, by topic, the partitions whose offset an open transaction may still change."""
        topics = self._pending.get(group, {})
        return {topic: waiting.partitions() for topic, waiting in topics.items()}

    def has(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether there is an offset, or one that waits."""
        return self.value(group, topic, partition) is not None or self.is_unstable(
            group, topic, partition
        )

    def holds(self, group: str) -> bool:
        """Tell whether a group has offsets here, waiting ones included."""
        return group in self._committed or group in self._pending

    def has_room(
        self, producer_id: int, group: str, topics: Iterable[tuple[str, Sequence[int]]]
    ) -> bool:
        """Tell whether a producer's transaction may also commit these partitions of a group."""
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
        """Return what waits, by producer in the order of the log; None for what is superseded.

        This is for checks that compare two stores.
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
        """Walk over a group's partitions that have an offset, or one that waits."""
        topics = self.topics(group)
        for topic, partitions in topics.items():
            for partition in partitions:
                yield OffsetKey(group, topic, partition)
        for topic, waiting in self._pending.get(group, {}).items():
            for partition in tuple(waiting.partitions()):
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
            waiting = self._pending.get(group, {}).get(topic)
            pending = set() if waiting is None else waiting.partitions()
            for partition in dict.fromkeys((*committed, *pending)):
                key = OffsetKey(group, topic, partition)
                yield key if self._may_belong(key, topic_id) else None

    def _may_belong(self, key: OffsetKey, topic_id: bytes) -> bool:
        """Tell whether an offset, or one that waits, is of this topic as far as one can know."""
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
    """Tell whether an offset is one of this topic; older records name none."""
    return decode_offset(value).topic_id in (topic_id, ZERO_TOPIC_ID)
