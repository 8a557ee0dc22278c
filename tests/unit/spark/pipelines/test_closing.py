"""When windows close and what is late: the rule, on its own, against a plain account of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.errors import UserError
from moldau.spark.pipelines.windowed.closing import (
    AHEAD_TOLD_MS,
    Ahead,
    Closing,
    ClosingBatch,
    OpenFiles,
    State,
    Totals,
    closed,
    closing_until,
    due,
    due_by_clock,
    landed,
)

WINDOW_MS, DELAY_MS = 10, 25


def take(state, times, number, now=1000):
    """Handle a batch of event times; return the state, the late ones and what was closed."""
    until = state.closed_until_ms
    on_time = [time for time in times if until is None or time >= until]
    first, last = (min(on_time), max(on_time)) if on_time else (None, None)
    counts = Totals(len(on_time), len(times) - len(on_time))
    batch = ClosingBatch(counts, first, last, now)
    state = landed(state, batch, [f"file-{number}"] if on_time else [])
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


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 500)), min_size=1, max_size=12))
def test_a_clock_that_is_ahead_makes_nothing_late_of_those_that_are_right(batches):
    """Each batch holds an event of a right clock, and one that may be far ahead."""
    state, now = State(), 0
    for number, (step, ahead) in enumerate(batches):
        now += step
        state, on_time, closing = take(state, [now, now + ahead], number, now)
        assert len(on_time) == 2
        assert closing is None or closing.until_ms <= now - DELAY_MS


def test_an_event_that_is_ahead_is_counted_when_the_clock_has_reached_its_window():
    state, _, closing = take(State(), [60, 100, 500], 0, now=100)
    assert (state.newest_ms, closing.until_ms) == (100, 70)
    state, _, closing = take(state, [535], 1, now=535)
    assert "file-0" in closing.paths
    assert closing.until_ms == 510


def test_a_source_that_is_far_ahead_is_told_of_for_an_hour():
    def after(state, now, ahead=None):
        return landed(state, ClosingBatch(Totals(1), 5, 5, now, ahead), ["f"])

    web, shop = Ahead("web-1", 540_000, 1000), Ahead("shop", 5000, 2000)
    assert after(State(), 1000, web).ahead == web
    state = after(after(State(), 1000, web), 2000, shop)
    assert state.ahead == shop
    assert State.from_json(state.to_json(), "f") == state
    assert after(state, 2000 + AHEAD_TOLD_MS).ahead == shop
    assert after(state, 2001 + AHEAD_TOLD_MS).ahead is None


def test_a_state_from_before_sources_were_named_is_read():
    told = json.loads(State(newest_ms=7).to_json())
    del told["ahead"]
    assert State.from_json(json.dumps(told), "f") == State(newest_ms=7)


def test_files_are_let_go_when_all_their_windows_are_closed():
    state = State(newest_ms=100, open_files=(OpenFiles(0, 39, ("a",)), OpenFiles(35, 60, ("b",))))
    closing = Closing(None, 40, ("a", "b"))

    assert closed(state, closing).open_files == (OpenFiles(35, 60, ("b",)),)


def test_a_batch_of_late_events_closes_nothing():
    state = State(newest_ms=100, closed_until_ms=70)

    after = landed(state, ClosingBatch(Totals(late=3), None, None, 1000), [])

    assert due(after, WINDOW_MS, DELAY_MS) is None
    assert after.totals.late == 3


# Closed by the clock


def by_clock(state, now, lasting=0):
    return due_by_clock(state, now, WINDOW_MS, DELAY_MS, lasting)


def test_the_last_windows_are_closed_when_the_clock_is_past_them_and_the_delay():
    state, _, _ = take(State(), [101, 117], 0)
    assert by_clock(state, 109 + DELAY_MS) is None
    assert by_clock(state, 110 + DELAY_MS) == 110
    assert by_clock(state, 10**6) == 120
    half = closed(state, closing_until(state, 110))
    assert (by_clock(half, 10**6), closing_until(half, 120).since_ms) == (120, 110)
    whole = closed(half, closing_until(half, 120))
    assert by_clock(whole, 10**6) is None
    assert whole.open_files == ()


def test_the_clock_closes_no_window_after_those_that_have_events_but_what_may_last():
    state, _, _ = take(State(), [101], 0)
    assert by_clock(state, 10**6, lasting=25) == 140
    after = closed(state, closing_until(state, 110))
    assert (by_clock(after, 10**6), by_clock(after, 10**6, lasting=25)) == (None, 140)


def test_the_clock_closes_nothing_before_there_are_events():
    assert by_clock(State(), 10**6) is None


def test_events_after_windows_that_the_clock_closed_are_on_time():
    state, _, _ = take(State(), [101], 0)
    state = closed(state, closing_until(state, by_clock(state, 10**6)))
    state, on_time, closing = take(state, [105, 110, 115], 1)
    assert (on_time, closing) == ([110, 115], None)


def test_the_clock_waits_for_an_event_that_is_ahead_of_it():
    state, _, _ = take(State(), [101, 500], 0, now=110)
    assert by_clock(state, 150) == 120
    assert by_clock(state, 510 + DELAY_MS) == 510


def test_a_state_from_before_the_clock_closed_windows_is_read():
    told = json.loads(State(newest_ms=7).to_json())
    del told["latest_ms"], told["by_clock_until_ms"]
    assert State.from_json(json.dumps(told), "f").latest_ms == 7


def test_what_is_written_down_is_read_back():
    state = State(5, 0, {"events": 2}, 1, (OpenFiles(1, 2, ("a", "b")),), Totals(1, 2, 3))
    state = state._replace(latest_ms=6, by_clock_until_ms=3)
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
