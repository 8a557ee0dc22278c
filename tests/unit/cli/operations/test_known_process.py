"""A process is known by more than its number, and only the one that is meant is signalled."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading

import pytest

from moldau.cli.operations.known_process import KnownProcess, identity_of, identity_of_child

UNUSED = 2**22 + 1
"""Linux gives no number as high as this one."""


@pytest.fixture
def sleeper():
    program = "import signal; signal.pause()"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        yield process
        process.kill()


def test_a_process_is_known_by_start_time_and_command_line(sleeper):
    identity = identity_of_child(sleeper.pid)  # for a moment it has no command line
    assert identity == identity_of(sleeper.pid)
    started, command = identity.split(b"\n", 1)
    assert started.isdigit()
    assert command.split(b"\0")[:2] == [os.fsencode(sys.executable), b"-c"]
    assert identity_of(UNUSED) == b""


def test_a_process_that_is_not_there_is_not_found():
    for number in (UNUSED, 0, -1, 2**70):
        assert KnownProcess.find(number, lambda: True) is None


def test_another_process_than_the_expected_one_is_not_found(sleeper):
    assert KnownProcess.find(sleeper.pid, lambda: False) is None
    assert sleeper.poll() is None


def test_the_expected_process_is_signalled_and_its_end_is_seen(sleeper):
    with KnownProcess.find(sleeper.pid, lambda: True) as found:
        assert not found.has_ended()
        assert found.signal(signal.SIGKILL)
        assert select.select([found], [], [], 60)[0]
        assert found.has_ended()
        # Its status was not asked for yet: the number is still its own.
        assert identity_of(sleeper.pid).endswith(b"\n")
        sleeper.wait(60)
        assert not found.signal(signal.SIGKILL)


@pytest.mark.process
def test_the_interpreter_runs_the_command_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "--version"], capture_output=True, check=True, timeout=60
    )
    assert done.stdout.startswith(b"moldau ")


def test_a_number_that_is_now_that_of_a_thread_means_no_process():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert KnownProcess.find(thread.native_id, lambda: True) is None
    finally:
        stop.set()
        thread.join()


def test_a_child_is_known_by_its_command_line_from_its_first_moment_on():
    """Right after `exec` the system has no command line to tell: one in ten children here."""
    for _ in range(100):
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
            try:
                identity = identity_of_child(child.pid)
                assert identity.endswith(b"\nsleep\x0060\x00")
                assert identity == identity_of(child.pid)
            finally:
                child.kill()
