"""Producers, partitions and a coordinator that crashes: every transaction is all or nothing.

Producers share ids, speak either protocol, lose answers and ask again. The log commits
late or refuses, leaders change and lose what was not committed, markers are written late, twice, by
coordinators of the past, or not at all for a while; partitions are deleted; time-outs strike. What
a producer wrote into a partition is remembered with the transaction it was part of, so that the
marker which closes it can be held against the decision in the log.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kits.transaction_kit import ABORT_INTERVAL_MS, START_MS, TIMEOUT_MS, Desk, Waiter
from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.transactions.effects import MarkerResult, WriteMarkers
from moldau.coordination.transactions.marking import RETRY_MAX_S
from moldau.coordination.transactions.records import (
    read_key,
    read_transaction,
    transaction_record,
)
from moldau.coordination.transactions.shard import Ended, TransactionShard
from moldau.coordination.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    Missing,
    Transaction,
    TransactionState,
)
from moldau.protocol.errors import ErrorCode

IDS = ("copier", "billing")
PARTITIONS = tuple(PartitionKey("orders", index) for index in range(3))
RETRY_MS = round(RETRY_MAX_S * 1000)
EXAMPLES = 300
STEPS = 100

FATAL = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
)


@dataclass
class Client:
    """One instance of an application."""

    transactional_id: str
    version: int
    number: int
    identity: ProducerIdentity | None = None
    former: ProducerIdentity | None = None
    """Who it was before it was fenced and started anew; a part of it may not have heard."""
    last_end: tuple[ProducerIdentity, bool] | None = None


@dataclass
class Written:
    """A batch in a partition, and what became of it."""

    transactional_id: str
    ordinal: int
    """Which transaction of its id, counted by their beginnings in the log."""
    producer_id: int
    committed: bool | None = None


@dataclass
class DataPartition:
    """A partition of an application's topic, as far as producers are concerned."""

    batches: list[Written] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    coordinator_epochs: dict[int, int] = field(default_factory=dict)

    def open_batches(self, producer_id: int) -> list[Written]:
        return [
            one for one in self.batches if one.producer_id == producer_id and one.committed is None
        ]

    def append(self, batch: Written, epoch: int) -> None:
        if epoch >= self.epochs.get(batch.producer_id, -1):
            self.epochs[batch.producer_id] = epoch
            self.batches.append(batch)

    def mark(self, marker: WriteMarkers) -> MarkerResult:
        """Take a marker by the rules of `storage.producers`."""
        producer_id, epoch = marker.producer
        known = self.epochs.get(producer_id, -1)
        open_batches = self.open_batches(producer_id)
        late = marker.transaction_version >= 2 and epoch == known and open_batches
        if epoch < known or late:
            return MarkerResult.FENCED
        if marker.coordinator_epoch < self.coordinator_epochs.get(producer_id, -1):
            return MarkerResult.FENCED
        self.epochs[producer_id] = epoch
        self.coordinator_epochs[producer_id] = marker.coordinator_epoch
        for batch in open_batches:
            batch.committed = marker.committed
        return MarkerResult.WRITTEN


def history(log):
    """The records of every id, in order; None where it was forgotten."""
    found: dict[str, list[Transaction | None]] = {}
    for record in log:
        name = read_key(record.key)
        value = None if record.value is None else read_transaction(name, record.value)
        found.setdefault(name, []).append(value)
    return found


def begins(before: Transaction | None, record: Transaction) -> bool:
    """Whether a record is the first of a transaction."""
    ongoing = record.state is TransactionState.ONGOING
    return ongoing and (before is None or before.state is not TransactionState.ONGOING)


