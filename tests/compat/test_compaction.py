"""A folder that was compacted, in the eyes of Kafka's own tool."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kits.compaction_kit import keyed_batch
from kits.log_kit import KEY, TOPIC_ID, HandClock, append, marker
from moldau.records.compression import Codec
from moldau.storage.compaction.swap import Limits
from moldau.storage.compaction.work import begin, go_on
from moldau.storage.disk import Disk
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

pytestmark = pytest.mark.java(CURRENT)

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=100_000, delete_retention_ms=1000
)
ROUNDS = 3


def joined(files: list[Path]) -> str:
    assert files
    return ",".join(str(file) for file in sorted(files))


def fill(log: Log, round_: int) -> None:
    """Write every kind of batch: all codecs, tombstones, transactions of both endings."""
    for number, codec in enumerate(Codec):
        for part in range(20):
            pairs = [(b"key %d" % ((part + n) % 30), b"x" * 400) for n in range(10)]
            pairs.append((b"once %d %d %d" % (round_, number, part), b"y" * 100))
            append(log, keyed_batch(pairs, codec=codec))
        append(log, keyed_batch([(b"key %d" % number, None)], codec=codec))
    for producer_id, aborted in ((7, True), (8, False)):
        pairs = [(b"key 9", b"t" * 100), (b"transaction %d" % producer_id, b"%d" % round_)]
        producer = (producer_id, 0, 2 * round_)
        append(log, keyed_batch(pairs, producer=producer, transactional=True))
        batch, header = marker(producer_id, 0, aborted=aborted)
        log.append_marker(batch, header, 0, transaction_version=1)
    log.roll()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A log that was filled and compacted several times, left by an orderly stop."""
    data, clock = tmp_path_factory.mktemp("compacted"), HandClock()
    manager = LogManager(Resources(Disk(), clock, random.Random(1)), [str(data)])
    manager.open("cluster", 1, "boot")
    manager.load(lambda _: CONFIG)
    log = manager.open_or_create(KEY, TOPIC_ID, CONFIG)
    for round_ in range(ROUNDS):
        fill(log, round_)
        flush = log.prepare_flush()
        flush.run()
        log.flushed(flush)
        dirt = manager.dirt(KEY, log.log_end_offset)
        cleaning = manager.prepare_cleaning(KEY, dirt, Limits(1 << 20, 4096))
        step = begin(cleaning.plan, 1 << 30)
        while step.outcome is None:
            cleaning.swap_in(step.group)
            step = go_on(cleaning.plan.token, 1 << 30)
        clock.now_ms += 700
    for remove in manager.prepare_removals(clock.now_ms + 100_000):
        remove()
    manager.close({})
    return data / str(KEY)


def test_kafkas_dump_tool_finds_every_batch_valid(folder, dump):
    said = dump("--files", joined([*folder.glob("*.log")]), "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in said.stdout
    assert {*re.findall(r"compresscodec: (\w+)", said.stdout)} == {c.label for c in Codec}
    assert "deleteHorizonMs: OptionalLong[" in said.stdout
    lines = re.findall(r"^\| offset: .*", said.stdout, re.MULTILINE)
    keys = re.findall(r" key: (once [ \d]+|key \d+)", "\n".join(lines))
    assert len(keys) == len(set(keys))
    assert len([key for key in keys if key.startswith("once")]) == 100 * ROUNDS
    assert said.stdout.count("endTxnMarker: COMMIT") >= 1


def indexes_of(folder: Path) -> list[Path]:
    """List the indexes that have entries: the segment being written has none yet."""
    found = [*folder.glob("*.index"), *folder.glob("*.timeindex")]
    return [file for file in found if file.stat().st_size]


def test_kafkas_sanity_check_passes_every_index(folder, dump):
    indexes = indexes_of(folder)
    assert len(indexes) >= 4
    said = dump("--files", joined(indexes), "--index-sanity-check")
    assert said.stdout.count("passed sanity check") == len(indexes)


def test_every_index_entry_points_at_its_batch(folder, dump):
    indexes = indexes_of(folder)
    said = dump("--files", joined(indexes), "--verify-index-only")
    assert said.lines == [f"Dumping {file}" for file in sorted(indexes)]


def test_kafkas_dump_tool_reads_the_index_of_aborted_transactions(folder, dump):
    indexes = [*folder.glob("*.txnindex")]
    said = dump("--files", joined(indexes))
    assert re.search(r"producerId: 7 ", said.stdout)
