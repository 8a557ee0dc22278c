"""The commands that work on a broker's own files and process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.java import Output
from kafka_harness.ports import free_port
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from kafka_harness.wire import wait_until_answered
from kits.kafka_command_kit import Commands, class_of, ours

pytestmark = pytest.mark.java(CURRENT)

STORAGE = "kafka-storage"
CLUSTER_ID = "bW9sZGF1LW1vbGRhdS0wMA"
MOLDAU = Path(sys.executable).with_name("moldau")


def properties(folder: Path, port: int = 9092) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "server.properties"
    controller = port + 1
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@localhost:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
        f"log.dirs={folder}/one,{folder}/two\n"
    )
    return file


def told(said: Output, folder: Path) -> tuple[list[str], str, int]:
    """Return what a command said, without what is its folder's or random.

    Of several directories that are refused Kafka names the one a hash set yields first.
    """
    text = said.stdout.replace(str(folder), "<folder>")
    lines = re.sub(r"directory\.id=[^,]*", "directory.id=<id>", text).splitlines()
    lines = sorted(line for line in lines if not line.startswith("Bootstrap metadata"))
    refusal = re.sub(rf"{folder}/(one|two)", "<folder>", said.stderr.partition("\n")[0])
    return lines, refusal, said.status


def test_directories_are_formatted_and_shown_alike(commands, tmp_path):
    steps = (
        ("info",),
        ("format", "-t", CLUSTER_ID),
        ("format", "-t", CLUSTER_ID),
        ("format", "--ignore-formatted", "--cluster-id", CLUSTER_ID),
        ("info",),
    )
    for step in steps:
        files = [properties(tmp_path / make) for make in ("theirs", "ours")]
        outputs = [
            commands.session.run(class_of(STORAGE), *step, "-c", files[0], check=False),
            ours(STORAGE, *step, "-c", files[1]),
        ]
        theirs, own = (
            told(output, file.parent) for output, file in zip(outputs, files, strict=True)
        )
        assert own == theirs, step


def test_an_id_is_drawn(commands):
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}\n", ours(STORAGE, "random-uuid").stdout)
    assert ours(STORAGE, "frob").status == 1
    assert commands.broker.running


def test_a_log_is_dumped_alike(commands):
    topic = create_topic(commands.broker.address, fresh_topic("dumped"))
    send(commands.broker.address, topic, [b"one", b"two"])
    file = commands.broker.data / f"{topic}-0" / f"{0:020d}.log"
    words = ("--files", file, "--print-data-log")
    theirs = commands.session.run(class_of("kafka-dump-log"), *words)
    own = subprocess.run(
        [MOLDAU, "kafka-dump-log.sh", *words], check=True, capture_output=True, text=True
    )
    assert own.stdout == theirs.stdout


def test_a_daemon_is_started_and_stopped(tmp_path):
    port = free_port()
    file = properties(tmp_path, port)
    place = {**os.environ, "MOLDAU_RUN_DIR": str(tmp_path / "run"), "LOG_DIR": str(tmp_path / "l")}
    start = [MOLDAU, "kafka-server-start.sh", "-daemon", file, "--override",
             f"listeners=PLAINTEXT://127.0.0.1:{port}"]  # fmt: skip
    subprocess.run(start, env=place, check=True, timeout=30)
    assert wait_until_answered("127.0.0.1", port, lambda: True, 30)
    stop = [MOLDAU, "kafka-server-stop.sh"]
    subprocess.run(stop, env=place, check=True, timeout=30)
    eventually(lambda: not list((tmp_path / "run").iterdir()), "the broker has stopped")
    again = subprocess.run(stop, env=place, check=False, capture_output=True, text=True)
    assert (again.stdout, again.returncode) == ("No kafka server to stop\n", 1)


def test_a_broker_without_a_file_is_not_started(commands: Commands):
    said = ours("kafka-server-start")
    assert said.status == 1
    assert said.stderr.startswith("USAGE: kafka-server-start.sh")
    assert ours("kafka-run-class", "org.example.Frob").stderr == (
        "Error: Could not find or load main class org.example.Frob\n"
    )
    assert commands.broker.running
