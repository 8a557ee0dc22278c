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
        return landed(state, ClosingBatch(Totals(3, 0, 1), 5, 9), ())


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