class World:
    """Everybody in it, and the model of what they wrote."""

    def __init__(self, version, epoch):
        self.desk = Desk(version=version)
        self.clients: list[Client] = []
        self.newest: dict[str, ProducerIdentity] = {}
        """The last identity that anybody was given; whoever has an older one is fenced."""
        self.data = {key: DataPartition() for key in PARTITIONS}
        self.pending: list[tuple[Waiter, object]] = []
        self.stale: list[WriteMarkers] = []
        self.steps_to_commit = 0
        for name in IDS:
            first = Transaction(
                transactional_id=name,
                producer_id=self.desk.fresh(),
                producer_epoch=epoch,
                timeout_ms=TIMEOUT_MS,
                last_update_ms=START_MS,
            )
            self.desk.log.append(transaction_record(first, version))
        self.desk.committed_count = len(self.desk.log)
        self.desk.crash()
        for number, name in enumerate(("copier", "copier", "billing", "billing")):
            self.clients.append(Client(name, 0 if number == 3 else version, number))

    # Producers

    def transact(self, number, partitions, commit):
        """Do what producers do most of the time, as far as it goes."""
        if self.clients[number].identity is None:
            self.init(number, False)
        self.add_and_write(number, partitions)
        self.end(number, commit, False)

    def asked(self, waiter, answered):
        self.pending.append((waiter, answered))
        self.deliver()

    def heard(self, client, code):
        """Start anew after an error from which a producer cannot go on."""
        if code in FATAL and client.identity is not None:
            client.former, client.identity = client.identity, None

    def deliver(self):
        """Let clients hear what they were told, and the log catch up if it is time."""
        self.steps_to_commit -= 1
        if self.steps_to_commit == 0:
            self.commit()
        self.desk.wait(0)
        pending, self.pending = self.pending, []
        for waiter, answered in pending:
            if waiter.answers:
                answered(waiter.answer)
            else:
                self.pending.append((waiter, answered))

    def init(self, number, names_itself):
        client = self.clients[number]
        expected = client.identity if names_itself else None
        desk = self.desk

        def answered(answer):
            if isinstance(answer, ProducerIdentity):
                assert answer.producer_epoch <= LAST_CLIENT_EPOCH
                client.identity = answer
                client.last_end = None
                self.newest[client.transactional_id] = answer
            self.heard(client, answer)

        shard, name = desk.shard, client.transactional_id
        waiter = desk.ask(shard.init_producer_id, name, TIMEOUT_MS, expected, None, now=desk.now)
        if waiter.answers and waiter.answer is Missing.PRODUCER_ID:
            waiter = desk.ask(
                shard.init_producer_id, name, TIMEOUT_MS, expected, desk.fresh(), now=desk.now
            )
        self.asked(waiter, answered)

    def add_and_write(self, number, partitions, as_before=False):
        client, desk = self.clients[number], self.desk
        identity, name = client.identity, client.transactional_id
        if as_before:
            identity = client.former
        if identity is None:
            return
        keys = [key for key in sorted(partitions) if key in self.data]

        def answered(answer):
            if answer is ErrorCode.NONE:
                assert identity >= self.newest[name], "a fenced producer added partitions"
            elif not as_before:
                self.heard(client, answer)

        waiter = desk.ask(
            desk.shard.add_partitions, name, identity, keys, client.version, now=desk.now
        )
        self.asked(waiter, answered)
        self.write(number, partitions)

    def write(self, number, partitions):
        client, desk = self.clients[number], self.desk
        identity = client.identity
        keys = [key for key in sorted(partitions) if key in self.data]
        if identity is None or desk.held or not desk.commits:
            return
        waiter = desk.ask(desk.shard.verify_partitions, client.transactional_id, identity, keys)
        records = history(desk.log)[client.transactional_id]
        before = [None, *records[:-1]]
        ordinal = sum(begins(old, new) for old, new in zip(before, records, strict=True))
        for key, code in waiter.answer.items():
            if code is ErrorCode.NONE:
                assert identity >= self.newest[client.transactional_id]
                batch = Written(client.transactional_id, ordinal, identity.producer_id)
                self.data[key].append(batch, identity.producer_epoch)

    def end(self, number, commit, again):
        client, desk = self.clients[number], self.desk
        if client.identity is None:
            return
        identity = client.identity
        if again and client.last_end is not None:
            identity, commit = client.last_end
        client.last_end = (identity, commit)

        def answered(answer):
            if answer is Missing.PRODUCER_ID:  # heard late, as the log had to catch up
                self.asked(ask(desk.fresh()), answered)
                return
            if answer.error is ErrorCode.NONE and client.version >= 2:
                client.identity = answer.producer
                self.newest[client.transactional_id] = answer.producer
                assert answer.producer.producer_epoch <= LAST_CLIENT_EPOCH
            self.heard(client, answer.error)

        def ask(fresh):
            return desk.ask(
                desk.shard.end_transaction,
                client.transactional_id,
                identity,
                client.version,
                fresh,
                now=desk.now,
                commit=commit,
            )

        waiter = ask(None)
        if waiter.answers and waiter.answer is Missing.PRODUCER_ID:
            waiter = ask(desk.fresh())
        assert not waiter.answers or isinstance(waiter.answer, Ended)
        self.asked(waiter, answered)

    # Markers

    def place(self, markers, reachable):
        """Write markers where they can be, and say what became of each."""
        results = {}
        for key in sorted(markers.partitions):
            if key not in self.data:
                results[key] = MarkerResult.DELETED
            elif key in reachable:
                results[key] = self.data[key].mark(markers)
            else:
                results[key] = MarkerResult.UNAVAILABLE
        return results

    def write_markers(self, reachable, twice):
        if not self.desk.written:
            self.desk.wait(RETRY_MS)
        if not self.desk.written:
            return
        markers = self.desk.written.pop(0)
        results = self.place(markers, reachable)
        assert MarkerResult.FENCED not in results.values(), "a coordinator in office was fenced"
        self.desk.report(markers, results)
        if twice:
            self.desk.report(markers, results)
        if markers.transaction_version >= 2:
            self.stale.append(markers)
        self.deliver()

    def write_markers_of_the_past(self, reachable):
        if not self.stale:
            return
        markers = self.stale.pop(0)
        self.desk.report(markers, self.place(markers, reachable))
        self.deliver()

    def delete_partition(self, key):
        if len(self.data) > 1:
            self.data.pop(key, None)

    # Faults and time

    def crash(self, kept):
        desk = self.desk
        uncertain = len(desk.log) - desk.committed_count
        self.stale += desk.written
        self.pending.clear()
        desk.crash(kept=desk.committed_count + round(kept * uncertain))
        self.deliver()

    def commit_late(self, steps):
        self.desk.commits = False
        self.steps_to_commit = steps

    def commit(self):
        self.desk.commits = True
        self.desk.commit()

    def refuse(self, count):
        self.desk.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        self.desk.refusals_left = count

    def wait(self, ms):
        self.desk.wait(ms)
        self.deliver()

    # What must hold

    def the_state_is_what_the_log_says(self):
        again = TransactionShard(0, self.desk.settings)
        for record in self.desk.log:
            again.replay(record, None)
        assert list(again._ledger) == list(self.desk.shard._ledger)

    def a_decision_stands(self):
        for records in history(self.desk.log).values():
            for before, after in itertools.pairwise(records):
                self.follows(before, after)

    def follows(self, before, after):
        assert before is not None
        assert after is not None
        if before.ending:
            expected = (
                TransactionState.COMPLETE_COMMIT
                if before.state is TransactionState.PREPARE_COMMIT
                else TransactionState.COMPLETE_ABORT
            )
            assert after.state is expected
        elif after.ending:
            assert after.partitions == before.partitions
        if before.state is TransactionState.ONGOING:
            assert after.state in (
                TransactionState.ONGOING,
                TransactionState.PREPARE_COMMIT,
                TransactionState.PREPARE_ABORT,
            )
            assert after.partitions >= before.partitions

    def a_marker_says_what_was_decided(self):
        decisions = self.decisions()
        for partition in self.data.values():
            for batch in partition.batches:
                if batch.committed is not None:
                    assert decisions[batch.transactional_id][batch.ordinal] is batch.committed

    def decisions(self):
        """Of every id: the ordinal of each of its transactions, and how it was decided."""
        decided: dict[str, dict[int, bool]] = {}
        for name, records in history(self.desk.log).items():
            ordinal, found = 0, {}
            for before, after in zip([None, *records], records, strict=False):
                ordinal += begins(before, after)
                if after.ending and before is not None and begins(None, before):
                    found[ordinal] = after.committed
            decided[name] = found
        return decided

    def let_the_faults_stop(self):
        """Everything completes, and nothing is left open."""
        self.desk.refusal = None
        self.commit()
        for _ in range(4):
            self.desk.wait(TIMEOUT_MS + ABORT_INTERVAL_MS)
            while self.desk.written:
                self.desk.mark(self.place(self.desk.written[0], PARTITIONS))
        for transaction in self.desk.shard._ledger:
            assert not transaction.ending
            assert transaction.state is not TransactionState.ONGOING
        for partition in self.data.values():
            assert all(batch.committed is not None for batch in partition.batches)
        self.a_marker_says_what_was_decided()
        self.a_decision_stands()
        for name in IDS:
            assert isinstance(self.desk.init(name), ProducerIdentity)


