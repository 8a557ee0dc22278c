"""The folder itself: Kafka's own tool reads it, and it changes hands between brokers.

Mostly a broker is started and stopped by each test, because a folder is looked at while nobody
serves it: a running broker's indexes are longer, or shorter, than what they will be.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT
from kafka_harness.kafka_node import NODE_ID, KafkaNode
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import CODECS
from kafka_harness.topics import create_topic, read_all, send, topic_config

pytestmark = pytest.mark.java(CURRENT)

SEGMENT_BYTES = 1 << 20
"""The least Kafka 4 allows for a topic."""

FIRST = [b"first %d" % number for number in range(100)]
SECOND = [b"second %d" % number for number in range(50)]
THIRD = [b"third %d" % number for number in range(25)]


def joined(files: list[Path]) -> str:
    assert files
    return ",".join(str(file) for file in sorted(files))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A partition of several segments in every codec, left behind by an orderly stop."""
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("files")) as broker:
        config = {"segment.bytes": str(SEGMENT_BYTES)}
        topic = create_topic(broker.address, "segments", config=config)
        values = [random.Random(seed).randbytes(500).hex().encode() for seed in range(2_000)]
        for codec in CODECS:
            send(broker.address, topic, values, codec=codec)
    return broker.data / "segments-0"


def test_kafkas_dump_tool_finds_every_batch_valid(folder, dump):
    said = dump("--files", joined([*folder.glob("*.log")]), "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in said.stdout
    assert {*re.findall(r"compresscodec: (\w+)", said.stdout)} == set(CODECS)
    offsets = [
        int(offset) for offset in re.findall(r"^\| offset: (\d+)", said.stdout, re.MULTILINE)
    ]
    assert offsets == list(range(2_000 * len(CODECS)))


def test_kafkas_sanity_check_passes_every_index(folder, dump):
    indexes = [*folder.glob("*.index"), *folder.glob("*.timeindex")]
    assert len(indexes) >= 8, "the topic was meant to have several segments"
    said = dump("--files", joined(indexes), "--index-sanity-check")
    assert said.stdout.count("passed sanity check") == len(indexes)


def test_every_index_entry_points_at_its_batch(folder, dump):
    indexes = [*folder.glob("*.index"), *folder.glob("*.timeindex")]
    said = dump("--files", joined(indexes), "--verify-index-only")
    assert said.lines == [f"Dumping {file}" for file in sorted(indexes)]


def test_kafkas_dump_tool_reads_the_producer_snapshots(folder, dump):
    snapshots = [*folder.glob("*.snapshot")]
    said = dump("--files", joined(snapshots))
    assert said.stdout.count("Dumping") == len(snapshots)


def test_kafkas_dump_tool_reads_the_metadata_log(folder, dump):
    log = folder.parent / "__cluster_metadata-0" / "00000000000000000000.log"
    said = dump("--files", log, "--cluster-metadata-decoder")
    topics = re.findall(r'"type":"TOPIC_RECORD".*?"name":"([^"]+)"', said.stdout)
    assert topics == ["segments"]


def test_the_files_of_a_segment_being_written_can_be_read(broker, dump):
    topic = create_topic(broker.address, "being-written")
    send(broker.address, topic, FIRST)
    folder = broker.data / f"{topic}-0"
    files = [folder / f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")]
    assert (folder / "leader-epoch-checkpoint").exists()
    said = dump("--files", joined(files))
    assert [line for line in said.lines if line.startswith("Dumping")] == [
        f"Dumping {file}" for file in sorted(files)
    ]
    assert "isvalid: false" not in said.stdout


def successor(kind: str, directory: Path) -> BrokerProcess:
    """Make a broker that will serve a folder another one has written."""
    settings = {"node.id": str(NODE_ID)} if kind == "moldau" else {}
    return make_broker(kind, directory, settings)


@pytest.mark.parametrize("ending", [pytest.param("stopped", marks=pytest.mark.long), "killed"])
def test_a_folder_goes_from_kafka_to_the_broker_and_back(tmp_path, ending):
    with KafkaNode(tmp_path) as kafka:
        create_topic(kafka.address, "old", config={"retention.ms": "86400000"})
        send(kafka.address, "old", FIRST)

    broker = successor(kind_under_test(), tmp_path).start()
    try:
        assert read_all(broker.address, "old") == FIRST
        assert topic_config(broker.address, "old", "retention.ms") == "86400000"
        send(broker.address, "old", SECOND)
        create_topic(broker.address, "new", partitions=2, config={"retention.ms": "90000000"})
        send(broker.address, "new", THIRD, partition=1)
        if ending == "stopped":
            broker.stop()
    finally:
        broker.kill()
    # What our recovery cuts stays beside the segments, and Kafka must not mind.
    cut = broker.data / "old-0" / f"{0:020d}.log.512.1700000000000.cut"
    cut.write_bytes(b"no batch")

    with KafkaNode(tmp_path) as kafka:
        assert read_all(kafka.address, "old") == FIRST + SECOND
        assert read_all(kafka.address, "new", 1) == THIRD
        assert topic_config(kafka.address, "new", "retention.ms") == "90000000"
        send(kafka.address, "old", THIRD)
        assert read_all(kafka.address, "old") == FIRST + SECOND + THIRD
    assert not [*kafka.data.glob("*-stray*")]
    assert cut.read_bytes() == b"no batch"
