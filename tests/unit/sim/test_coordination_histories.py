"""The histories that judge coordinators: what they accept and what they call a broken promise."""

from __future__ import annotations

import itertools

import pytest

from moldau.sim.group_history import GroupHistory, Piece, pieces
from moldau.sim.history import Violation
from moldau.sim.keyed_history import KeyedHistory
from moldau.sim.offset_history import NO_OFFSET, OffsetHistory
from moldau.sim.transaction_history import TransactionHistory, TransactionResult


@pytest.fixture
def offsets():
    return OffsetHistory("g t-0", itertools.count().__next__)


class TestOffsets:
    def test_what_was_acknowledged_is_read_or_something_newer(self, offsets):
        first, second = offsets.begin(), offsets.begin()
        offsets.acknowledged(first)
        offsets.read(offsets.ask(), first.offset)
        offsets.read(offsets.ask(), second.offset)
        with pytest.raises(Violation, match="P6"):
            offsets.read(offsets.ask(), NO_OFFSET)

    def test_of_two_at_once_either_may_be_last(self, offsets):
        one, other = offsets.begin(), offsets.begin()
        offsets.acknowledged(other)
        offsets.acknowledged(one)
        offsets.read(offsets.ask(), one.offset)
        offsets.read(offsets.ask(), other.offset)

    def test_an_older_one_may_not_come_back(self, offsets):
        old = offsets.begin()
        offsets.acknowledged(old)
        new = offsets.begin()
        asked_before = offsets.ask()
        offsets.acknowledged(new)
        offsets.read(asked_before, old.offset)
        with pytest.raises(Violation, match="1 was committed"):
            offsets.read(offsets.ask(), old.offset)

    def test_what_was_read_once_has_happened(self, offsets):
        old, lost = offsets.begin(), None
        offsets.acknowledged(old)
        lost = offsets.begin()
        offsets.read(offsets.ask(), lost.offset)
        with pytest.raises(Violation, match="P6"):
            offsets.read(offsets.ask(), old.offset)

    def test_what_was_refused_is_never_read(self, offsets):
        refused = offsets.begin()
        offsets.refused(refused)
        with pytest.raises(Violation, match="refused"):
            offsets.read(offsets.ask(), refused.offset)

    def test_nobody_reads_what_nobody_wrote(self, offsets):
        with pytest.raises(Violation, match="nobody"):
            offsets.read(offsets.ask(), 3)


class TestGroups:
    def test_a_group_is_settled_when_all_share_one_generation(self):
        group = GroupHistory("g", dict.fromkeys(range(3)))
        shares = pieces("p", 4, ["a", "b"], 3)
        assert Piece.read(shares["a"]).partitions == (0, 2)
        group.unsettled("b")
        group.assigned(0, 4, "a", shares["a"])
        assert not group.settled()
        group.assigned(0, 4, "b", shares["b"])
        assert group.settled()

    def test_a_generation_has_one_assignment(self):
        group = GroupHistory("g", {})
        group.assigned(0, 4, "a", pieces("p", 4, ["a"], 3)["a"])
        with pytest.raises(Violation, match="G1"):
            group.assigned(0, 4, "b", pieces("q", 4, ["b"], 3)["b"])
        with pytest.raises(Violation, match="G1"):
            group.assigned(0, 5, "a", pieces("p", 4, ["a"], 3)["a"])

    def test_a_generation_does_not_go_back(self):
        group = GroupHistory("g", {})
        group.joined(3, 1, 3, "range")
        with pytest.raises(Violation, match="G2"):
            group.joined(4, 1, 3, "range")
        with pytest.raises(Violation, match="I10"):
            group.claimed("a commit", 4, 3)


class TestTransactions:
    def test_only_what_was_asked_to_be_committed_is_seen(self):
        history = TransactionHistory()
        transaction = history.begin("t")
        value = transaction.write("p-0")
        with pytest.raises(Violation, match="P3"):
            history.seen("p-0", value)
        transaction.result = TransactionResult.ASKED
        history.seen("p-0", value)
        with pytest.raises(Violation, match="P5"):
            transaction.settle(committed=False)

    def test_a_part_of_a_transaction_is_not_enough(self):
        history = TransactionHistory()
        transaction = history.begin("t")
        values = [transaction.write("p-0"), transaction.write("p-1")]
        transaction.result = TransactionResult.ASKED
        history.final({"p-0": [], "p-1": []})
        transaction.result = TransactionResult.ASKED
        with pytest.raises(Violation, match="P5"):
            history.final({"p-0": values[:1], "p-1": []})

    def test_the_offset_tells_what_became_of_it(self):
        history = TransactionHistory()
        for fate in (TransactionResult.COMMITTED, TransactionResult.ASKED):
            transaction = history.begin("t")
            transaction.offset, transaction.result = transaction.number, fate
        with pytest.raises(Violation, match="P6"):
            history.settled("t", NO_OFFSET)
        transaction.result = TransactionResult.ASKED
        history.settled("t", 0)
        assert transaction.result is TransactionResult.ABORTED
        with pytest.raises(Violation, match="P6"):
            history.settled("t", 1)

    def test_order_and_number_are_kept(self):
        history = TransactionHistory()
        transaction = history.begin("t")
        values = [transaction.write("p"), transaction.write("p")]
        transaction.settle(committed=True)
        history.final({"p": values})
        for wrong in (values[::-1], values + values[:1]):
            with pytest.raises(Violation, match="P4"):
                history.final({"p": wrong})


class TestKeys:
    def test_what_was_acknowledged_is_there_or_something_later(self):
        history = KeyedHistory("k-0")
        rows = [history.write(b"a", delete=False) for _ in range(3)]
        history.acknowledged(b"a")
        known = history.known()
        history.whole(known, [(b"a", rows[0]), (b"a", rows[2])])
        with pytest.raises(Violation, match="P1"):
            history.whole(known, [(b"a", rows[1])])
        with pytest.raises(Violation, match="P4"):
            history.whole(known, [(b"a", rows[2]), (b"a", rows[1])])

    def test_what_was_deleted_may_be_gone(self):
        history = KeyedHistory("k-0")
        first = history.write(b"a", delete=False)
        history.acknowledged(b"a")
        known = history.known()
        history.write(b"a", delete=True)
        history.whole(known, [(b"a", first), (b"a", None)])
        history.whole(known, [])
        with pytest.raises(Violation, match="P2"):
            history.found(0, 7, b"a", b"something else")
