"""The loop of batches: one that was done is not done again, and nothing is left out unsaid."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from moldau.base.errors import UserError
from moldau.spark.pipelines.activity.sessions import Sessions
from moldau.spark.pipelines.checkpoints import Ledger
from moldau.spark.pipelines.records.gathering import Rows
from moldau.spark.pipelines.stage import Report
from moldau.spark.pipelines.storage import LocalFiles
from moldau.spark.pipelines.windowed.batches import Batches
from moldau.spark.pipelines.windowed.closing import ClosingBatch, State, Totals, landed


class Landings:
    """Notes which batches were landed."""

    def __init__(self):
        self.numbers = []

    def land(self, state, rows, number):
        self.numbers.append(number)
        return state


class Counting:
    """Counts three rows on time and a dead one for every batch."""

    def land(self, state, rows, number):
        return landed(state, ClosingBatch(Totals(3, 0, 1), 5, 9, 1000), ("file",))


class Crash(Exception):  # noqa: N818 - it names the event
    """What ends a batch in the middle."""


class Crashing:
    """Files nothing."""

    def land(self, state, rows, number):
        raise Crash


@pytest.fixture
def stage(tmp_path):
    files = LocalFiles()
    return SimpleNamespace(
        files=files,
        place=lambda name: str(tmp_path / name),
        report=Report(),
        ledger=lambda: Ledger(files, str(tmp_path / "batch"), str(tmp_path / "checkpoint")),
    )


@pytest.fixture
def plan(tmp_path):
    """Return what plans a batch as Spark does, anew if there is one of its number."""
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)

    def write(number, end, time_ms=1):
        text = f'v1\n{{"batchTimestampMs": {time_ms}}}\n{{"t": {{"0": {end}}}}}'
        (offsets / str(number)).write_text(text)

    return write


def taking(stage, *numbers, landings=None):
    """Take batches as a run that has just begun, and return which of them were landed."""
    landings = landings or Landings()
    batches = Batches(stage, landings, None, window_ms=1, delay_ms=1)
    for number in numbers:
        batches.take(None, number)
    return landings.numbers


def test_the_last_batch_is_not_done_again(stage):
    assert taking(stage, 0, 1) == [0, 1]
    assert taking(stage, 1, 2) == [2]


def test_what_was_counted_is_told_before_the_first_batch_of_another_run(stage):
    for number in (0, 1):
        stage.report = Report()
        Batches(stage, Counting(), None, window_ms=1000, delay_ms=2).take(None, number)
    stage.report = Report()
    Batches(stage, Counting(), None, window_ms=1000, delay_ms=2)
    assert stage.report == Report({"events": 6, "late": 0, "dead": 2}, 9, 7)


def test_a_batch_is_not_taken_without_the_state_before_it(stage):
    assert taking(stage, 0) == [0]
    with pytest.raises(UserError, match="the state of batch 1 is missing"):
        taking(stage, 2)


def test_an_older_copy_of_a_checkpoint_is_refused(stage):
    assert taking(stage, 0, 1, 2) == [0, 1, 2]
    with pytest.raises(UserError, match=r"batches up to 2, and is to get 1: .* an older copy"):
        taking(stage, 1)


def test_a_copy_of_a_checkpoint_that_is_one_batch_older_is_refused(stage, plan):
    plan(0, 10)
    plan(1, 20)
    assert taking(stage, 0, 1) == [0, 1]
    plan(1, 25, time_ms=2)
    with pytest.raises(UserError, match="has another batch 1: the checkpoint is an older copy"):
        taking(stage, 1)


def test_a_batch_that_is_planned_anew_with_the_same_records_is_the_same(stage, plan):
    plan(0, 10)
    assert taking(stage, 0) == [0]
    plan(0, 10, time_ms=2)
    plan(1, 20)
    assert taking(stage, 0, 1) == [1]


def test_an_older_copy_is_refused_also_where_a_batch_was_filed_in_part(stage, plan):
    plan(0, 10)
    plan(1, 20)
    assert taking(stage, 0) == [0]
    with pytest.raises(Crash):
        taking(stage, 1, landings=Crashing())
    plan(1, 25)
    with pytest.raises(UserError, match="has another batch 1"):
        taking(stage, 1)


def test_another_history_is_refused_where_the_next_batch_begins(stage, plan):
    plan(0, 10)
    assert taking(stage, 0) == [0]
    plan(0, 15)
    plan(1, 20)
    with pytest.raises(UserError, match="has another batch 0"):
        taking(stage, 1)


def test_a_note_of_the_last_batch_that_is_damaged_is_refused_by_name(stage, tmp_path):
    assert taking(stage, 0) == [0]
    for text in ("", "[]", '{"number": 1}'):
        (tmp_path / "batch").write_text(text)
        with pytest.raises(UserError, match=f"{tmp_path / 'batch'} cannot be read"):
            taking(stage, 1)


def test_tables_of_before_go_on_without_such_a_note(stage, plan, tmp_path):
    plan(0, 10)
    assert taking(stage, 0) == [0]
    (tmp_path / "batch").unlink()
    plan(1, 20)
    assert taking(stage, 0, 1) == [1]


# The clock


class Closings:
    """Notes the windows that were closed, and crashes in the middle if it is told to."""

    def __init__(self, *, crashes=False):
        self.closed = []
        self._crashes = crashes

    def __call__(self, state, closing):
        self.closed.append((state.closings, closing.since_ms, closing.until_ms))
        if self._crashes:
            raise Crash
        return state.with_append("pages")


def clocked(stage, closings, lasting_ms=0):
    return Batches(stage, Counting(), closings, window_ms=10, delay_ms=20, lasting_ms=lasting_ms)


def test_the_clock_closes_what_batches_left_open_and_tells(stage):
    closings = Closings()
    batches = clocked(stage, closings)
    assert not batches.pass_time(100, is_end=True)
    batches.take(None, 0)
    assert not batches.pass_time(29, is_end=True)
    assert batches.pass_time(30, is_end=True)
    assert not batches.pass_time(1000, is_end=True)
    assert closings.closed == [(0, None, 10)]
    assert (stage.report.newest_ms, stage.report.watermark_ms) == (9, 10)
    again = clocked(stage, closings)
    assert not again.pass_time(1000, is_end=True)
    again.take(None, 0)
    assert closings.closed == [(0, None, 10)]


def test_what_lasts_is_ended_by_the_clock_unless_the_run_ends(stage):
    closings = Closings()
    batches = clocked(stage, closings, lasting_ms=15)
    batches.take(None, 0)
    assert batches.pass_time(1000, is_end=True)
    assert batches.pass_time(1000, is_end=False)
    assert closings.closed == [(0, None, 10), (1, 10, 30)]


@pytest.mark.parametrize("number", [0, 1])
def test_windows_that_the_clock_was_closing_are_closed_alike_after_a_crash(stage, number):
    """Whichever batch comes next: the last one once more, or another."""
    crashing = clocked(stage, Closings(crashes=True))
    crashing.take(None, 0)
    with pytest.raises(Crash):
        crashing.pass_time(30, is_end=True)
    closings = Closings()
    clocked(stage, closings).take(None, number)
    assert closings.closed == [(0, None, 10)]


def test_a_crash_of_the_clock_is_made_good_by_the_clock(stage):
    crashing = clocked(stage, Closings(crashes=True))
    crashing.take(None, 0)
    with pytest.raises(Crash):
        crashing.pass_time(30, is_end=True)
    closings = Closings()
    clocked(stage, closings).pass_time(31, is_end=True)
    assert closings.closed == [(0, None, 10)]


def test_the_clock_leaves_a_state_alone_from_which_a_batch_has_begun(stage):
    clocked(stage, Closings()).take(None, 0)
    with pytest.raises(Crash):
        Batches(stage, Crashing(), None, window_ms=10, delay_ms=20).take(None, 1)
    assert not clocked(stage, Closings()).pass_time(1000, is_end=True)


def test_open_sessions_that_a_try_before_has_written_by_tasks_are_not_carried_twice(tmp_path):
    names = ("what", "name", "start", "end", "first", "second")
    small = pa.table({name: ["open"] for name in names})
    left = tmp_path / "0000000003" / "part-00000.parquet"
    left.parent.mkdir()
    left.touch()

    state = Sessions(None, LocalFiles(), str(tmp_path), 1).carry(
        State(closings=3), Rows(None, small)
    )

    assert state.notes == {"sessions": str(left.parent)}
    assert [path.name for path in left.parent.iterdir()] == ["open.parquet"]
