"""Virtual time, shuffled order, and the ways in which a run ends that would hang for real."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from moldau.base.checks import crash_point
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.loop import PROCESS, START_S, Deadlock, OutOfTime, Unhandled
from moldau.sim.world import EPOCH_MS, World


def run(scenario, seed=1, **options):
    with World(seed, **options) as world:
        return world.run(scenario(world))


def test_sleeping_takes_virtual_time_only():
    async def scenario(world):
        before = world.clock.monotonic()
        await asyncio.sleep(3000)
        return world.clock.monotonic() - before

    assert run(scenario) == 3000.0


def test_timers_fire_in_the_order_of_their_times():
    async def scenario(world):
        fired: list[int] = []
        for number in (3, 1, 2):
            world.loop.call_later(number, fired.append, number)
        await asyncio.sleep(5)
        return fired

    assert run(scenario) == [1, 2, 3]


def test_a_cancelled_timer_neither_fires_nor_moves_time():
    async def scenario(world):
        fired: list[int] = []
        world.loop.call_later(100, fired.append, 1).cancel()
        await asyncio.sleep(1)
        return fired, world.loop.time()

    assert run(scenario) == ([], START_S + 1)


def test_of_a_process_that_ended_nothing_goes_on():
    """Its timers do not fire, those it sets while it unwinds neither; others' do."""

    async def scenario(world):
        fired: list[str] = []

        async def live(name):
            world.loop.call_later(1, fired.append, f"timer of {name}")
            try:
                await asyncio.sleep(2)
                fired.append(f"task of {name}")
            finally:
                world.loop.call_later(3, fired.append, f"farewell of {name}")

        tasks = [
            world.loop.create_task(live(name), context=process_context(name))
            for name in ("one", "other")
        ]
        await asyncio.sleep(0.5)
        world.loop.end_process("one")
        await asyncio.wait(tasks)
        await asyncio.sleep(10)
        return sorted(fired)

    assert run(scenario) == ["farewell of other", "task of other", "timer of other"]


def process_context(name):
    context = contextvars.copy_context()
    context.run(PROCESS.set, name)
    return context


def test_asyncio_as_it_is_runs_on_it():
    async def scenario(world):
        queue: asyncio.Queue[int] = asyncio.Queue(2)
        lock = asyncio.Lock()
        taken: list[int] = []

        async def produce():
            for number in range(20):
                await queue.put(number)

        async def consume():
            for _ in range(10):
                async with lock:
                    taken.append(await queue.get())
                    await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            for worker in (produce(), consume(), consume()):
                group.create_task(worker)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await world.loop.create_future()
        return taken

    for seed in range(20):
        assert run(scenario, seed) == list(range(20))


def orders(fifo: bool) -> set[tuple[int, ...]]:
    async def scenario(world):
        order: list[int] = []
        for number in range(3):
            world.loop.call_soon(order.append, number)
        await asyncio.sleep(1)
        return tuple(order)

    return {run(scenario, seed, fifo=fifo) for seed in range(60)}


def test_what_could_run_in_one_turn_runs_in_any_order():
    assert len(orders(fifo=False)) == 6


def test_fifo_keeps_the_order_of_asyncio():
    assert orders(fifo=True) == {(0, 1, 2)}


def test_timers_due_together_are_shuffled_with_everything_else():
    async def scenario(world):
        order: list[str] = []
        when = world.loop.time() + 1
        world.loop.call_at(when, order.append, "a")
        world.loop.call_at(when, order.append, "b")
        await asyncio.sleep(2)
        return "".join(order)

    assert {run(scenario, seed) for seed in range(30)} == {"ab", "ba"}


def test_shuffling_finds_an_order_bug_that_fifo_hides():
    """A writer that checks its lease, waits a turn and writes, against one that takes it over."""

    async def scenario(world):
        owner, written = ["old"], []

        async def old_leader():
            if owner[0] == "old":
                await asyncio.sleep(0)
                written.append(("old", owner[0]))

        async def take_over():
            await asyncio.sleep(0)
            owner[0] = "new"

        await asyncio.gather(old_leader(), take_over())
        return written == [("old", "new")]

    assert not any(run(scenario, seed, fifo=True) for seed in range(50))
    assert any(run(scenario, seed) for seed in range(50))


def test_a_deadlock_names_who_waits_and_where():
    async def waits_for_ever():
        await asyncio.Event().wait()

    async def scenario(world):
        other = world.loop.create_task(waits_for_ever(), name="the reader")
        await asyncio.gather(other)

    with pytest.raises(Deadlock, match=r"(?s)task-1 waits at .*the reader waits at .*Event\.wait"):
        run(scenario)


