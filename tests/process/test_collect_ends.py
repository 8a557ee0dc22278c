"""How `moldau collect` ends, what it refuses, and how little it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_harness.moldau_node import MoldauNode
from kafka_harness.waiting import eventually
from process.collecting import Collecting, records_of

NOBODY = "localhost:1"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with MoldauNode(tmp_path_factory.mktemp("collect")) as running:
        yield running


def collecting(tmp_path, address, *more):
    return Collecting(
        tmp_path, "files", tmp_path / "*.log", "-t", "logs", "-b", address,
        "--state", tmp_path / "state.json", "--poll", "0.1", *more,
    )  # fmt: skip


def test_a_signal_ends_it_in_order_with_its_positions_written(broker, tmp_path):
    (tmp_path / "a.log").write_bytes(b"one\ntwo\nthr")
    with collecting(tmp_path, broker.address, "-t", "ended") as running:
        state = tmp_path / "state.json"
        eventually(lambda: state.exists() and b'"position": 8' in state.read_bytes(), "positions")
        assert running.stop() == 0
        assert running.said == "moldau: records delivered: 2\n"
    assert len(records_of(broker.address, "ended")) == 2


def test_without_a_broker_it_waits_says_so_in_one_line_and_still_ends_in_order(tmp_path):
    (tmp_path / "a.log").write_bytes(b"one\n")
    with collecting(tmp_path, NOBODY) as running:
        eventually(lambda: running.said.endswith("\n"), "a line")
        assert running.stop() == 0
        waiting, _summary = running.said.splitlines()
        assert waiting.endswith("waiting for a broker")


def test_a_second_collector_on_the_same_positions_is_refused(tmp_path):
    with collecting(tmp_path, NOBODY) as running:
        eventually(lambda: running.said.endswith("\n"), "a line")
        with collecting(tmp_path, NOBODY) as other:
            assert other.process.wait(30) == 1
            assert other.said == (
                f"moldau: {tmp_path / 'state.json'} is in use by another collector\n"
            )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--begins", "("), "'(' is not a pattern: "),
        (("--begins", "a", "--multiline", "java"), "exclude each other"),
        (("-H", "=x"), "is not a header"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, arguments, line):
    with collecting(tmp_path, NOBODY, *arguments) as running:
        assert running.process.wait(30) == 1
        assert running.said.count("\n") == 1
        assert line in running.said


def test_positions_of_nothing_are_refused(tmp_path):
    with Collecting(
        tmp_path, "metrics", "-t", "metrics", "-b", NOBODY, "--state", tmp_path / "state.json"
    ) as running:
        assert running.process.wait(30) == 1
        assert running.said == ("moldau: --state needs an access log: name one with --http\n")


def test_a_second_collector_of_requests_on_the_same_positions_is_refused(tmp_path):
    def requests():
        return Collecting(
            tmp_path, "metrics", "-t", "metrics", "-b", NOBODY, "--no-host",
            "--http", "shop=a.log", "--http", "shop=b.log", "--state", tmp_path / "state.json",
        )  # fmt: skip

    with requests() as running:
        eventually(lambda: running.said.endswith("\n"), "a line")
        with requests() as other:
            assert other.process.wait(30) == 1
            assert "is in use by another collector" in other.said


def test_a_line_of_a_hundred_megabytes_is_cut_in_little_memory(broker, tmp_path):
    with (tmp_path / "a.log").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\nnext\n")
    with collecting(tmp_path, broker.address, "-t", "long") as running:
        state = tmp_path / "state.json"
        eventually(state.exists, "positions")
        eventually(lambda: b"100000006" in state.read_bytes(), "its end")
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
        assert running.stop() == 0
        assert "cut: 1" in running.said
    cut, following = records_of(broker.address, "long")
    assert (len(cut.value), following.value) == (1_000_000, b"next")
    assert dict(cut.headers)["size"] == b"100000001"
    assert peak < 90_000, f"{peak} kB"


def test_two_thousand_files_are_followed_by_one_process(broker, tmp_path):
    for number in range(2_000):
        (tmp_path / f"{number}.log").write_bytes(b"%d\n" % number)
    with collecting(tmp_path, broker.address, "-t", "many") as running:
        eventually(lambda: len(records_of(broker.address, "many")) == 2_000, "all files")
        with (tmp_path / "77.log").open("ab") as file:
            file.write(b"late\n")
        eventually(lambda: len(records_of(broker.address, "many")) == 2_001, "the late line")
        assert running.stop() == 0


def test_this_machine_is_measured_until_a_signal(broker, tmp_path):
    pytest.importorskip("psutil")
    with Collecting(
        tmp_path, "metrics", "-t", "metrics", "-b", broker.address, "--interval", "0.2",
        "--host", "web-1", "--top", "2",
    ) as running:  # fmt: skip
        eventually(lambda: "metrics" in topics(broker), "samples")

        def told():
            return [json.loads(record.value) for record in records_of(broker.address, "metrics")]

        eventually(lambda: "cpu.used" in {one["metric"] for one in told()}, "samples")
        assert running.stop() == 0
        assert running.said.startswith("moldau: samples delivered: ")
    assert {"process.memory", "memory.used", "load.1m"} <= {one["metric"] for one in told()}
    assert {one["host"] for one in told()} == {"web-1"}


def topics(broker):
    return {path.name.rpartition("-")[0] for path in broker.data.iterdir()}
