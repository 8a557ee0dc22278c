"""The three brokers of the compose file, with its settings, as processes of this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from kafka_harness.ports import free_port
from kits.cli_kit import moldau

COMPOSE = yaml.safe_load((Path(__file__).parents[2] / "packaging" / "compose.yaml").read_text())
STOP_TIMEOUT_S = 60


def settings_of_each(directory):
    """Return the variables of each broker, with the hosts of the file as ports of this machine."""
    services = COMPOSE["services"]
    ports = {(name, port): free_port() for name in services for port in ("9092", "9093", "19092")}
    for name, service in services.items():
        told = {}
        for key, value in service["environment"].items():
            text = re.sub(r"localhost:\d+", f"{name}:9092", str(value))
            text = re.sub(r"://:", f"://{name}:", text)
            told[key] = re.sub(
                r"(broker-\d):(\d+)", lambda found: f"127.0.0.1:{ports[found.groups()]}", text
            )
        told["KAFKA_LOG_DIRS"] = str(directory / name)
        told["KAFKA_MOLDAU_METRICS_LISTEN"] = "127.0.0.1:0"
        yield told


def test_the_compose_file_makes_a_cluster_that_replicates(tmp_path):
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "moldau.cli.container"],
            cwd=tmp_path, env=os.environ | told, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for told in settings_of_each(tmp_path)
    ]  # fmt: skip
    try:
        lines = [process.stdout.readline().decode() for process in started]
        assert all(line.startswith("ready ") for line in lines), lines
        bootstrap = ",".join(line.split()[1] for line in lines)
        ran = moldau("topic", "create", "orders", "-p", "3", "-b", bootstrap)
        assert ran.rows == [["orders", "3", "3", "created"]], ran.err
        sent = moldau("produce", "orders", "-b", bootstrap, "one pear", "two plums")
        assert sent.status == 0, sent.err
        read = moldau("consume", "orders", "-b", bootstrap, "-e", "-n", "2")
        assert sorted(read.out.split("\n")) == ["", "one pear", "two plums"], read.err
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        ends = [process.communicate(timeout=STOP_TIMEOUT_S)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], ends


def test_a_volume_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    done = subprocess.run(
        [sys.executable, "-m", "moldau.cli.container"],
        env=os.environ | {"CLUSTER_ID": "x", "KAFKA_LOG_DIRS": str(tmp_path / "file" / "logs")},
        capture_output=True, text=True, timeout=STOP_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("moldau: ")]
    assert line == f"moldau: cannot format {tmp_path}/file/logs: Not a directory"
