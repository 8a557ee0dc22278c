"""Exactly once under fire: copiers in one group, and their broker, killed at moments of chance.

Three copiers read numbered records and write them on in transactions, with their offsets. Broker
and copiers are killed (-9) again and again. Whoever reads the output as it is committed must at all
times see a part of the input from its beginning, each record once and in order; in the end all of
it.

MOLDAU_EXACTLY_ONCE_SECONDS sets how long (10 by default), MOLDAU_EXACTLY_ONCE_SEED which moments.

Below, a transaction is brought to one moment after the other by hand, and the broker ended there:
what was decided stays decided, what was not is aborted when its time is over.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.ports import free_port
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from kits.transactional_clients import READ_COMMITTED, read_to_the_end
from process.copier import INPUT, OUTPUT, SESSION_MS, Feeder, Instances, Reader, copied
from process.java_copier import JavaCopier
from process.raw_client import RawClient
from process.raw_transaction import (
    RawTransaction,
    commit_plainly,
    find_coordinators,
    stable_offset,
)
from process.serving import CRASHED, Serving

QUICK_S = 10
SECONDS = float(os.environ.get("MOLDAU_EXACTLY_ONCE_SECONDS", QUICK_S))
SEED = int(os.environ.get("MOLDAU_EXACTLY_ONCE_SEED", "1"))
PARTITIONS, COPIERS = 4, 3
PAUSE_S = 0.01
"""Between two records of a partition: some 400 a second in all, so that two cores can do it."""
CATCH_UP_S = 60
BROKER_SHARE = 0.4
"""Of all kills, that of the broker."""
MOMENTS_MIN = 6
"""At least so many, however slow the machine: with the usual seed the broker is hit twice."""

SETTINGS = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.initial.rebalance.delay.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "500",
}


class Address:
    """A place where one broker after the other serves the same folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.host, self.port = "127.0.0.1", free_port()
        self.broker: Serving | None = None
        self.start_count = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self, crash_at: str = "") -> Serving:
        self.start_count += 1
        data = str(self._directory / "data")
        self.broker = Serving(
            self._directory, "--data", data, "--listen", str(self),
            overrides=SETTINGS, environ={"MOLDAU_CRASH_AT": crash_at},
        )  # fmt: skip
        return self.broker.start()

    def kill(self) -> None:
        """End the broker without a word, after which it must not have complained."""
        if self.broker is not None:
            self.broker.kill()
            assert "Traceback" not in self.broker.errors, self.broker.errors
            self.broker = None


@pytest.fixture
def address(tmp_path) -> Iterator[Address]:
    address = Address(tmp_path)
    yield address
    if address.broker is not None:
        address.broker.kill()


@pytest.fixture
def fed(address) -> Iterator[tuple[Feeder, Reader]]:
    """A broker, what is written to its input, and what is read from its output."""
    address.start()
    for topic in (INPUT, OUTPUT):
        create_topic(str(address), topic, PARTITIONS)
    feeder, reader = Feeder(str(address), PARTITIONS, PAUSE_S), Reader(str(address), PARTITIONS)
    yield feeder, reader
    feeder.close()
    reader.close()


@pytest.mark.timeout(120 + SECONDS + 2 * CATCH_UP_S)
def test_the_output_is_the_input_once_and_in_order_at_all_times(address, fed, tmp_path):
    feeder, reader = fed
    with Instances(str(address), COPIERS, tmp_path) as copiers:
        copiers.start_missing()
        eventually(lambda: sum(reader.counts) > 0, "the first copy", CATCH_UP_S)
        for chance in moments(reader):
            if chance < BROKER_SHARE:
                address.kill()
                address.start()
            else:
                copiers.kill(int(chance * 1000) % COPIERS)
            copiers.start_missing()
        feeder.finish()
        assert address.start_count > 2
        assert copiers.start_count > COPIERS
        all_copied(feeder, reader, copiers)
    address.kill()
    address.start()
    read_anew(address, feeder)


@pytest.mark.java(CURRENT)
@pytest.mark.timeout(120 + SECONDS + 2 * CATCH_UP_S)
@pytest.mark.long
def test_so_it_is_with_an_epoch_for_every_transaction(address, fed):
    """Java speaks transaction version 2; only the broker is killed (KIP-890)."""
    feeder, reader = fed
    copier = JavaCopier(str(address))
    try:
        eventually(lambda: sum(reader.counts) > 0, "the first copy", CATCH_UP_S)
        for _ in moments(reader):
            address.kill()
            address.start()
        feeder.finish()
        all_copied(feeder, reader, copier)
    finally:
        copier.close()
    assert copier.broken is None
    assert address.start_count > 2


def moments(reader: Reader) -> Iterator[float]:
    """Wait for one moment of chance after the other, until the time is over."""
    dice = random.Random(SEED)
    deadline = time.monotonic() + SECONDS
    count = 0
    while count < MOMENTS_MIN or time.monotonic() < deadline:
        time.sleep(dice.uniform(0.2, 2.5))
        reader.check()
        yield dice.random()
        count += 1


