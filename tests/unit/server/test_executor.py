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

from moldau.base.executor import WorkerLost
from moldau.server.executor import PoolExecutor
from moldau.server.worker import WORKER_NICENESS

BROKER = """
import asyncio, os
from moldau.server.executor import PoolExecutor

async def main():
    executor = PoolExecutor()
    print(await executor.compute(os.getpid), flush=True)
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
        return [await executor.compute(os.getpid) for _ in range(3)]

    pids = run(scenario)
    assert len(set(pids)) == 1
    assert os.getpid() not in pids


def test_the_worker_ignores_interrupts_yields_to_the_broker_and_inherits_no_file(tmp_path):
    path = tmp_path / "held-by-the-broker"
    with path.open("wb"):

        async def scenario(executor):
            ignores = await executor.compute(interrupt_disposition)
            niceness = await executor.compute(os.nice, 0)
            return ignores, niceness, await executor.compute(open_descriptor_targets)

        ignores, niceness, targets = run(scenario)
    assert ignores
    assert niceness >= min(19, os.nice(0) + WORKER_NICENESS)
    assert str(path) not in targets


def test_a_worker_that_was_killed_loses_its_work_with_one_line_and_is_replaced(caplog):
    async def scenario(executor):
        pid = await executor.compute(os.getpid)
        under_way = [executor.compute(signal.pause) for _ in range(3)]
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [WorkerLost] * 3
        return await executor.compute(divmod, 7, 2)

    assert run(scenario) == (3, 1)
    (line,) = caplog.messages
    assert "the worker process" in line


def test_work_for_a_worker_that_was_killed_while_idle_goes_to_another_or_is_lost(caplog):
    async def scenario(executor):
        pid = await executor.compute(os.getpid)
        os.kill(pid, signal.SIGKILL)
        # Whether its end was seen in time to start another is up to the system.
        with contextlib.suppress(WorkerLost):
            assert await executor.compute(divmod, 7, 2) == (3, 1)
        return await executor.compute(divmod, 8, 2)

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


def test_only_what_computes_pays_for_the_import_of_processes():
    script = "import sys, moldau.cli.serve; sys.exit('multiprocessing' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_closing_without_having_computed_starts_no_process():
    async def scenario(executor):
        assert await executor.run(divmod, 7, 2) == (3, 1)
        return executor._worker

    assert run(scenario) is None