def some_action(chance):
    """What happens next: a method of the world, and its arguments."""
    client = chance.randrange(4)
    partitions = chance.sample(PARTITIONS, 2)
    yes, or_no = chance.random() < 0.5, chance.random() < 0.5
    reachable = chance.choice([PARTITIONS, PARTITIONS, PARTITIONS[1:], PARTITIONS[:1], ()])
    actions = [
        (12, World.transact, client, partitions, yes),
        (10, World.write_markers, reachable, yes),
        (3, World.init, client, yes),
        (3, World.add_and_write, client, partitions, yes),
        (3, World.write, client, partitions),
        (3, World.end, client, yes, or_no),
        (3, World.write_markers_of_the_past, reachable),
        (3, World.crash, chance.random()),
        (2, World.commit_late, chance.randint(1, 3)),
        (2, World.refuse, chance.randint(1, 2)),
        (3, World.wait, chance.choice([0, RETRY_MS, ABORT_INTERVAL_MS, TIMEOUT_MS])),
        (0.3, World.delete_partition, chance.choice(PARTITIONS)),
    ]
    ((_, perform, *arguments),) = chance.choices(actions, [weight for weight, *_ in actions])
    return perform, arguments


@settings(max_examples=EXAMPLES)
@example(version=2, epoch=LAST_CLIENT_EPOCH - 3, seed=36, steps=25)  # a late want of a producer id
@given(
    version=st.sampled_from([0, 2]),
    epoch=st.sampled_from([0, LAST_CLIENT_EPOCH - 3, LAST_CLIENT_EPOCH]),
    seed=st.integers(0, 2**32),
    steps=st.integers(1, STEPS),
)
def test_every_transaction_is_all_or_nothing_whatever_happens(version, epoch, seed, steps):
    """A seed decides what happens, so that a failure shrinks to the fewest steps of its run."""
    chance = random.Random(seed)
    world = World(version, epoch)
    for _ in range(steps):
        perform, arguments = some_action(chance)
        perform(world, *arguments)
        world.the_state_is_what_the_log_says()
        world.a_marker_says_what_was_decided()
    world.a_decision_stands()
    world.let_the_faults_stop()
