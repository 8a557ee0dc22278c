"""What is kept and told of the event loop's stalls."""

import asyncio
import gc
import time

import pytest

from moldau.observe.loop_lag import LAG_BUCKETS_S, RECENT_S, WARNINGS_EVERY_S, LoopLag, watch_loop
from moldau.observe.prometheus import _loop_lag as families


@pytest.fixture
def lag():
    return LoopLag()


def test_the_longest_stall_is_kept_for_good_and_the_recent_one_for_a_while(lag):
    lag.tick(0.0, 0.3)
    lag.tick(1.0, 0.02)
    assert (lag.longest_s, lag.recent_s) == (0.3, 0.3)
    lag.tick(RECENT_S + 1, 0.1)
    assert lag.recent_s == 0.3
    lag.tick(2 * RECENT_S + 2, 0.01)
    assert (lag.longest_s, lag.recent_s) == (0.3, 0.1)
    assert sum(lag.buckets) == 4


def test_a_noted_time_counts_where_the_tick_was_hardly_late(lag):
    lag.note(0.2, "first")
    lag.note(0.1, "second")
    lag.tick(0.0, 0.001)
    lag.tick(1.0, 0.0)
    assert lag.longest_s == 0.2
    assert lag.seconds == 0.2


def test_a_long_stall_is_told_once_in_a_while_and_names_its_cause(lag, caplog):
    lag.note(1.1, "a request")
    lag.tick(100.0, 1.1)
    assert caplog.messages == ["the event loop stood still for 1.10 s, for a request"]
    lag.tick(100.0 + WARNINGS_EVERY_S / 2, 3.0)
    assert len(caplog.messages) == 1
    lag.note(0.5, "another request")
    lag.tick(100.0 + WARNINGS_EVERY_S, 3.0)
    assert "3.00 s, for no request that is known" in caplog.messages[1]


@pytest.mark.parametrize(
    ("busy_s", "cause"), [(2.9, "work of the broker itself"), (0.1, "look at the disk")]
)
def test_of_a_stall_without_a_cause_it_is_told_whether_the_loop_worked(lag, caplog, busy_s, cause):
    lag.tick(100.0, 3.0, busy_s)
    (message,) = caplog.messages
    assert f"{busy_s:.2f} s of it on the processor" in message
    assert cause in message


def test_a_full_run_of_the_garbage_collector_is_named(lag, caplog, monkeypatch):
    times = iter([10.0, 12.0, 20.0, 20.001])
    monkeypatch.setattr("moldau.observe.loop_lag.time.perf_counter", lambda: next(times))
    for generation in (1, 2, 2):
        for phase in ("start", "stop"):
            lag.collector_ran(phase, {"generation": generation})
    lag.tick(100.0, 2.0)
    assert caplog.messages == [
        "the event loop stood still for 2.00 s, for a full run of the garbage collector"
    ]


def test_the_page_has_a_histogram_and_the_longest_stalls(lag):
    lag.tick(0.0, 0.003)
    lag.tick(1.0, 7.0)
    late, longest = families(lag)
    samples = {(one.name, *one.labels.values()): one.value for one in late.samples}
    name = "moldau_event_loop_lag_seconds"
    assert samples[f"{name}_bucket", "0.005"] == samples[f"{name}_bucket", "5"] == 1
    assert samples[f"{name}_bucket", "+Inf"] == samples[f"{name}_count",] == 2
    assert len(late.samples) == len(LAG_BUCKETS_S) + 3
    assert {one.labels["since"]: one.value for one in longest.samples} == {
        "start": 7.0,
        "minute": 7.0,
    }


def test_a_loop_that_is_held_up_is_seen_by_the_tick(lag):
    async def run():
        ticked = asyncio.Event()
        tick = lag.tick
        lag.tick = lambda *args: (tick(*args), ticked.set())
        ticking = asyncio.create_task(watch_loop(lag))
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - this is the stall
        await ticked.wait()
        ticking.cancel()

    asyncio.run(run())
    assert lag.longest_s > 0.1
    assert lag.collector_ran not in gc.callbacks
