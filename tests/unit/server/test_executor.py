"""The worker process: what it inherits, whom it obeys, and that it does not outlive its broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from moldau.base import executor as executor_port
from moldau.base.executor import Lane, WorkerLost, WorkTooLong
from moldau.server.workers.executor import PoolExecutor
from moldau.server.workers.worker_process import NICENESS

BROKER = """
import asyncio, os
from moldau.base.executor import Lane
from moldau.server.workers.executor import PoolExecutor

async def main():
    executor = PoolExecutor()
    print(await executor.compute(Lane.READS, os.getpid), flush=True)
    await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


def run(scenario):
    async def main():
        executor = PoolExecutor()
        try:
            return await scenario(executor)
        finally:
            await executor.close()

    return asyncio.run(main())


def interrupt_disposition() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def compute_endlessly() -> None:
    while True:
        pass


def open_descriptor_targets() -> list[str]:
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that listed the folder
            targets.append(str(descriptor.readlink()))
    return targets


def test_blocked_work_does_not_hold_up_the_loop():
    async def scenario(executor):
        released = threading.Event()
        blocked = executor.run(released.wait)
        await asyncio.sleep(0)
        assert not blocked.done()
        released.set()
        assert await blocked

    run(scenario)


def test_compute_runs_in_one_process_of_its_own_which_is_kept():
    async def scenario(executor):
        return [await executor.compute(Lane.READS, os.getpid) for _ in range(3)]

    pids = run(scenario)
    assert len(set(pids)) == 1
    assert os.getpid() not in pids


def test_the_worker_ignores_interrupts_yields_to_the_broker_and_inherits_no_file(tmp_path):
    path = tmp_path / "held-by-the-broker"
    with path.open("wb"):

        async def scenario(executor):
            ignores = await executor.compute(Lane.READS, interrupt_disposition)
            niceness = await executor.compute(Lane.READS, os.nice, 0)
            return ignores, niceness, await executor.compute(Lane.READS, open_descriptor_targets)

        ignores, niceness, targets = run(scenario)
    assert ignores
    assert niceness >= min(19, os.nice(0) + NICENESS)
    assert str(path) not in targets


def test_a_worker_that_was_killed_loses_the_work_in_hand_and_is_replaced(caplog):
    async def scenario(executor):
        pid = await executor.compute(Lane.READS, os.getpid)
        in_hand = executor.compute(Lane.READS, signal.pause)
        queued = executor.compute(Lane.READS, divmod, 7, 2)
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerLost):
            await in_hand
        return await queued

    assert run(scenario) == (3, 1)
    (line,) = caplog.messages
    assert "the worker process" in line


def test_a_lane_does_one_piece_after_the_other_in_the_order_they_were_asked_for():
    async def scenario(executor):
        done = []
        for number in range(5):
            piece = executor.compute(Lane.READS, divmod, number, 1)
            piece.add_done_callback(lambda piece: done.append(piece.result()[0]))
        await executor.compute(Lane.READS, os.getpid)
        return done

    assert run(scenario) == [0, 1, 2, 3, 4]


def test_a_process_that_cannot_be_started_is_said_and_tried_again(caplog, monkeypatch, tmp_path):
    async def scenario(executor):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(tmp_path / "missing"))
            with pytest.raises(WorkerLost):
                await executor.compute(Lane.READS, divmod, 7, 2)
        return await executor.compute(Lane.READS, divmod, 7, 2)

    assert run(scenario) == (3, 1)
    (line,) = caplog.messages
    assert "cannot start a worker process (reads)" in line


def test_no_lane_waits_for_another():
    async def scenario(executor):
        endless = executor.compute(Lane.READS, signal.pause)
        assert await executor.compute(Lane.WRITES, divmod, 7, 2) == (3, 1)
        assert not endless.done()
        endless.cancel()

    run(scenario)


def test_work_that_takes_too_much_cpu_time_is_ended_with_its_process(caplog, monkeypatch):
    monkeypatch.setattr(executor_port, "COMPUTE_CPU_S", 0.5)

    async def scenario(executor):
        endless = executor.compute(Lane.WRITES, compute_endlessly)
        queued = executor.compute(Lane.WRITES, divmod, 7, 2)
        with pytest.raises(WorkTooLong):
            await endless
        return await queued

    assert run(scenario) == (3, 1)
    (line,) = caplog.messages
    assert "took more than" in line


def test_only_work_for_clients_is_limited_in_cpu_time():
    async def scenario(executor):
        return [
            (await executor.compute(lane, signal.getitimer, signal.ITIMER_PROF))[0] > 0
            for lane in (Lane.WRITES, Lane.READS, Lane.CLEANING)
        ]

    assert run(scenario) == [True, True, False]


def test_the_process_finds_modules_where_the_broker_does(tmp_path, monkeypatch):
    (tmp_path / "module_of_a_test.py").write_text("def answer(): return 42")
    monkeypatch.syspath_prepend(tmp_path)
    import module_of_a_test  # noqa: PLC0415

    assert run(lambda executor: executor.compute(Lane.READS, module_of_a_test.answer)) == 42


def test_a_bug_in_the_work_says_where_it_was():
    with pytest.raises(ValueError) as raised:
        run(lambda executor: executor.compute(Lane.READS, int, "x"))
    assert "in _answer" in raised.value.__notes__[0]


def test_work_for_a_worker_that_was_killed_while_idle_goes_to_another_or_is_lost(caplog):
    async def scenario(executor):
        pid = await executor.compute(Lane.READS, os.getpid)
        os.kill(pid, signal.SIGKILL)
        # Whether its end was seen in time to start another is up to the system.
        with contextlib.suppress(WorkerLost):
            assert await executor.compute(Lane.READS, divmod, 7, 2) == (3, 1)
        return await executor.compute(Lane.READS, divmod, 8, 2)

    assert run(scenario) == (4, 0)
    assert len(caplog.messages) == 1


def test_the_worker_ends_with_a_broker_that_was_killed(tmp_path: Path):
    script = tmp_path / "broker.py"
    script.write_text(BROKER)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        worker_pid = int(broker.stdout.readline())
        descriptor = os.pidfd_open(worker_pid)
        broker.kill()
        # Returns when the worker is gone; the test's own timeout is the failure.
        waiting = asyncio.new_event_loop()
        gone = waiting.create_future()
        waiting.add_reader(descriptor, gone.set_result, None)
        waiting.run_until_complete(gone)
        waiting.remove_reader(descriptor)
        waiting.close()
        os.close(descriptor)


def test_a_killed_broker_leaves_nothing_that_complains(tmp_path: Path):
    """Standard error is read to its end, which is that of the last process that holds it."""
    script = tmp_path / "broker.py"
    script.write_text(BROKER)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as broker:
        broker.stdout.readline()
        broker.kill()
        assert broker.stderr.read() == ""


def test_only_what_computes_pays_for_the_import_of_the_worker():
    script = "import sys, moldau.cli.serve; sys.exit('moldau.server.workers.worker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_closing_without_having_computed_starts_no_process():
    async def scenario(executor):
        assert await executor.run(divmod, 7, 2) == (3, 1)
        return executor._workers

    assert run(scenario) == {}
