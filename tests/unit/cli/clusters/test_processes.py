"""A broker's process is known again by its file, and no other process is ever taken for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import LocalNode
from moldau.cli.clusters.processes import find, last_lines, refuse_running, running_id
from moldau.cli.clusters.stopping import kill, stop
from moldau.cli.operations.known_process import identity_of


@pytest.fixture
def broker(tmp_path):
    return LocalNode(2, 9093, tmp_path, controller_port=None)


@pytest.fixture
def sleeper():
    """A process that is no broker."""
    program = "import signal; signal.pause()"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        yield process
        process.kill()


def write(broker, process_id, identity):
    broker.pid_file.write_bytes(b"%d\n" % process_id + identity)


def test_a_broker_without_a_file_does_not_run(broker):
    assert find(broker) is None
    refuse_running([broker])


def test_the_process_of_the_file_is_found(broker, sleeper):
    write(broker, sleeper.pid, identity_of(sleeper.pid))
    assert running_id(broker) == sleeper.pid
    with pytest.raises(UserError, match=rf"broker 2 is already running \(pid {sleeper.pid}\)"):
        refuse_running([broker])


@pytest.mark.parametrize("content", [b"", b"\n", b"x\n", b"-1\nx", b"0\nx", b"%d\nx" % 10**30])
def test_a_file_that_names_no_process_means_that_none_runs(broker, content):
    broker.pid_file.write_bytes(content)
    assert find(broker) is None


@pytest.mark.parametrize("change", [
    lambda told: b"1" + told,  # another start time
    lambda told: told + b"x\0",  # another command line
    lambda told: b"",
])  # fmt: skip
def test_a_process_that_has_got_the_number_since_is_never_signalled(broker, sleeper, change):
    write(broker, sleeper.pid, change(identity_of(sleeper.pid)))
    assert find(broker) is None
    assert stop([broker]) == kill([broker]) == []
    assert sleeper.poll() is None


def test_a_process_that_has_ended_does_not_run_even_if_nobody_asked_for_its_status(broker, sleeper):
    write(broker, sleeper.pid, identity_of(sleeper.pid))
    assert kill([broker]) == [broker]
    assert sleeper.returncode is None
    assert find(broker) is None


def test_the_end_of_a_log_is_shown(tmp_path):
    log = tmp_path / "broker.log"
    log.write_bytes(b"".join(b"%d \xff\n" % number for number in range(30_000)))
    assert last_lines(log) == [
        f"{number} \N{REPLACEMENT CHARACTER}" for number in range(29990, 30000)
    ]