def test_a_run_ends_at_its_limit():
    async def scenario(world):
        while True:  # noqa: ASYNC110 - never finished, which is the point
            await asyncio.sleep(1)

    with World(1) as world, pytest.raises(OutOfTime, match="1005"):
        world.run(scenario(world), limit_s=5)


def test_spinning_without_time_passing_is_found():
    async def scenario(world):
        while True:  # noqa: ASYNC110 - spinning, which is the point
            await asyncio.sleep(0)

    with pytest.raises(OutOfTime, match="without time passing"):
        run(scenario)


def test_a_failure_nobody_saw_ends_the_run():
    async def scenario(world):
        world.loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(10)

    with pytest.raises(Unhandled, match="ZeroDivisionError") as failure:
        run(scenario)
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_a_task_that_failed_unseen_ends_the_run():
    async def fails():
        raise LookupError("unseen")

    async def scenario(world):
        asyncio.ensure_future(fails())  # noqa: RUF006 - dropping it is the point
        await asyncio.sleep(10)

    with pytest.raises(Unhandled, match="unseen"):
        run(scenario)


def test_a_world_runs_several_times_and_keeps_what_was_started():
    with World(1) as world:
        ticks: list[float] = []

        async def tick():
            while True:
                await asyncio.sleep(1)
                ticks.append(world.loop.time())

        async def start():
            return asyncio.ensure_future(tick())

        ticking = world.run(start())
        world.run(asyncio.sleep(3.5))
        assert len(ticks) == 3
        assert not ticking.done()


def test_closing_cancels_what_still_runs():
    ended: list[str] = []

    async def lives():
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("cancelled")

    async def scenario(world):
        world.background = asyncio.ensure_future(lives())
        await asyncio.sleep(1)

    run(scenario)
    assert ended == ["cancelled"]


def test_closing_drops_a_task_that_will_not_end():
    async def stubborn():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def scenario(world):
        world.background = asyncio.ensure_future(stubborn())
        await asyncio.sleep(1)

    run(scenario)


def test_threads_become_delayed_callbacks_of_the_same_thread():
    async def scenario(world):
        before = world.loop.time()
        result = await asyncio.to_thread(divmod, 7, 2)
        with pytest.raises(ZeroDivisionError):
            await world.loop.run_in_executor(None, divmod, 1, 0)
        woken = world.loop.create_future()
        world.loop.call_soon_threadsafe(woken.set_result, "woken")
        return result, await woken, world.loop.time() > before

    assert run(scenario) == ((3, 1), "woken", True)


def test_the_wall_clock_follows_and_jumps_while_the_monotonic_one_does_not():
    async def scenario(world):
        start = world.clock.monotonic()
        assert world.clock.wall_ms() == EPOCH_MS
        await asyncio.sleep(1.5)
        assert world.clock.wall_ms() == EPOCH_MS + 1500
        world.clock.jump(-3_600_000)
        assert world.clock.wall_ms() == EPOCH_MS + 1500 - 3_600_000
        assert world.clock.monotonic() == start + 1.5

    run(scenario)


def test_a_wall_clock_that_drifts_keeps_what_it_has_gained():
    async def scenario(world):
        world.clock.drift(0.5)
        await asyncio.sleep(2.0)
        assert world.clock.wall_ms() == EPOCH_MS + 3_000
        world.clock.drift(-0.5)
        await asyncio.sleep(2.0)
        assert world.clock.wall_ms() == EPOCH_MS + 4_000

    run(scenario)


def test_streams_of_chance_do_not_disturb_each_other():
    with World(7) as one, World(7) as other:
        one.random("network").random()
        assert one.random("disk").random() == other.random("disk").random()
        assert one.random("network") is one.random("network")
        assert one.random("network").random() != other.random("network").random()


def test_a_crash_plan_ends_at_the_hit_it_was_told():
    passed: list[int] = []

    def work():
        for number in range(5):
            crash_point("log.roll")
            crash_point("log.append")
            passed.append(number)

    with CrashPlan("log.append", hit=3) as plan, pytest.raises(Crashed, match=r"log\.append"):
        work()
    assert passed == [0, 1]
    assert plan.passed == {"log.roll": 3, "log.append": 3}
    crash_point("log.append")


def test_a_crash_is_not_survived_by_a_handler_of_failures():
    async def scenario(world):
        try:
            crash_point("x")
        except Exception:  # noqa: BLE001
            return "survived"

    with CrashPlan("x"), pytest.raises(Crashed):
        run(scenario)
