"""`moldau dev` as a process: it says where it is, has its topics, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_harness.topics import read_all, send
from kits.cli_kit import moldau

MOLDAU = str(Path(sys.executable).with_name("moldau"))
PATIENCE_S = 60


@contextmanager
def dev(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start it with temporary files in a folder; wait until it says where it is."""
    with subprocess.Popen(
        [MOLDAU, "dev", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    ) as process:
        try:
            assert process.stdout is not None
            name, _, address = process.stdout.readline().strip().partition("=")
            assert name == "BOOTSTRAP"
            yield process, address
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_its_topics_and_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    with dev(tmp_path, "--topics", "orders:3,returns") as (process, address):
        (folder,) = tmp_path.iterdir()
        assert folder.name.startswith("moldau-dev-")
        listed = moldau("topic", "list", "-b", address)
        assert listed.rows == [["orders", "3"], ["returns", "1"]]
        send(address, "orders", [b"first"], partition=2)
        assert read_all(address, "orders", 2) == [b"first"]
        process.send_signal(number)
        _, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "Traceback" not in complaints
    assert list(tmp_path.iterdir()) == []


def test_settings_of_the_broker_can_be_given(tmp_path: Path) -> None:
    with dev(tmp_path, "--override", "num.partitions=5", "--topics", "orders") as (_, address):
        assert moldau("topic", "list", "-b", address).rows == [["orders", "5"]]


def test_a_topic_that_cannot_be_ends_it_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [MOLDAU, "dev", "--topics", "not/a/name"],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("moldau: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
