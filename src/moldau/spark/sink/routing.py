"""Which topic and partition each row goes to.

Pure. The column `partition` decides, else the key's hash as Kafka's Java client has it, else rows
go a batch's worth at a time to one partition after the other, from a random one on (KIP-480): even
over all tasks, and batches stay large.

All topics and partitions that a task writes to are numbered through, so that the rows of many
topics are dealt out and encoded together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from moldau.base.clock import Random
from moldau.base.errors import UserError
from moldau.spark.sink.columns import Integers, Strings, numbers
from moldau.spark.sink.hashing import hashed_keys

STICKY_SIZE: Final = 16_384
"""Bytes without a key that go to one partition before the next has its turn: Kafka's batch.size."""

_UNDECIDED: Final = -1


class Topics(Protocol):
    """What routing asks about topics; waits, where a topic is not known yet."""

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        ...

    def available_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions that have a leader; all of them if none has."""
        ...

    def look_again(self, topic: str) -> int:
        """Return how many partitions a topic has by now."""
        ...


class Destination(NamedTuple):
    """Where a row goes."""

    topic: str
    partition: int


class _Sticky:
    """Whose turn it is among the partitions of a topic, for rows without a key."""

    __slots__ = ("_size", "_turn")

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._size = 0

    def places(self, sizes: Integers, available: Sequence[int]) -> Integers:
        """Return the partitions for rows of these sizes."""
        behind = np.cumsum(sizes) + self._size
        turns = self._turn + (behind - sizes) // STICKY_SIZE
        self._turn += int(behind[-1]) // STICKY_SIZE
        self._size = int(behind[-1]) % STICKY_SIZE
        places: Integers = np.array(available, np.int64)[turns % len(available)]
        return places


class Router:
    """Sends rows on their ways. One task's, or one attempt's of it."""

    def __init__(self, topics: Topics, random: Random, *, hashes_keys: bool = True) -> None:
        self._topics = topics
        self._random = random
        self._hashes_keys = hashes_keys
        self._bases: dict[str, int] = {}
        self._sticky: dict[str, _Sticky] = {}
        self._destinations: list[Destination] = []

    def destination(self, number: int) -> Destination:
        """Return what a number that `routed` gave stands for."""
        return self._destinations[number]

    def routed(
        self, names: Sequence[str], which: Integers, given: Any, keys: Strings | None,
        sizes: Integers,
    ) -> Integers:  # fmt: skip
        """Return the number of each row's destination.

        `which` tells the row's topic among the names; `given` is the column `partition`, or None;
        `sizes` are what rows take, about.
        """
        counts = np.array([self._topics.partition_count(name) for name in names], np.int64)
        partitions = self._given(names, which, given, counts)
        if keys is not None and self._hashes_keys:
            _decide_by_key(partitions, keys, counts[which])
        open_rows = np.flatnonzero(partitions == _UNDECIDED)
        for number in np.unique(which[open_rows]).tolist():
            rows = open_rows[which[open_rows] == number]
            name = names[number]
            available = self._topics.available_partitions(name)
            partitions[rows] = self._sticky_of(name).places(sizes[rows], available)
        bases = np.array([self._base(name) for name in names], np.int64)
        return bases[which] + partitions

    def _given(
        self, names: Sequence[str], which: Integers, given: Any, counts: Integers
    ) -> Integers:
        """Return the partitions that a column names; those that a topic lacks are refused."""
        if given is None:
            return np.full(len(which), _UNDECIDED, np.int64)
        partitions = numbers(given, _UNDECIDED).copy()
        if given.null_count:
            asked = np.flatnonzero(given.is_valid().to_numpy(zero_copy_only=False))
        else:
            asked = np.arange(len(partitions))
        wrong = asked[(partitions[asked] < 0) | (partitions[asked] >= counts[which[asked]])]
        for row in wrong.tolist():
            number, partition = int(which[row]), int(partitions[row])
            if partition >= counts[number]:
                counts[number] = self._topics.look_again(names[number])
            if not 0 <= partition < counts[number]:
                raise UserError(
                    f"a row asks for partition {partition} of topic {names[number]}, which has"
                    f" {counts[number]}: mend the column `partition`, or leave it null there"
                )
        return partitions

    def _sticky_of(self, name: str) -> _Sticky:
        if name not in self._sticky:
            self._sticky[name] = _Sticky(self._random.randrange(1 << 16))
        return self._sticky[name]

    def _base(self, name: str) -> int:
        """Return the number of a topic's first partition; a topic that has grown gets a new one."""
        count = self._topics.partition_count(name)
        base = self._bases.get(name)
        if base is not None and self._numbered(base, name) >= count:
            return base
        base = self._bases[name] = len(self._destinations)
        self._destinations += [Destination(name, partition) for partition in range(count)]
        return base

    def _numbered(self, base: int, name: str) -> int:
        """Count the partitions of a topic that have numbers from a base on."""
        count = 0
        for destination in self._destinations[base:]:
            if destination.topic != name or destination.partition != count:
                break
            count += 1
        return count


def _decide_by_key(partitions: Integers, keys: Strings, counts: Integers) -> None:
    """Fill in the partitions of rows that have a key and no partition yet."""
    rows: Integers | slice = slice(None)
    if keys.array.null_count or partitions.max() != _UNDECIDED:
        rows = np.flatnonzero((partitions == _UNDECIDED) & (keys.sizes >= 0))
    hashes = hashed_keys(keys.data, keys.starts[rows], keys.sizes[rows])
    partitions[rows] = hashes % counts[rows]


def topics_of(column: Any, fixed: str | None, count: int) -> tuple[list[str], Integers]:
    """Return the topics that rows go to, and which of them each row goes to."""
    if fixed is not None:
        return [fixed], np.zeros(count, np.int64)
    if column.null_count:
        raise UserError(
            "a row has no topic: fill the column `topic`, or set the option `topic` for all rows"
        )
    encoded = column.dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    if "" in names:
        raise UserError("a row's topic is empty: mend the column `topic`")
    return names, encoded.indices.cast(pa.int64()).to_numpy()
