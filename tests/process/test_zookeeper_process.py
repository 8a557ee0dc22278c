"""A ZooKeeper server of ours is found by the file in its data directory; no other process is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_harness.ports import free_port
from kafka_harness.zookeeper_node import require_zookeeper
from moldau.base.errors import UserError
from moldau.cli.operations.pid_file import write_pid_file
from moldau.cli.zookeeper.server_process import (
    find_server,
    pid_file,
    start_server,
    stop_server,
    wait_until_answers,
)
from moldau.cli.zookeeper.server_properties import ServerProperties, read_server_properties

TERMINATED = 128 + signal.SIGTERM
"""How a virtual machine ends that was asked to."""


@pytest.fixture(scope="module")
def zookeeper_installed() -> None:
    require_zookeeper()


def properties(folder: Path, port: int, **overrides: str) -> ServerProperties:
    file = folder / "zookeeper.properties"
    file.write_text(f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    return read_server_properties(file, overrides)


@pytest.mark.usefixtures("zookeeper_installed")
def test_a_server_is_started_found_and_stopped(tmp_path):
    settings = properties(tmp_path, 1, clientPort=str(free_port()))
    with (tmp_path / "output").open("wb") as output:
        started = start_server(settings, os.environ, output)
    try:
        wait_until_answers(started)
        with pytest.raises(UserError, match=rf"is already running .*pid {started.child.pid}"):
            start_server(settings, os.environ)
        assert b"-Xmx256m" in Path(f"/proc/{started.child.pid}/cmdline").read_bytes()
        assert stop_server(settings.data)
    finally:
        started.child.kill()
        started.child.wait()
        started.process.close()
    assert find_server(settings.data) is None
    assert not stop_server(settings.data)
    assert started.child.returncode == TERMINATED


@pytest.mark.usefixtures("zookeeper_installed")
def test_a_server_that_ends_is_not_waited_for(tmp_path):
    settings = properties(tmp_path, free_port(), tickTime="never")
    with (tmp_path / "output").open("wb") as output:
        started = start_server(settings, os.environ, output)
    try:
        with pytest.raises(UserError, match="did not start: it ended"):
            wait_until_answers(started)
    finally:
        started.child.kill()
        started.child.wait()
        started.process.close()


@pytest.mark.usefixtures("zookeeper_installed")
def test_a_port_in_use_is_refused_before_anything_is_started(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = properties(tmp_path, taken.getsockname()[1])
        with pytest.raises(UserError, match=r"cannot listen on 127\.0\.0\.1"):
            start_server(settings, os.environ)
    assert not settings.data.exists()


def test_a_process_that_only_has_the_number_is_not_stopped(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        write_pid_file(pid_file(tmp_path), other.pid)
        number, _, identity = pid_file(tmp_path).read_bytes().partition(b"\n")
        pid_file(tmp_path).write_bytes(number + b"\n" + identity.replace(b"input", b"print"))
        assert not stop_server(tmp_path)
        assert other.poll() is None
        other.communicate(b"\n")