def all_copied(feeder: Feeder, reader: Reader, copiers: Instances | JavaCopier) -> None:
    """Wait until the output is all of the input; copiers that gave up are started again."""

    def done() -> bool:
        reader.check()
        copiers.start_missing()
        return reader.counts == feeder.counts

    try:
        eventually(done, "everything is copied", CATCH_UP_S)
    except AssertionError as late:
        raise AssertionError(
            f"{late}: {reader.counts} of {feeder.counts}\n{copiers.said()}"
        ) from None


def read_anew(address: Address, feeder: Feeder) -> None:
    """Read all of the output from the beginning."""
    reader = Reader(str(address), PARTITIONS)
    try:
        eventually(
            lambda: reader.wrong or reader.counts == feeder.counts,
            "everything is there",
            CATCH_UP_S,
        )
    finally:
        reader.close()
    reader.check()


def test_a_record_that_is_twice_there_or_missing_would_be_found(address):
    """The check itself is checked: what a broken broker would serve is written by hand."""
    address.start()
    create_topic(str(address), OUTPUT, 2)
    reader = Reader(str(address), 2)
    try:
        send(str(address), OUTPUT, [copied(b"0"), copied(b"1"), copied(b"1")], 0)
        eventually(lambda: reader.wrong, "the second 1 is seen")
    finally:
        reader.close()
    assert reader.counts == [2, 0]
    with pytest.raises(AssertionError, match="0@2"):
        reader.check()


# One transaction, brought to a moment

RECORD_PARTITIONS = 3
TRANSACTION_ID, TRANSACTION_GROUP, PLAIN_GROUP = "the-only-one", "with-it", "without-it"
TRANSACTION_MS = 1_500
APPENDS = ("plain offset", "init", "add", "record", "record", "record", "add offsets", "offset",
           "decision", "marker", "marker", "marker", "marker", "end")  # fmt: skip
"""What this broker appends to its logs, in this order, under both protocols."""
DECISION = APPENDS.index("decision") + 1

MOMENTS = {
    f"{side}_write:{number}"
    for side in ("before", "after")
    for number in range(2, len(APPENDS) + 1)
}
USUAL_MOMENTS = (
    f"before_write:{DECISION}",
    f"after_write:{DECISION}",
    f"after_write:{DECISION + 2}",
)


def cases() -> list[tuple[str, bool, bool]]:
    """Moments, whether it is to be committed, and the protocol: the interesting ones, or all."""
    if SECONDS > QUICK_S:
        return list(itertools.product(sorted(MOMENTS), (False, True), (False, True)))
    usual = [(moment, True, number % 2 == 0) for number, moment in enumerate(USUAL_MOMENTS)]
    return [*usual, (f"after_write:{DECISION}", False, True)]


@pytest.mark.parametrize(("moment", "commit", "new_protocol"), cases())
def test_a_transaction_is_whole_or_nothing_after_a_crash(address, moment, commit, new_protocol):
    broker = address.start(f"segment.append.{moment}")
    create_topic(str(address), OUTPUT, RECORD_PARTITIONS)
    answered = False
    with contextlib.suppress(OSError), RawClient((address.host, address.port)) as client:
        find_coordinators(client, TRANSACTION_ID, TRANSACTION_GROUP)
        commit_plainly(client, PLAIN_GROUP, OUTPUT, 7)
        transact(client, commit=commit, new_protocol=new_protocol)
        answered = True
    assert broker.wait() == CRASHED, broker.errors

    address.start()
    side, _, number = moment.partition("_write:")
    decided = int(number) > DECISION or (int(number) == DECISION and side == "after")
    assert decided or not answered
    check_outcome(address, committed=commit and decided)


def transact(client: RawClient, *, commit: bool, new_protocol: bool) -> None:
    transaction = RawTransaction(
        client, TRANSACTION_ID, TRANSACTION_MS, adds_by_itself=new_protocol
    )
    transaction.add(OUTPUT, RECORD_PARTITIONS)
    transaction.send(OUTPUT, RECORD_PARTITIONS, b"value")
    transaction.commit_offset(TRANSACTION_GROUP, OUTPUT, 5)
    transaction.end(commit=commit)


def check_outcome(address: Address, *, committed: bool) -> None:
    """Wait until all is decided, of itself or because its time is over; then look."""
    values = [["value"] if committed else []] * RECORD_PARTITIONS
    with RawClient((address.host, address.port)) as client:
        for index in range(RECORD_PARTITIONS):
            eventually(
                lambda index=index: (
                    client.offset(OUTPUT, index, isolation=1) == client.offset(OUTPUT, index)
                ),
                f"partition {index} is decided",
            )
        assert stable_offset(client, TRANSACTION_GROUP, OUTPUT) == (5 if committed else -1)
        assert stable_offset(client, PLAIN_GROUP, OUTPUT) == 7
    assert [
        read_to_the_end(str(address), OUTPUT, index, READ_COMMITTED)[0]
        for index in range(RECORD_PARTITIONS)
    ] == values
