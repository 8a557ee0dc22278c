"""When windows close and what is late: the rule, on its own, against a plain account of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.errors import UserError
from moldau.spark.pipelines.windowed.closing import (
    Closing,
    ClosingBatch,
    OpenFiles,
    State,
    Totals,
    closed,
    due,
    landed,
)

WINDOW_MS, DELAY_MS = 10, 25


def take(state, times, number):
    """Handle a batch of event times; return the state, the late ones and what was closed."""
    until = state.closed_until_ms
    on_time = [time for time in times if until is None or time >= until]
    first, last = (min(on_time), max(on_time)) if on_time else (None, None)
    counts = Totals(len(on_time), len(times) - len(on_time))
    state = landed(state, ClosingBatch(counts, first, last), [f"file-{number}"] if on_time else [])
    closing = due(state, WINDOW_MS, DELAY_MS)
    after = state if closing is None else closed(state, closing)
    return after, on_time, closing


@given(st.lists(st.lists(st.integers(0, 300), max_size=8), max_size=12))
def test_each_event_is_counted_in_the_one_closing_of_its_window_or_is_late(batches):
    state, files, rolled = State(), {}, []
    late = 0
    for number, times in enumerate(batches):
        state, on_time, closing = take(state, times, number)
        late += len(times) - len(on_time)
        files[f"file-{number}"] = on_time
        if closing is not None:
            since = -1 if closing.since_ms is None else closing.since_ms
            found = [time for path in closing.paths for time in files[path]]
            rolled += [time for time in found if since <= time < closing.until_ms]
    everything = [time for on_time in files.values() for time in on_time]
    end = -1 if state.closed_until_ms is None else state.closed_until_ms
    assert sorted(rolled) == sorted(time for time in everything if time < end)
    assert state.totals == Totals(len(everything), late)


@given(st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=8), min_size=1, max_size=12))
def test_nothing_within_the_delay_is_late_and_closings_only_go_on(batches):
    state, newest = State(), None
    for number, times in enumerate(batches):
        before = state.closed_until_ms
        if newest is not None and before is not None:
            assert before <= newest - DELAY_MS
            assert before % WINDOW_MS == 0
        state, on_time, _ = take(state, times, number)
        if on_time:
            newest = max(newest or 0, *on_time)
        assert before is None or (state.closed_until_ms or 0) >= before


def test_files_are_let_go_when_all_their_windows_are_closed():
    state = State(newest_ms=100, open_files=(OpenFiles(0, 39, ("a",)), OpenFiles(35, 60, ("b",))))
    closing = Closing(None, 40, ("a", "b"))

    assert closed(state, closing).open_files == (OpenFiles(35, 60, ("b",)),)


def test_a_batch_of_late_events_closes_nothing():
    state = State(newest_ms=100, closed_until_ms=70)

    after = landed(state, ClosingBatch(Totals(late=3), None, None), [])

    assert due(after, WINDOW_MS, DELAY_MS) is None
    assert after.totals.late == 3


def test_what_is_written_down_is_read_back():
    state = State(5, 0, {"events": 2}, 1, (OpenFiles(1, 2, ("a", "b")),), Totals(1, 2, 3))
    state = state.with_note("sessions", "here").with_note("other", "x").with_note("other", None)

    assert State.from_json(state.to_json(), "f") == state
    assert State.from_json(State().to_json(), "f") == State()
    assert state.notes == {"sessions": "here"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1}', '{"version": 9}'])
def test_what_is_no_state_is_refused_in_one_line(text):
    with pytest.raises(UserError) as refused:
        State.from_json(text, "folder/7")
    assert str(refused.value).startswith("folder/7")
    assert "\n" not in str(refused.value)


def test_appends_are_numbered_by_table():
    state = State().with_append("events").with_append("events").with_append("late")

    assert (state.next_append("events"), state.next_append("late")) == (2, 1)
    assert json.loads(state.to_json())["appended"] == {"events": 2, "late": 1}
