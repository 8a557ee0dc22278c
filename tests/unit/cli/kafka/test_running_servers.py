"""Brokers that a command has started are known to the command that stops them."""

from __future__ import annotations

import fcntl
import io
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running import CommandFailed
from moldau.cli.kafka.running_servers import folder as chosen_folder
from moldau.cli.kafka.running_servers import registered, running
from moldau.cli.kafka.table import run_tool

HOLD = (
    "import signal, sys\n"
    "from moldau.cli.kafka.running_servers import registered\n"
    "with registered():\n"
    "    print('held', flush=True)\n"
    "    signal.pause()\n"
)


NOBODY = 65534

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")


def stop() -> tuple[int, str]:
    """Run the command; return its status and all that it says."""
    said = io.BytesIO()
    status = run_tool("kafka-server-stop", [], Console(io.BytesIO(), said, said))
    return status, said.getvalue().decode()


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


@contextmanager
def sleeper():
    """A process that has nothing to do with brokers, and must outlive the block."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        try:
            yield process
            assert process.poll() is None
        finally:
            process.kill()


@contextmanager
def locked(path, content=b""):
    """Hold a file as a running broker does."""
    path.write_bytes(content)
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def test_a_number_that_another_process_has_now_stops_nobody(folder):
    with sleeper() as process, locked(folder / str(process.pid), b"12345\nold broker\0"):
        assert running() == []
        assert stop() == (1, "No kafka server to stop\n")


def test_the_same_command_started_at_another_time_is_another_process(folder):
    with sleeper() as process:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        with locked(folder / str(process.pid), b"1\n" + command):
            assert running() == []


def test_names_that_are_no_numbers_are_left_alone(folder):
    (folder / "1st").touch()
    assert running() == []
    assert (folder / "1st").exists()


@as_root
def test_a_folder_of_somebody_else_is_not_used(folder):
    with sleeper() as process, locked(folder / str(process.pid)):
        os.chown(folder, NOBODY, NOBODY)
        status, said = stop()
        assert status == 1
        assert f"{folder}" in said
        assert "belongs to user 65534" in said
        with pytest.raises(CommandFailed, match="belongs to user"), registered():
            pass


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode):
    folder.chmod(mode)
    with pytest.raises(CommandFailed, match="others may write"), registered():
        pass
    with pytest.raises(CommandFailed, match="others may write"):
        running()


def test_a_folder_that_others_may_replace_is_not_used(folder, monkeypatch):
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(folder / "run"))
    folder.chmod(0o777)
    with pytest.raises(CommandFailed, match="another in its place"), registered():
        pass
    folder.chmod(0o1777)
    with registered():
        pass


@as_root
def test_a_folder_inside_one_of_somebody_else_is_not_used(folder, monkeypatch):
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(folder / "run"))
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(CommandFailed, match="lies in belongs to user"), registered():
        pass


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_in_the_place_of_the_folder_is_not_followed(folder, monkeypatch, exists):
    target, link = folder / "target", folder / "link"
    if exists:
        target.mkdir()
    link.symlink_to(target)
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(link))
    with pytest.raises(CommandFailed, match="cannot be used"), registered():
        pass
    with pytest.raises(CommandFailed, match="cannot be used"):
        running()


def test_a_file_behind_a_link_is_neither_truncated_nor_taken_for_a_broker(folder):
    precious = folder / "precious"
    precious.write_text("keep me")
    link = folder / str(os.getpid())
    link.symlink_to(precious)
    assert running() == []
    with registered():
        assert not link.is_symlink()
        assert running() == [os.getpid()]
    assert precious.read_text() == "keep me"


@as_root
def test_a_file_of_somebody_else_names_no_broker(folder):
    with sleeper() as process, locked(folder / str(process.pid)):
        os.chown(folder / str(process.pid), NOBODY, NOBODY)
        assert stop() == (1, "No kafka server to stop\n")


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "1")
    assert running() == []


def test_a_file_left_by_a_process_with_our_number_is_replaced(folder):
    (folder / str(os.getpid())).write_text("somebody before us")
    with registered():
        assert running() == [os.getpid()]


@as_root
def test_the_session_folder_of_another_user_is_not_chosen(folder, monkeypatch):
    monkeypatch.delenv("MOLDAU_RUN_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    assert chosen_folder().parent == folder
    os.chown(folder, NOBODY, NOBODY)
    assert chosen_folder().parent != folder
