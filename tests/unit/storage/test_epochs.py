"""Leader epochs: what a leader answers, what truncation leaves, what the file holds."""

import pytest

from moldau.base.errors import InvariantViolated, StorageError
from moldau.storage.disk import Disk
from moldau.storage.epochs import (
    LEADER_EPOCHS,
    UNKNOWN_EPOCH_END,
    EpochEntry,
    LeaderEpochs,
    format_epochs,
    load_epochs,
    parse_epochs,
    save_epochs,
)


def epochs(*entries):
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


class TestAnswers:
    def test_the_current_epoch_ends_at_the_end_of_the_log(self):
        assert epochs((0, 0), (1, 120)).end_offset_for(1, 150) == (1, 150)

    def test_an_epoch_left_behind_ends_where_the_next_begins(self):
        assert epochs((0, 0), (1, 120)).end_offset_for(0, 150) == (0, 120)

    def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before_it(self):
        assert epochs((1, 10), (4, 20)).end_offset_for(3, 50) == (1, 20)

    def test_an_epoch_before_all_of_ours_ends_where_our_first_begins(self):
        assert epochs((5, 70), (6, 90)).end_offset_for(3, 100) == (3, 70)

    @pytest.mark.parametrize("epoch", [-1, 2, 99])
    def test_no_epoch_and_a_later_one_than_ours_are_unknown(self, epoch):
        assert epochs((0, 0), (1, 120)).end_offset_for(epoch, 150) == (-1, -1) == UNKNOWN_EPOCH_END

    @pytest.mark.parametrize("epoch", [-1, 0, 5])
    def test_without_entries_every_epoch_is_unknown(self, epoch):
        assert epochs().end_offset_for(epoch, 0) == (-1, -1)

    def test_a_follower_that_truncates_to_the_answer_keeps_what_both_wrote_alike(self):
        """Accident 1: the returning replica hears 2 for epoch 0 and keeps both its records."""
        leader = epochs((0, 0))
        assert min(2, leader.end_offset_for(0, 2).end_offset) == 2

    def test_a_diverged_follower_hears_where_it_diverged(self):
        """Accident 2: B leads epoch 1 from offset 1; A's own record at offset 1 must go."""
        leader = epochs((0, 0), (1, 1))
        assert min(2, leader.end_offset_for(0, 2).end_offset) == 1

    @pytest.mark.parametrize(
        ("offset", "epoch"), [(0, -1), (9, -1), (10, 1), (19, 1), (20, 4), (500, 4)]
    )
    def test_a_record_belongs_to_the_epoch_that_began_last_before_it(self, offset, epoch):
        assert epochs((1, 10), (4, 20)).epoch_for(offset) == epoch


class TestAssign:
    def test_a_new_epoch_is_news_and_its_going_on_is_not(self):
        kept = epochs((0, 0))
        assert kept.assign(1, 120)
        kept.dirty = False
        assert not kept.assign(1, 120)
        assert not kept.assign(1, 130)
        assert kept.entries == ((0, 0), (1, 120))
        assert kept.latest == 1
        assert not kept.dirty

    def test_an_epoch_that_begins_where_another_wrote_nothing_takes_its_place(self):
        kept = epochs((0, 0), (1, 120))
        kept.assign(2, 120)
        assert kept.entries == ((0, 0), (2, 120))

    def test_entries_that_contradict_the_new_one_go(self):
        kept = epochs((0, 0), (3, 120), (5, 200))
        kept.assign(4, 150)
        assert kept.entries == ((0, 0), (3, 120), (4, 150))
        kept.assign(6, 100)
        assert kept.entries == ((0, 0), (6, 100))

    def test_the_current_epoch_can_be_found_to_begin_earlier(self):
        kept = epochs((0, 0), (1, 120))
        assert kept.assign(1, 110)
        assert kept.entries == ((0, 0), (1, 110))

    @pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
    def test_nothing_is_negative(self, entry):
        with pytest.raises(InvariantViolated):
            epochs().assign(*entry)


class TestTruncation:
    @pytest.mark.parametrize(
        ("end", "left"),
        [(200, ((0, 0), (1, 120))), (121, ((0, 0), (1, 120))), (120, ((0, 0),)), (0, ())],
    )
    def test_epochs_that_begin_at_the_new_end_or_later_go(self, end, left):
        kept = epochs((0, 0), (1, 120))
        kept.truncate_from_end(end)
        assert kept.entries == left
        assert kept.latest == (left[-1][0] if left else -1)
        assert kept.dirty == (len(left) < 2)

    @pytest.mark.parametrize(
        ("start", "left"),
        [
            (0, ((0, 0), (1, 120))),
            (50, ((0, 50), (1, 120))),
            (120, ((1, 120),)),
            (130, ((1, 130),)),
        ],
    )
    def test_the_epoch_that_holds_the_new_start_begins_there(self, start, left):
        kept = epochs((0, 0), (1, 120))
        kept.truncate_from_start(start)
        assert kept.entries == left

    def test_a_start_before_all_entries_changes_nothing(self):
        kept = epochs((3, 50))
        kept.truncate_from_start(20)
        assert kept.entries == ((3, 50),)
        assert not kept.dirty

    def test_clear_forgets_all(self):
        kept = epochs((3, 50))
        kept.clear()
        assert kept.entries == ()
        assert kept.latest == -1
        assert kept.dirty


class TestFile:
    def test_the_text_is_kafkas(self):
        assert format_epochs(epochs((0, 0), (1, 120))) == b"0\n2\n0 0\n1 120\n"

    def test_what_was_saved_is_loaded(self, tmp_path):
        disk, folder = Disk(), str(tmp_path)
        kept = epochs((0, 0))
        kept.assign(7, 99)
        save_epochs(disk, folder, kept)
        assert not kept.dirty
        assert load_epochs(disk, folder).entries == ((0, 0), (7, 99))
        assert not load_epochs(disk, folder).dirty

    def test_nothing_is_written_when_nothing_has_changed(self, tmp_path):
        save_epochs(Disk(), str(tmp_path), epochs((0, 0)))
        assert not (tmp_path / LEADER_EPOCHS).exists()

    def test_no_file_means_no_epochs(self, tmp_path):
        assert load_epochs(Disk(), str(tmp_path)).entries == ()

    def test_entries_out_of_order_are_resolved_as_if_they_had_happened(self):
        assert parse_epochs("f", b"0\n3\n0 0\n5 20\n3 10\n").entries == ((0, 0), (3, 10))

    @pytest.mark.parametrize(
        ("content", "line"),
        [
            (b"1\n0\n", "line 1"),
            (b"0\n2\n0 0\n", "line 2"),
            (b"0\n1\n0\n", "line 3"),
            (b"0\n1\n0 x\n", "line 3"),
            (b"0\n1\n-1 0\n", "line 3"),
            (b"0\n1\n2147483648 0\n", "line 3"),
            (b"0\n1\n0 -5\n", "line 3"),
        ],
    )
    def test_a_bad_file_is_named_with_its_line(self, content, line):
        with pytest.raises(StorageError, match=f"^t-0/epochs: {line}: "):
            parse_epochs("t-0/epochs", content)
