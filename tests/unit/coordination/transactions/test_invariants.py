"""A step that would lose a decision or free a fenced producer is never written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.transaction_kit import ORDERS_0, ORDERS_1
from moldau.base.errors import InvariantViolated
from moldau.coordination.outcome import Now
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.effects import MarkerResult
from moldau.coordination.transactions.ledger import Ledger
from moldau.coordination.transactions.marking import Marking
from moldau.coordination.transactions.records import transaction_record
from moldau.coordination.transactions.transaction import (
    ENDING,
    FOLLOWERS,
    Transaction,
    TransactionState,
    check_step,
    complete,
)

NOW = Now(1_000, 1.0)
STATES = tuple(FOLLOWERS)


def in_state(state, *, epoch=3, partitions=(ORDERS_0, ORDERS_1)):
    return Transaction(
        transactional_id="copier",
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset(partitions),
        last_update_ms=0,
    )


def ledger_with(transaction):
    ledger = Ledger(lambda: 2)
    ledger.replay(transaction_record(transaction, 2))
    return ledger


class TestSteps:
    @pytest.mark.parametrize("old", STATES)
    @pytest.mark.parametrize("new", STATES)
    def test_only_the_states_of_the_table_follow_each_other(self, old, new):
        if new in FOLLOWERS[old]:
            check_step(in_state(old), in_state(new))
        else:
            with pytest.raises(InvariantViolated, match=f"from {old.label} to {new.label}"):
                check_step(in_state(old), in_state(new))

    @pytest.mark.parametrize("decided", sorted(ENDING))
    def test_nothing_but_its_own_end_follows_a_decision(self, decided):
        assert FOLLOWERS[decided] == {complete(in_state(decided), 0).state}

    @pytest.mark.parametrize("state", [state for state in STATES if state])
    def test_an_id_begins_without_a_transaction(self, state):
        check_step(None, in_state(TransactionState.EMPTY))
        with pytest.raises(InvariantViolated, match=f"begins in state {state.label}"):
            check_step(None, in_state(state))

    def test_the_epoch_of_a_producer_never_decreases(self):
        old = in_state(TransactionState.EMPTY, epoch=3)
        for epoch in (3, 4):
            check_step(old, in_state(TransactionState.EMPTY, epoch=epoch))
        check_step(old, replace(old, producer_id=8, producer_epoch=0))
        with pytest.raises(InvariantViolated, match="back to"):
            check_step(old, in_state(TransactionState.EMPTY, epoch=2))

    def test_a_damaged_record_does_not_end_the_shard(self):
        damaged = replace(in_state(TransactionState.PREPARE_ABORT), next_producer_id=7)
        check_step(damaged, complete(damaged, 0))


class TestLedger:
    def test_an_id_takes_one_step_at_a_time(self):
        transaction = in_state(TransactionState.EMPTY)
        ledger = ledger_with(transaction)
        ledger.propose(transaction)
        with pytest.raises(InvariantViolated, match="before the last one is committed"):
            ledger.propose(transaction)
        with pytest.raises(InvariantViolated, match="before the last one is committed"):
            ledger.propose_to_forget("copier")
        ledger.settle("copier")
        ledger.propose_to_forget("copier")

    def test_a_step_is_checked_against_the_state_of_its_id(self):
        ledger = ledger_with(in_state(TransactionState.PREPARE_COMMIT))
        with pytest.raises(InvariantViolated, match="PrepareCommit to PrepareAbort"):
            ledger.propose(in_state(TransactionState.PREPARE_ABORT))
        assert not ledger.is_proposed("copier")

    @pytest.mark.parametrize("state", [TransactionState.ONGOING, *sorted(ENDING)])
    def test_an_open_transaction_is_not_forgotten(self, state):
        ledger = ledger_with(in_state(state))
        with pytest.raises(InvariantViolated, match="in the middle of a transaction"):
            ledger.propose_to_forget("copier")


class TestMarking:
    def marking(self, state):
        self.ledger = ledger_with(in_state(state))
        return Marking(self.ledger, 5, TransactionCounters())

    @pytest.mark.parametrize("state", [state for state in STATES if state not in ENDING])
    def test_there_are_no_markers_without_a_decision(self, state):
        marking = self.marking(state)
        with pytest.raises(InvariantViolated, match="without a decision"):
            marking.begin("copier", NOW)
        with pytest.raises(InvariantViolated, match="without a decision"):
            marking.begin_later(["copier"])

    def test_there_are_no_markers_before_the_decision_is_committed(self):
        marking = self.marking(TransactionState.ONGOING)
        self.ledger.replay(self.ledger.propose(in_state(TransactionState.PREPARE_COMMIT)))
        with pytest.raises(InvariantViolated, match="without a decision"):
            marking.begin("copier", NOW)
        self.ledger.settle("copier")
        assert marking.begin("copier", NOW).effects

    def test_a_transaction_is_ended_once(self):
        marking = self.marking(TransactionState.PREPARE_COMMIT)
        marking.begin("copier", NOW)
        with pytest.raises(InvariantViolated, match="being ended already"):
            marking.begin("copier", NOW)

    def test_nothing_is_complete_while_a_partition_lacks_the_marker(self):
        marking = self.marking(TransactionState.PREPARE_COMMIT)
        (effect,) = marking.begin("copier", NOW).effects
        marking.written(effect, {ORDERS_0: MarkerResult.WRITTEN}, NOW)
        with pytest.raises(InvariantViolated, match="partitions lack the marker"):
            marking._complete("copier", NOW)
