"""The commands around ZooKeeper, with a real server."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_harness.java import Output
from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from kits.kafka_command_kit import ours
from moldau.cli.zookeeper.installation import find_installation

MOLDAU = Path(sys.executable).with_name("moldau")
CONNECTED = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
SAMPLE = Path(__file__).parents[2] / "config" / "zookeeper.properties"
LIMIT_S = 120


def shell(zookeeper: ZooKeeperNode, *words: str, chroot: str = "") -> Output:
    """Run one command; return what it says behind the lines about the connection."""
    said = ours("zookeeper-shell", zookeeper.address + chroot, *words)
    opening = f"Connecting to {zookeeper.address}{chroot}\n{CONNECTED}"
    assert said.stdout.startswith(opening)
    return Output(said.stdout.removeprefix(opening), said.stderr, said.status)


def test_nodes_are_created_read_changed_and_deleted(zookeeper):
    assert shell(zookeeper, "create", "/one", "first data") == Output("", "Created /one\n", 0)
    assert shell(zookeeper, "get", "/one") == Output("first data\n", "", 0)
    assert shell(zookeeper, "create", "/one/b") == Output("", "Created /one/b\n", 0)
    assert shell(zookeeper, "get", "/one/b") == Output("null\n", "", 0)
    assert shell(zookeeper, "create", "-s", "/one/a-", "x").stderr == "Created /one/a-0000000001\n"
    assert shell(zookeeper, "create", "-s", "/one/", "x").stderr == "Created /one/0000000002\n"
    assert shell(zookeeper, "ls", "/one").stdout == "[0000000002, a-0000000001, b]\n"
    assert shell(zookeeper, "ls", "-R", "/one").lines == [
        "/one", "/one/0000000002", "/one/a-0000000001", "/one/b",
    ]  # fmt: skip
    assert shell(zookeeper, "set", "-s", "/one", "more").lines[6] == "dataVersion = 1"
    told = shell(zookeeper, "get", "-s", "/one").lines
    assert told[0] == "more"
    assert told[1:] == shell(zookeeper, "stat", "/one").lines
    assert (told[-2], told[-1]) == ("dataLength = 4", "numChildren = 3")
    assert (
        shell(zookeeper, "set", "/one", "x", "-v", "0").stderr == "version No is not valid : /one\n"
    )
    assert shell(zookeeper, "delete", "/one") == Output("", "Node not empty: /one\n", 1)
    assert shell(zookeeper, "delete", "/one/b") == Output("", "", 0)
    assert shell(zookeeper, "deleteall", "/one") == Output("", "", 0)
    assert shell(zookeeper, "get", "/one") == Output("", "Node does not exist: /one\n", 1)


def test_ephemeral_nodes_end_with_the_shell(zookeeper):
    assert shell(zookeeper, "create", "-e", "/gone", "x").stderr == "Created /gone\n"
    assert shell(zookeeper, "stat", "/gone") == Output("", "Node does not exist: /gone\n", 1)


def test_paths_are_those_below_the_chroot(zookeeper):
    shell(zookeeper, "create", "/chroot")
    assert shell(zookeeper, "create", "/a", chroot="/chroot").stderr == "Created /a\n"
    assert shell(zookeeper, "ls", "/", chroot="/chroot").stdout == "[a]\n"
    assert shell(zookeeper, "ls", "/chroot").stdout == "[a]\n"
    # A shell that looks for something must not create what it looks for.
    assert shell(zookeeper, "ls", "/", chroot="/none").stderr == "Node does not exist: /\n"
    assert shell(zookeeper, "stat", "/none").status == 1


def test_lines_come_from_a_pipe(zookeeper):
    lines = b"create /piped 'two words'\n\nget /piped\nfrob\nls /none\ndelete /piped\nquit\nls /\n"
    said = ours("zookeeper-shell", zookeeper.address, stdin=lines)
    assert said.stdout == (
        f"Connecting to {zookeeper.address}\nWelcome to ZooKeeper!\nJLine support is disabled\n"
        f"{CONNECTED}two words\n"
    )
    told = said.stderr.splitlines()
    assert told[0] == "Created /piped"
    assert told[-2:] == ["Command not found: Command not found frob", "Node does not exist: /none"]
    assert said.status == 0
    assert ours("zookeeper-shell", zookeeper.address, stdin=b"frob").status == 127


def test_a_terminal_shows_a_prompt(zookeeper):
    ours_end, its_end = pty.openpty()
    command = [MOLDAU, "zookeeper-shell.sh", zookeeper.address]
    shown = b""
    with subprocess.Popen(command, stdin=its_end, stdout=its_end, stderr=its_end) as process:
        os.close(its_end)
        try:
            for prompt, typed in ((b"(CONNECTED) 0] ", b"ls /\n"), (b"(CONNECTED) 1] ", b"quit\n")):
                while prompt not in shown:
                    shown += os.read(ours_end, 4096)
                os.write(ours_end, typed)
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()
            os.close(ours_end)
    assert b"zookeeper]\r\n" in shown


def properties(folder: Path) -> tuple[Path, int]:
    """Write a file whose port is to be overridden; return it with a free one."""
    file = folder / "zookeeper.properties"
    file.write_text(f"dataDir={folder}/data\nclientPort=1\nclientPortAddress=127.0.0.1\n")
    return file, free_port()


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "MOLDAU_RUN_DIR": f"{folder}/run", "LOG_DIR": f"{folder}/logs"}


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MOLDAU, *map(str, words)], env=environment(folder), cwd=folder, check=False,
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip


def test_a_daemon_is_started_and_stopped_and_no_other(zookeeper, tmp_path):
    file, port = SAMPLE, free_port()
    override = ("--override", f"clientPort={port}", "--override", f"dataDir={tmp_path}/data")
    try:
        started = run(tmp_path, "zookeeper-server-start.sh", "-daemon", file, *override)
        assert (started.stdout, started.stderr, started.returncode) == ("", "", 0)
        assert ours("zookeeper-shell", f"127.0.0.1:{port}", "ls", "/").status == 0
        again = run(tmp_path, "zookeeper-server-start.sh", "-daemon", file, *override)
        assert "is already running" in again.stderr
    finally:
        stopped = run(tmp_path, "zookeeper-server-stop.sh")
    assert (stopped.stdout, stopped.stderr, stopped.returncode) == ("", "", 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert shell(zookeeper, "ls", "/").status == 0
    again = run(tmp_path, "zookeeper-server-stop.sh")
    assert (again.stdout, again.returncode) == ("No zookeeper server to stop\n", 1)


@pytest.mark.long
@pytest.mark.parametrize("how", ["signal", "command"])
def test_a_server_in_the_foreground_ends_in_order(tmp_path, how):
    require_zookeeper()
    file, port = properties(tmp_path)
    command = [MOLDAU, "zookeeper-server-start", file, "--override", f"clientPort={port}"]
    with subprocess.Popen(command, env=environment(tmp_path), cwd=tmp_path) as process:
        try:
            eventually(lambda: _listens(port), "ZooKeeper listens")
            if how == "signal":
                process.send_signal(signal.SIGTERM)
            else:
                assert run(tmp_path, "zookeeper-server-stop", file).returncode == 0
            assert process.wait(LIMIT_S) == 0
        finally:
            process.terminate()
    assert not _listens(port)
    assert list((tmp_path / "run").iterdir()) == []
    assert not (tmp_path / "data" / "moldau-zookeeper.pid").exists()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
def test_a_daemon_that_does_not_come_up_is_reported(tmp_path):
    require_zookeeper()
    file, port = properties(tmp_path)
    words = ("--override", f"clientPort={port}", "--override=tickTime=never")
    said = run(tmp_path, "zookeeper-server-start", "-daemon", file, *words)
    assert said.returncode == 1
    *_, last = said.stderr.splitlines()
    assert last == (
        f"ZooKeeper did not start: it ended; the end of {tmp_path}/logs/zookeeper.out is above"
    )
    assert "never" in said.stderr


@pytest.mark.long
def test_the_shell_answers_as_that_of_zookeeper(zookeeper):
    """Both get the same lines, each below a chroot of its own."""
    lines = (
        'create /a "two words"', "get /a", "create /a", "create /a/b", "get /a/b", "ls /",
        "ls -R /", "create -s /a/c- x", "create -e /a/d x", "ls /a", "set /a more", "get /a",
        "set /none x", "get /none", "ls /none", "stat /none", "delete /none", "deleteall /none",
        "create /no/parent", "create /a/d/e", "delete /a", "delete -v 7 /a/b", "set -v 7 /a x",
        "ls a", "ls /a/", "get /a//b", "stat /a/./b", "deleteall /a", "ls /",
    )  # fmt: skip
    text = "".join(f"{line}\n" for line in lines)
    for chroot in ("/theirs", "/ours"):
        shell(zookeeper, "create", chroot)
    found = find_installation(os.environ)
    theirs = subprocess.run(
        [found.java, "-cp", found.class_path, "org.apache.zookeeper.ZooKeeperMain",
         "-server", f"{zookeeper.address}/theirs"],
        input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    own = ours("zookeeper-shell", f"{zookeeper.address}/ours", stdin=text.encode())
    answers = re.sub(r"\[zk: \S+ \d+\] ", "", theirs.stdout).partition("path:null zxid: -1\n")[2]
    assert own.stdout.partition("path:null\n")[2].splitlines() == [
        line for line in answers.splitlines() if line and not line.startswith("JLine")
    ]
    refusals = theirs.stderr.splitlines()[refused_from(theirs.stderr) :]
    assert own.stderr.splitlines() == refusals


def refused_from(stderr: str) -> int:
    """Return the first line that is not of Java's line editor."""
    return stderr.splitlines().index("Created /a")
