"""The portal: a blocking call into an event loop of its own that can always be left."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from moldau.client.errors import ClientClosed, InvalidState
from moldau.engine.portal import Portal


@pytest.fixture
def portal():
    threads = threading.active_count()
    made = Portal("test")
    yield made
    made.close()
    assert threading.active_count() == threads


async def value(result):
    await asyncio.sleep(0)
    return result


def test_a_call_returns_what_the_coroutine_returns_and_raises_what_it_raises(portal):
    async def fails():
        raise LookupError("nothing there")

    assert portal.call(value(5)) == 5
    with pytest.raises(LookupError, match="nothing there"):
        portal.call(fails())


def test_calls_of_many_threads_run_on_one_loop(portal):
    seen = []

    def work(number):
        seen.append(portal.call(value(number)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(8))


class Cancellable:
    """Work that never ends by itself and says that it was cancelled."""

    def __init__(self):
        self.began = threading.Event()
        self.cancelled = threading.Event()

    async def run(self, at_once=lambda: None):
        self.began.set()
        at_once()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def test_a_call_that_takes_too_long_is_left_and_cancelled(portal):
    work = Cancellable()
    with pytest.raises(TimeoutError):
        portal.call(work.run(), timeout=0.02)
    assert work.cancelled.wait(10)


def test_ctrl_c_ends_the_wait_at_once_and_cancels_the_work(portal):
    work = Cancellable()
    with pytest.raises(KeyboardInterrupt):
        portal.call(work.run(lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert work.cancelled.wait(10)
    assert portal.call(value(1)) == 1


def test_closing_cancels_what_runs_and_tells_who_waits(portal):
    work = Cancellable()
    told = []

    def wait():
        try:
            portal.call(work.run())
        except ClientClosed as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    work.began.wait()
    portal.close()
    thread.join()
    assert len(told) == 1
    assert work.cancelled.is_set()
    with pytest.raises(ClientClosed):
        portal.call(value(1))
    with pytest.raises(ClientClosed):
        portal.post(lambda: None)
    portal.close()


def test_a_blocking_call_from_the_loops_own_thread_is_refused_instead_of_hanging(portal):
    async def reenter():
        portal.call(value(1))

    with pytest.raises(InvalidState, match="callback"):
        portal.call(reenter())


def test_what_is_asked_is_answered_on_the_loop(portal):
    def fails():
        raise LookupError("nothing there")

    assert portal.ask(threading.current_thread) is not threading.current_thread()
    with pytest.raises(LookupError, match="nothing there"):
        portal.ask(fails)
    with pytest.raises(InvalidState, match="callback"):
        portal.ask(lambda: portal.ask(list))


def test_ctrl_c_takes_a_question_back_that_was_not_answered(portal):
    busy, called = threading.Event(), []
    portal.post(busy.wait)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal.ask(lambda: called.append(1))
    finally:
        signal.signal(signal.SIGALRM, before)
        busy.set()
    portal.call(value(0))
    assert called == []


def test_what_is_asked_of_a_loop_that_ends_meanwhile_is_told_so(portal, monkeypatch):
    monkeypatch.setattr("moldau.engine.portal.ASK_SLICE_S", 0.01)
    monkeypatch.setattr(portal, "post", lambda _callback: portal.close())
    with pytest.raises(ClientClosed):
        portal.ask(list)


def test_what_is_posted_runs_on_the_loop(portal):
    ran = threading.Event()
    portal.post(ran.set)
    assert ran.wait(10)


def test_a_child_process_is_told_to_make_its_own_client(portal):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"nothing"
        try:
            portal.call(value(1), timeout=5)
        except InvalidState as error:
            said = str(error).encode()
        finally:
            portal.close()
            os.write(writing, said)
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        assert b"after the fork" in told.read()
    assert portal.call(value(1)) == 1


def test_a_portal_that_is_forgotten_ends_its_thread():
    thread = Portal("forgotten")._thread
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_a_process_that_forgets_to_close_ends_cleanly():
    code = (
        "import asyncio; from moldau.engine.portal import Portal\n"
        "portal = Portal('left open')\n"
        "async def forever():\n"
        "    try:\n"
        "        await asyncio.Event().wait()\n"
        "    finally:\n"
        "        print('cleaned up', flush=True)\n"
        "async def begin():\n"
        "    portal.task = asyncio.ensure_future(forever())\n"
        "    await asyncio.sleep(0)\n"
        "portal.call(begin())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "cleaned up\n", "")
