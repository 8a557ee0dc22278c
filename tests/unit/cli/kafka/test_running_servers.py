"""Brokers that a command has started are known to the command that stops them."""

from __future__ import annotations

import io
import signal
import subprocess
import sys

import pytest

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running_servers import registered, running
from moldau.cli.kafka.table import run_tool

HOLD = (
    "import signal, sys\n"
    "from moldau.cli.kafka.running_servers import registered\n"
    "with registered():\n"
    "    print('held', flush=True)\n"
    "    signal.pause()\n"
)


def stop() -> tuple[int, str]:
    stdout = io.BytesIO()
    status = run_tool("kafka-server-stop", [], Console(io.BytesIO(), stdout, io.BytesIO()))
    return status, stdout.getvalue().decode()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(tmp_path))
    return tmp_path


def test_nobody_runs_at_first():
    assert running() == []
    assert stop() == (1, "No kafka server to stop\n")


def test_a_broker_is_known_while_it_runs_and_is_asked_to_stop():
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert running() == [process.pid]
        assert stop() == (0, "")
        assert process.wait(30) == -signal.SIGTERM
    assert running() == []


def test_a_number_left_behind_stops_nobody(folder):
    (folder / "1").write_text("")
    assert running() == []
    assert not (folder / "1").exists()


def test_the_file_goes_with_the_block(folder):
    with registered():
        assert len(list(folder.iterdir())) == 1
    assert list(folder.iterdir()) == []
