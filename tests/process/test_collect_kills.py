"""kill -9 of the collector and of the broker, in the middle of collecting and of rotation.

Lines are numbered per file. Writers append to many files, which are rotated under way by rename and
by copytruncate, while the collector is killed and started again at moments of chance, and the
broker too. In the end every line has to be in the topic, those of one file in order, and all that
comes twice has to come from a kill.

MOLDAU_KILL_ROUNDS sets how often (three times by default), MOLDAU_KILL_SEED which moments.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from moldau.client.records import Record
from process.collecting import Collecting, records_of
from process.serving import Serving
from process.test_serve import free_port

ROUNDS = int(os.environ.get("MOLDAU_KILL_ROUNDS", "3"))
SEED = int(os.environ.get("MOLDAU_KILL_SEED", "1"))
FILE_COUNT = 20
PARTITIONS = 3
TOPIC = "logs"


class Logs:
    """Files that are written to and rotated; each knows the numbers of its lines."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        folder.mkdir()
        self._folder = folder
        self._dice = dice
        self._counts = [0] * FILE_COUNT
        self._rotations = [0] * FILE_COUNT

    @property
    def line_count(self) -> int:
        return sum(self._counts)

    def path(self, number: int) -> Path:
        return self._folder / f"app-{number}.log"

    def write(self, count: int) -> None:
        """Append lines to files of chance, torn into pieces now and then."""
        for _ in range(count):
            number = self._dice.randrange(FILE_COUNT)
            line = b"%d %d %s\n" % (number, self._counts[number], b"." * self._dice.randrange(200))
            self._counts[number] += 1
            cut = self._dice.randrange(len(line)) if self._dice.random() < 0.1 else 0
            with self.path(number).open("ab", buffering=0) as file:
                file.write(line[:cut])
                file.write(line[cut:])

    def rotate(self, count: int) -> None:
        for _ in range(count):
            number = self._dice.randrange(FILE_COUNT)
            path = self.path(number)
            if not path.exists():
                continue
            self._rotations[number] += 1
            rotated = path.with_name(f"{path.name}.{self._rotations[number]:03}")
            if self._dice.random() < 0.5:
                path.rename(rotated)
            else:
                shutil.copyfile(path, rotated)
                os.truncate(path, 0)

    def check(self, records: list[Record[bytes, bytes]], *, once: bool) -> None:
        """Compare what was delivered with what was written."""
        seen: dict[int, list[int]] = defaultdict(list)
        by_key: dict[bytes, list[int]] = defaultdict(list)
        for record in records:
            number, line = map(int, record.value.split(b" ")[:2])
            if line not in seen[number]:
                by_key[record.key].append(line)
            seen[number].append(line)
        for number, count in enumerate(self._counts):
            assert set(seen[number]) == set(range(count)), f"file {number} is not whole"
            if once:
                assert len(seen[number]) == count, f"file {number} has lines twice"
        for key, lines in by_key.items():
            assert lines == sorted(lines), f"{key!r} is out of order"


def collect(directory: Path, address: str) -> Collecting:
    return Collecting(
        directory, "files", directory / "logs" / "*", "-t", TOPIC, "-b", address,
        "--state", directory / "state.json", "--scan", "0.2", "--poll", "0.1",
    )  # fmt: skip


@pytest.mark.timeout(120 + ROUNDS * 20)
def test_no_line_is_lost_over_kills_of_collector_and_broker(tmp_path):
    dice = random.Random(SEED)
    port = free_port()
    options = ("--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}")
    address = f"127.0.0.1:{port}"
    logs = Logs(tmp_path / "logs", dice)
    broker = Serving(tmp_path, *options).start()
    try:
        create_topic(address, TOPIC, PARTITIONS)
        for number in range(ROUNDS):
            with collect(tmp_path, address) as collecting:
                goal = len(records_of(address, TOPIC)) + dice.randint(1, 800)
                while len(records_of(address, TOPIC)) < goal:
                    logs.write(200)
                    logs.rotate(1)
                    assert collecting.is_running, collecting.said
                if number % 2:
                    broker.kill()
                    logs.write(200)
                    broker = Serving(tmp_path, *options).start()
                collecting.kill()
            logs.write(200)
            logs.rotate(1)
        with collect(tmp_path, address) as collecting:
            found = eventually_whole(logs, address)
            assert collecting.stop() == 0, collecting.said
            assert "Traceback" not in collecting.said
        logs.check(found, once=False)
        assert broker.stop() == 0
    finally:
        broker.kill()


def eventually_whole(logs: Logs, address: str) -> list[Record[bytes, bytes]]:
    found: list[Record[bytes, bytes]] = []

    def is_whole() -> bool:
        found[:] = records_of(address, TOPIC)
        return len({record.value for record in found}) >= logs.line_count

    eventually(is_whole, "every line")
    return found


@pytest.mark.long
def test_orderly_restarts_and_kills_of_the_broker_repeat_no_line(tmp_path):
    dice = random.Random(SEED)
    port = free_port()
    options = ("--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}")
    address = f"127.0.0.1:{port}"
    logs = Logs(tmp_path / "logs", dice)
    broker = Serving(tmp_path, *options).start()
    try:
        create_topic(address, TOPIC, PARTITIONS)
        for _ in range(2):
            with collect(tmp_path, address) as collecting:
                for _ in range(3):
                    logs.write(300)
                    logs.rotate(2)
                broker.kill()
                logs.write(100)
                broker = Serving(tmp_path, *options).start()
                logs.write(100)
                eventually_whole(logs, address)
                assert collecting.stop() == 0, collecting.said
            logs.write(100)
            logs.rotate(2)
        with collect(tmp_path, address) as collecting:
            found = eventually_whole(logs, address)
            assert collecting.stop() == 0, collecting.said
        logs.check(found, once=True)
        assert broker.stop() == 0
    finally:
        broker.kill()
