"""Which batches belong to aborted transactions, and which markers are needed no more."""

from __future__ import annotations

from kits.compaction_kit import keyed_batch
from kits.log_kit import NOW_MS, marker
from moldau.records.batch import parse_header
from moldau.records.control import ControlType, control_batch
from moldau.storage.compaction.batches import Source, emptied
from moldau.storage.compaction.transactions import CleanedTransactions
from moldau.storage.indexes import AbortedTransaction


def data(offset: int, producer_id: int, *, transactional: bool = True):
    batch = keyed_batch([(b"k", b"v")], producer=(producer_id, 0, 0), transactional=transactional)
    return parse_header(batch)._replace(base_offset=offset)


def end(transactions: CleanedTransactions, offset: int, producer_id: int, *, aborted: bool) -> bool:
    batch, header = marker(producer_id, 0, aborted=aborted)
    return transactions.pass_control(header._replace(base_offset=offset), batch)


def test_batches_of_an_aborted_transaction_are_told_from_others():
    transactions = CleanedTransactions([AbortedTransaction(1, 10, 20, 21)])
    assert not transactions.pass_data(data(9, 1))
    assert transactions.pass_data(data(10, 1))
    assert not transactions.pass_data(data(11, 2))
    assert not transactions.pass_data(data(12, 1, transactional=False))
    assert transactions.pass_data(data(15, 1))
    assert not end(transactions, 20, 1, aborted=True)
    assert not transactions.pass_data(data(22, 1))


def test_a_marker_is_needed_as_long_as_a_batch_of_its_transaction_is_there():
    transactions = CleanedTransactions()
    transactions.pass_data(data(0, 1))
    assert not end(transactions, 1, 1, aborted=False)
    assert end(transactions, 2, 1, aborted=False)
    assert end(transactions, 3, 2, aborted=True)


def test_aborted_transactions_with_batches_are_kept_for_the_index():
    with_batch, without = AbortedTransaction(1, 0, 5, 1), AbortedTransaction(2, 1, 6, 7)
    transactions = CleanedTransactions([with_batch, without])
    transactions.pass_data(data(0, 1))
    assert not end(transactions, 5, 1, aborted=True)
    assert end(transactions, 6, 2, aborted=True)
    assert list(transactions.take_kept()) == [with_batch]
    assert list(transactions.take_kept()) == []


def test_no_more_is_read_ahead_than_what_can_have_begun():
    # Producer 1 is open from 0 to 50; others begin and end within.
    entries = [AbortedTransaction(n, 10 * n, 10 * n + 5, 0) for n in (2, 3, 4)]
    entries += [AbortedTransaction(1, 0, 50, 51)]
    entries += [AbortedTransaction(n, 10 * n, 10 * n + 5, 10 * n + 6) for n in range(6, 100)]
    left = iter(entries)
    transactions = CleanedTransactions(left)
    assert transactions.pass_data(data(0, 1))
    assert transactions.pass_data(data(20, 2))
    assert not end(transactions, 50, 1, aborted=True)
    assert next(left).producer_id == 6


def test_transactions_that_began_later_and_ended_earlier_are_told_apart():
    entries = [AbortedTransaction(2, 10, 15, 0), AbortedTransaction(1, 0, 50, 51)]
    transactions = CleanedTransactions(entries)
    assert transactions.pass_data(data(0, 1))
    assert not transactions.pass_data(data(9, 2))
    assert transactions.pass_data(data(10, 2))
    assert not end(transactions, 15, 2, aborted=True)
    assert not transactions.pass_data(data(20, 2))
    assert transactions.pass_data(data(30, 1))
    assert not end(transactions, 50, 1, aborted=True)
    assert not transactions.pass_data(data(51, 1))


def test_an_empty_control_batch_ends_nothing_any_more():
    batch, header = marker(1, 0, aborted=True)
    empty = emptied(Source(batch, 0, header))
    assert CleanedTransactions().pass_control(empty.header, empty.content)


def test_other_control_records_stay():
    batch = control_batch(ControlType.LEADER_CHANGE, b"", NOW_MS)
    assert not CleanedTransactions().pass_control(parse_header(batch), batch)
