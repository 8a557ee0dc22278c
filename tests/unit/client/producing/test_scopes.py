"""A transaction as a block: what goes in, and what an abort takes back."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.errors import CommitFailed, InvalidState, ProducerFenced, RequestTimedOut
from moldau.client.producing.scopes import AsyncTransaction, Transaction
from moldau.client.records import OffsetAndMetadata, TopicPartition

ZERO = TopicPartition("t", 0)


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
    """Hands out what it is told; its mark is its own."""

    def __init__(self, failing=None):
        self.offsets = {ZERO: OffsetAndMetadata(15)}
        self.calls = []
        self._failing = failing

    def mark(self):
        self.calls.append("mark")
        return self

    def consumed(self):
        if self._failing:
            raise self._failing
        return self.offsets, "member"

    def rewind(self):
        self.calls.append("rewind")
        if self._failing:
            raise self._failing


class AsyncConsumer:
    """The same for asyncio."""

    def __init__(self, inner):
        self._inner = inner

    def mark(self):
        return Awaited(self._inner.mark(), "consumed")


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
        source = consumer and AsyncConsumer(consumer)
        async with AsyncTransaction(asynchronous, source):
            work()

    asyncio.run(scenario())


def fail():
    raise KeyError


both = pytest.mark.parametrize("blocking", [True, False])


@both
def test_a_block_commits_with_the_offsets_of_what_was_handed_out_in_it(blocking):
    producer, consumer = Producer(), Consumer()
    run_block(producer, consumer, lambda: None, blocking=blocking)
    assert producer.calls == ["begin", ({ZERO: OffsetAndMetadata(15)}, "member"), "commit"]
    assert consumer.calls == ["mark"]


@both
def test_a_block_that_raises_aborts_and_sets_the_consumer_back(blocking):
    producer, consumer = Producer(), Consumer()
    with pytest.raises(KeyError):
        run_block(producer, consumer, fail, blocking=blocking)
    assert producer.calls == ["begin", "abort"]
    assert consumer.calls == ["mark", "rewind"]


@both
def test_what_the_consumer_has_lost_is_not_committed(blocking):
    producer, consumer = Producer(), Consumer(CommitFailed("lost"))
    with pytest.raises(CommitFailed, match="lost"):
        run_block(producer, consumer, lambda: None, blocking=blocking)
    assert producer.calls == ["begin", "abort"]


@both
def test_a_consumer_that_cannot_be_set_back_does_not_hide_what_was_raised(blocking):
    producer, consumer = Producer(), Consumer(InvalidState("no"))
    with pytest.raises(KeyError):
        run_block(producer, consumer, fail, blocking=blocking)
    assert producer.calls == ["begin", "abort"]
    assert consumer.calls == ["mark", "rewind"]


@both
def test_a_commit_that_fails_aborts_and_is_raised(blocking):
    producer, consumer = Producer(ProducerFenced()), Consumer()
    with pytest.raises(ProducerFenced):
        run_block(producer, consumer, lambda: None, blocking=blocking)
    assert producer.calls[-1] == "abort"
    assert consumer.calls == ["mark", "rewind"]


@both
def test_once_the_end_was_asked_for_nothing_is_aborted_and_nothing_read_again(blocking):
    producer, consumer = Producer(), Consumer()

    def commit():
        producer.in_transaction = False
        raise RequestTimedOut("no answer")

    producer.commit_transaction = commit
    with pytest.raises(RequestTimedOut):
        run_block(producer, consumer, lambda: None, blocking=blocking)
    assert "abort" not in producer.calls
    assert consumer.calls == ["mark"]


@both
def test_a_transaction_that_cannot_begin_leaves_no_mark(blocking):
    producer, consumer = Producer(), Consumer()
    producer.begin_transaction = fail
    with pytest.raises(KeyError):
        run_block(producer, consumer, lambda: None, blocking=blocking)
    assert producer.calls == []
    assert consumer.calls == ["mark", "rewind"]


@both
def test_without_a_consumer_only_the_records_count(blocking):
    producer = Producer()
    run_block(producer, None, lambda: None, blocking=blocking)
    assert producer.calls == ["begin", "commit"]
