"""Error rates per service and window, and when they are worth an alert."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.spark.pipelines.logs import alerts, rates
from moldau.spark.pipelines.logs.alerts import OVER, RAISED, Limits, watched
from moldau.spark.pipelines.logs.rates import (
    OTHERS,
    SERVICES_MAX,
    UNNAMED,
    Count,
    Part,
    added,
    parted,
)
from moldau.spark.pipelines.logs.start import ALERTS, RATES, Closer
from moldau.spark.pipelines.storage import LocalFiles
from moldau.spark.pipelines.tables.appending import Table
from moldau.spark.pipelines.tables.committed import files_of
from moldau.spark.pipelines.tables.file_log import FileLog
from moldau.spark.pipelines.windowed.closing import (
    Closing,
    OpenFiles,
    State,
    closed,
    due_by_clock,
)

LIMITS = Limits(rate=0.2, factor=5, errors_min=10)


def kinds(shares, limits=LIMITS, rows=1000):
    """Return the alerts of one service, by window, for the errors of each window."""
    windows = {start: {"shop": Count(rows, errors)} for start, errors in enumerate(shares)}
    return [(one.window_ms, one.kind) for one in watched({}, windows, limits)[1]]


# Counting


def test_counts_of_batches_add_up():
    once = added({}, [Part(0, "a", Count(3, 1)), Part(60, "a", Count(1, 0))])
    twice = added(once, [Part(0, "a", Count(2, 2)), Part(0, None, Count(1, 1))])
    assert twice == {0: {"a": Count(5, 3), UNNAMED: Count(1, 1)}, 60: {"a": Count(1, 0)}}
    assert once == {0: {"a": Count(3, 1)}, 60: {"a": Count(1, 0)}}
    assert Count(4, 1).rate == 0.25
    assert Count().rate == 0


def test_closed_windows_are_parted_from_open_ones():
    windows = {0: {"a": Count(1)}, 60: {"a": Count(2)}, 120: {"a": Count(3)}}
    assert parted(windows, 120) == ({0: windows[0], 60: windows[60]}, {120: windows[120]})


def test_too_many_services_are_counted_together():
    parts = [Part(0, f"s-{number}", Count(number, 1)) for number in range(SERVICES_MAX + 50)]
    (services,) = added({}, parts).values()
    assert len(services) == SERVICES_MAX
    assert services[OTHERS] == Count(sum(range(51)), 51)
    (again,) = added({0: services}, [Part(0, "new", Count(1, 0))]).values()
    assert len(again) == SERVICES_MAX
    assert sum(one.rows for one in again.values()) == sum(one.counted.rows for one in parts) + 1


@given(st.dictionaries(
    st.integers(0, 9), st.dictionaries(st.text(max_size=3), st.builds(Count, st.integers(0, 9)))
))  # fmt: skip
def test_counts_are_read_as_they_were_written(windows):
    assert rates.from_note(rates.to_note(windows)) == windows
    assert rates.from_note(None) == {}


# Alerts


def test_a_rate_above_the_limit_is_one_alert_until_it_is_over():
    assert kinds([0, 300, 400, 250, 150, 90, 0]) == [(1, RAISED), (5, OVER)]


def test_a_rate_that_wavers_around_the_limit_is_one_alert():
    assert kinds([210, 190, 210, 190, 210, 190]) == [(0, RAISED)]


def test_few_errors_are_no_alert_whatever_their_share():
    assert kinds([9], rows=9) == []
    assert kinds([10], rows=10) == [(0, RAISED)]


def test_a_multiple_of_what_is_usual_is_an_alert_once_something_is():
    assert kinds([10] * 12 + [60]) == [(12, RAISED)]
    assert kinds([10] * 12 + [40]) == []
    assert kinds([10] * 5 + [60]) == []


def test_a_service_that_never_fails_is_not_alerted_of_its_first_errors():
    assert kinds([0] * 20 + [39]) == []
    assert kinds([0] * 20 + [41]) == [(20, RAISED)]


def test_bad_windows_do_not_become_usual():
    assert kinds([10] * 12 + [900] * 50 + [10, 60]) == [(12, RAISED), (62, OVER), (63, RAISED)]


def test_a_service_that_falls_silent_has_no_alert_any_more():
    windows = {0: {"shop": Count(100, 90)}, 1: {"cart": Count(5, 0)}}
    watches, told = watched({}, windows, LIMITS)
    assert [(one.window_ms, one.service, one.kind) for one in told] == [
        (0, "shop", RAISED),
        (1, "shop", OVER),
    ]
    assert set(watches) == {"shop", "cart"}


def test_services_that_are_silent_the_longest_are_forgotten_first():
    watches = {}
    for start in range(SERVICES_MAX + 3):
        watches, _ = watched(watches, {start: {f"s-{start}": Count(1, 0)}}, LIMITS)
    assert len(watches) == SERVICES_MAX
    assert "s-2" not in watches
    assert "s-3" in watches


@given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.integers(0, 40))
def test_it_makes_no_difference_how_windows_fall_into_batches(shares, cut):
    """Also through what is written down in between: a restart goes on as if there had been none."""
    windows = {start: {"shop": Count(100, errors)} for start, errors in enumerate(shares)}
    whole = watched({}, windows, LIMITS)
    first, second = parted(windows, cut)
    watches, told = watched({}, first, LIMITS)
    watches, more = watched(alerts.from_note(alerts.to_note(watches)), second, LIMITS)
    assert (watches, told + more) == whole
    assert [one.kind for one in whole[1]] == [RAISED, OVER] * (len(whole[1]) // 2) + (
        [RAISED] if len(whole[1]) % 2 else []
    )


# Closing

WINDOW_MS = 60_000


def close(out, state, number, rate):
    """Close a window in a process of its own, as it were; return the state after that."""
    options = {"window": WINDOW_MS, "alert-factor": 5, "alert-errors": 10,
               "alerts-topic": None, "rates-topic": None}  # fmt: skip
    stage = SimpleNamespace(options=options, whole=options.get, ratio=lambda _: rate)
    files = LocalFiles()
    tables = {
        name: Table(files, str(out / name), FileLog(files, str(out / name)))
        for name in (RATES, ALERTS)
    }
    closing = Closing(None, (number + 1) * WINDOW_MS, ())
    return closed(Closer(stage, tables).close(state, closing), closing)


def filed(out, table):
    """Return the windows of a table's rows, by their numbers."""
    found = [
        row["window_start"]
        for file in files_of(out / table)
        for row in pq.ParquetFile(file.path).read().to_pylist()
    ]
    return sorted(int(time.timestamp() * 1000) // WINDOW_MS for time in found)


def test_no_alert_is_taken_for_one_that_was_filed_under_other_limits(tmp_path):
    """The process ends before the state is written; the next one has another --alert-rate."""
    shares = [50, 0, 95, 0, 0, 50]
    windows = {
        number * WINDOW_MS: {"shop": Count(100, errors)} for number, errors in enumerate(shares)
    }
    state = State().with_note("windows", rates.to_note(windows))
    close(tmp_path, state, 0, rate=0.2)
    assert filed(tmp_path, ALERTS) == [0]

    for number in range(len(shares)):
        state = close(tmp_path, state, number, rate=0.9)

    assert filed(tmp_path, ALERTS) == [0, 2, 3]
    assert filed(tmp_path, RATES) == [0, 1, 2, 3, 4, 5]
    assert state.appended == {ALERTS: 6, RATES: 6}


@pytest.mark.parametrize("closings", [[0, 2, 9, 10, 11], [1, 2, 10, 11], [0, 10, 11], [11]])
def test_an_alert_is_over_with_a_window_in_which_no_service_wrote(tmp_path, closings):
    """Also if its service is the only one, and however windows fall into batches."""
    windows = {number * WINDOW_MS: {"shop": Count(100, 95)} for number in (0, 1, 10)}
    state = State().with_note("windows", rates.to_note(windows))
    for number in closings:
        state = close(tmp_path, state, number, rate=0.2)
    assert filed(tmp_path, ALERTS) == [0, 2, 10, 11]
    assert filed(tmp_path, RATES) == [0, 1, 10]


def test_a_service_that_logs_errors_and_falls_silent_raises_its_alert(tmp_path):
    """Nothing comes any more: the clock closes the window, and the one after it."""
    windows = {0: {"shop": Count(100, 95)}}
    state = State(newest_ms=10, latest_ms=10, open_files=(OpenFiles(0, 10, ("logs",)),))
    state = state.with_note("windows", rates.to_note(windows))
    until_ms = due_by_clock(state, 10 * WINDOW_MS, WINDOW_MS, 0, lasting_ms=WINDOW_MS)
    close(tmp_path, state, until_ms // WINDOW_MS - 1, rate=0.2)
    assert filed(tmp_path, ALERTS) == [0, 1]


def test_the_alerts_of_tables_from_before_go_on_with_the_next_number(tmp_path):
    """There, a closing without alerts had no append."""
    windows = {number * WINDOW_MS: {"shop": Count(100, 95)} for number in range(2)}
    before = close(tmp_path, State().with_note("windows", rates.to_note(windows)), 0, rate=0.9)
    state = close(tmp_path, before._replace(closings=17), 1, rate=0.9)
    assert state.next_append(ALERTS) == 2
    assert filed(tmp_path, ALERTS) == [0]
