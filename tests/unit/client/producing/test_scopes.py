"""A transaction as a block: what goes in, and what an abort takes back."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.errors import InvalidState, ProducerFenced
from moldau.client.producing.scopes import AsyncTransaction, Transaction
from moldau.client.records import OffsetAndMetadata, TopicPartition

ZERO, ONE, NEW = (TopicPartition("t", number) for number in (0, 1, 2))


class Producer:
    """Writes down what it is asked."""

    def __init__(self, failing=None):
        self.calls = []
        self.in_transaction = False
        self._failing = failing

    def begin_transaction(self):
        self.in_transaction = True
        self.calls.append("begin")

    def send_offsets_to_transaction(self, offsets, group):
        self.calls.append((dict(offsets), group))

    def commit_transaction(self):
        if self._failing:
            raise self._failing
        self.in_transaction = False
        self.calls.append("commit")

    def abort_transaction(self):
        self.in_transaction = False
        self.calls.append("abort")


class Consumer:
    """Two partitions at known positions."""

    def __init__(self):
        self.at = {ZERO: 10, ONE: 20}
        self.kept = {NEW: OffsetAndMetadata(3)}

    def assignment(self):
        return frozenset(self.at)

    def position(self, partition):
        return self.at[partition]

    def committed(self, partitions):
        return {one: self.kept[one] for one in partitions if one in self.kept}

    def seek(self, partition, offset):
        self.at[partition] = offset

    def group_metadata(self):
        return "member"


class Awaited:
    """The same with methods to be awaited."""

    def __init__(self, inner, *names):
        self.inner = inner
        self._names = names

    def __getattr__(self, name):
        method = getattr(self.inner, name)
        if name not in self._names:
            return method

        async def call(*arguments):
            return method(*arguments)

        return call


def run_block(producer, consumer, work, *, blocking):
    """Run a function in a transaction of either face."""
    if blocking:
        with Transaction(producer, consumer):
            work()
        return

    async def scenario():
        asynchronous = Awaited(
            producer, "send_offsets_to_transaction", "commit_transaction", "abort_transaction"
        )
        source = consumer and Awaited(consumer, "position", "committed")
        async with AsyncTransaction(asynchronous, source):
            work()

    asyncio.run(scenario())


def fail():
    raise KeyError


both = pytest.mark.parametrize("blocking", [True, False])


@both
def test_a_block_commits_with_the_offsets_of_what_was_handed_out_in_it(blocking):
    producer, consumer = Producer(), Consumer()
    run_block(producer, consumer, lambda: consumer.seek(ZERO, 15), blocking=blocking)
    assert producer.calls == ["begin", ({ZERO: OffsetAndMetadata(15)}, "member"), "commit"]


@both
def test_a_block_that_raises_aborts_and_sets_the_consumer_back(blocking):
    producer, consumer = Producer(), Consumer()

    def work():
        consumer.at = {ONE: 25, NEW: 8}
        fail()

    with pytest.raises(KeyError):
        run_block(producer, consumer, work, blocking=blocking)
    assert producer.calls == ["begin", "abort"]
    assert consumer.at == {ONE: 20, NEW: 3}


@both
def test_a_partition_that_cannot_be_set_back_is_not_passed_over(blocking):
    producer, consumer = Producer(), Consumer()
    consumer.kept = {}

    def work():
        consumer.at = {NEW: 8}
        fail()

    with pytest.raises(InvalidState, match="t-2"):
        run_block(producer, consumer, work, blocking=blocking)
    assert producer.calls == ["begin", "abort"]


@both
def test_a_commit_that_fails_aborts_and_is_raised(blocking):
    producer, consumer = Producer(ProducerFenced()), Consumer()
    with pytest.raises(ProducerFenced):
        run_block(producer, consumer, lambda: consumer.seek(ONE, 21), blocking=blocking)
    assert producer.calls[-1] == "abort"
    assert consumer.at == {ZERO: 10, ONE: 20}


@both
def test_without_a_consumer_only_the_records_count(blocking):
    producer = Producer()
    run_block(producer, None, lambda: None, blocking=blocking)
    assert producer.calls == ["begin", "commit"]
