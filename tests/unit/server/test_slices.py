"""Long work in slices: who gets a turn when, and how work ends."""

import asyncio
import gc

import pytest

from moldau.observe.loop_lag import LoopLag
from moldau.server.network.slices import (
    COLLECTIONS_HELD_S,
    FIRST_SLICE_S,
    NEVER,
    SLICE_S,
    TURN_S,
    Finished,
    SlicedWork,
)

STEP_S = SLICE_S / 4


class Clock:
    """Stands still but for the steps of the work."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def steps(clock, count, result, seen=None):
    """Work of so many steps, each of which takes its time."""
    for step in range(count):
        clock.now += STEP_S
        if seen is not None:
            seen.append((result, step))
        yield
    return result


@pytest.fixture
def short_collections_wait(monkeypatch):
    """Collect garbage soon after the last work was paused."""
    monkeypatch.setattr("moldau.server.network.slices.COLLECTIONS_WAIT_S", 0.01)


async def until_collected(threshold):
    """Wait until the garbage collector makes full runs again."""
    while gc.get_threshold() != threshold:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)


def test_short_work_is_done_at_once(clock):
    assert SlicedWork(clock).start(steps(clock, 3, "done")) == Finished("done")


def test_long_work_goes_on_while_the_loop_does_other_things(clock):
    async def run():
        seen = []
        future = SlicedWork(clock).start(steps(clock, 200, "done", seen))
        first = len(seen)
        assert first == FIRST_SLICE_S / STEP_S
        turns = []
        while not future.done():
            before = len(seen)
            await asyncio.sleep(0)
            turns.append(len(seen) - before)
        assert max(turns) <= TURN_S / STEP_S
        return await future

    assert asyncio.run(run()) == "done"


def test_all_work_together_gets_one_turn_and_shares_it(clock):
    async def run():
        sliced, seen = SlicedWork(clock), []
        futures = [sliced.start(steps(clock, 100, name, seen)) for name in "abcdefgh"]
        seen.clear()
        await asyncio.sleep(0)
        assert len(seen) <= TURN_S / STEP_S
        assert len({name for name, _ in seen}) == TURN_S / SLICE_S
        assert await asyncio.gather(*futures) == list("abcdefgh")

    asyncio.run(run())


def test_work_that_is_begun_by_other_work_gets_no_second_turn(clock):
    async def run():
        sliced, seen = SlicedWork(clock), []

        def beginning():
            yield from steps(clock, 20, None)
            return sliced.pause(steps(clock, 200, "more", seen))

        more = await sliced.start(beginning())
        while not more.done():
            before = len(seen)
            await asyncio.sleep(0)
            assert len(seen) - before <= TURN_S / STEP_S

    asyncio.run(run())


def test_an_error_reaches_the_caller_who_waits(clock):
    def failing():
        yield from steps(clock, 50, None)
        raise ValueError("broken")

    async def run():
        with pytest.raises(ValueError, match="broken"):
            await SlicedWork(clock).start(failing())

    asyncio.run(run())


@pytest.mark.parametrize("fails", [False, True])
def test_the_garbage_collector_makes_no_full_run_until_work_was_paused_no_more(
    clock, fails, short_collections_wait
):
    def work(count):
        yield from steps(clock, count, None)
        if fails:
            raise ValueError

    async def run():
        before = gc.get_threshold()
        sliced = SlicedWork(clock)
        futures = [sliced.start(work(count)) for count in (50, 100)]
        assert gc.get_threshold() == (*before[:2], NEVER)
        await asyncio.wait(futures[:1])
        assert gc.get_threshold() == (*before[:2], NEVER)
        await asyncio.gather(*futures, return_exceptions=True)
        assert gc.get_threshold() == (*before[:2], NEVER)
        await until_collected(before)

    asyncio.run(run())


def test_full_runs_wait_for_work_that_is_paused_again(clock, short_collections_wait):
    async def run():
        sliced = SlicedWork(clock)
        await sliced.start(steps(clock, 50, None))
        ended = []
        future = sliced.start(endless(clock, ended))
        await asyncio.sleep(0.05)
        assert gc.get_threshold()[2] == NEVER
        future.cancel()
        sliced.close()
        assert gc.get_threshold()[2] != NEVER

    asyncio.run(run())


def test_full_runs_wait_for_a_coroutine_in_which_a_large_request_goes_on(
    clock, short_collections_wait
):
    async def run():
        before = gc.get_threshold()
        sliced = SlicedWork(clock)
        going_on = asyncio.get_running_loop().create_future()
        await sliced.start(steps(clock, 50, None))
        sliced.hold_collections(going_on)
        await asyncio.sleep(0.05)
        assert gc.get_threshold()[2] == NEVER
        going_on.set_result(None)
        await until_collected(before)

    asyncio.run(run())


def test_full_runs_do_not_wait_for_ever(clock, short_collections_wait):
    async def run():
        before = gc.get_threshold()
        sliced = SlicedWork(clock)
        await sliced.start(steps(clock, 50, None))
        sliced.hold_collections(asyncio.get_running_loop().create_future())
        clock.now += COLLECTIONS_HELD_S
        await until_collected(before)

    asyncio.run(run())


def test_two_brokers_in_one_process_do_not_end_garbage_collection(clock, short_collections_wait):
    async def run():
        before = gc.get_threshold()
        futures = [SlicedWork(clock).start(steps(clock, count, None)) for count in (50, 100)]
        await asyncio.wait(futures)
        await until_collected(before)

    asyncio.run(run())


def endless(clock, ended):
    """Work that only ends when it is closed, and notes that."""
    try:
        yield from steps(clock, 1_000_000, None)
    finally:
        ended.append(True)


def test_closing_ends_what_is_paused_and_garbage_is_collected_again(clock):
    ended = []

    async def run():
        before = gc.get_threshold()
        sliced = SlicedWork(clock)
        futures = [sliced.start(endless(clock, ended)) for _ in range(3)]
        sliced.close()
        assert ended == [True] * 3
        assert all(future.cancelled() for future in futures)
        assert gc.get_threshold() == before
        await asyncio.sleep(0)

    asyncio.run(run())


def test_work_that_nobody_waits_for_is_closed(clock):
    ended = []

    async def run():
        future = SlicedWork(clock).start(endless(clock, ended))
        future.cancel()
        await asyncio.sleep(0)

    asyncio.run(run())
    assert ended == [True]


def test_first_slices_of_one_turn_share_the_time_of_one(clock):
    async def run():
        sliced, seen = SlicedWork(clock), []
        for name in range(20):
            sliced.start(steps(clock, 100, name, seen))
        # A step of work cannot be cut short: each gets one, the first one its whole slice.
        assert len(seen) == FIRST_SLICE_S / STEP_S + 19
        await asyncio.sleep(0)
        seen.clear()
        sliced.start(steps(clock, 100, "next turn", seen))
        assert len(seen) == FIRST_SLICE_S / STEP_S

    asyncio.run(run())


def test_work_that_holds_the_loop_is_noted_with_its_name(clock):
    def step_of(seconds):
        yield from steps(clock, 40, None)
        clock.now += seconds
        yield from steps(clock, 40, None)

    async def run():
        lag = LoopLag()
        sliced = SlicedWork(clock, lag)
        await asyncio.gather(
            sliced.start(step_of(0.2), "short"), sliced.start(step_of(0.3), "long")
        )
        noted = []
        lag.note = lambda *args: noted.append(args)
        sliced.start(iter_once(clock, 0.5), "at once")
        assert noted[0][1] == "at once"
        lag.tick(1.0, 0.0)
        assert lag.longest_s == pytest.approx(0.3, abs=0.01)

    asyncio.run(run())


def iter_once(clock, seconds):
    clock.now += seconds
    yield
