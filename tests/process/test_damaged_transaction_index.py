"""A `.txnindex` that rotted under a real broker: readers see no aborted record, and go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.transactional_clients import READ_COMMITTED, READ_UNCOMMITTED, read_to_the_end
from moldau import Producer
from moldau.storage.disk import Disk
from moldau.storage.verify import verify_partition
from process.raw_client import RawClient
from process.serving import Serving

TOPIC = "orders"
COUNT = 40


def write(broker: Serving) -> list[str]:
    """Commit and abort by turns, over many segments; return what was committed."""
    committed = []
    with Producer(broker.address, transactional_id="writer") as producer:
        for number in range(COUNT):
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                producer.send(TOPIC, f"{number}".encode() + b" " * 200, partition=0)
                if number % 2:
                    producer.flush()
                    raise ZeroDivisionError
                committed.append(f"{number}")
    return committed


def read(broker: Serving, isolation: str) -> list[str]:
    values, _ = read_to_the_end(broker.address, TOPIC, 0, isolation)
    return [value.strip() for value in values]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: bytes(len(content)),
        lambda content: content[::-1],
    ],
    ids=["cut", "empty", "zeros", "garbage"],
)
def test_what_was_aborted_stays_hidden_and_the_files_are_made_anew(
    tmp_path: Path, damage: Callable[[bytes], bytes]
):
    with Serving(tmp_path) as broker:
        with RawClient((broker.host, broker.port)) as client:
            assert client.create_topic(TOPIC, config={"segment.bytes": str(2048)}) == 0
        committed = write(broker)
        assert read(broker, READ_COMMITTED) == committed
        assert len(read(broker, READ_UNCOMMITTED)) == COUNT
    folder = tmp_path / "data" / f"{TOPIC}-0"
    stored = {path: path.read_bytes() for path in folder.glob("*.txnindex")}
    assert len(stored) > 3
    for path, content in stored.items():
        path.write_bytes(damage(content))

    with Serving(tmp_path) as broker:
        assert read(broker, READ_COMMITTED) == committed
        assert read(broker, READ_COMMITTED) == committed
        lines = [line for line in broker.errors.splitlines() if "made anew" in line]
        assert len(lines) == len(stored)
        assert all(f"{path}: " in broker.errors for path in stored)
    assert {path: path.read_bytes() for path in folder.glob("*.txnindex")} == stored
    assert not verify_partition(Disk(), str(folder))
