"""One folder, compacted by Kafka and by us: the same batches are left, with the same records."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_harness.broker import CLUSTER_ID
from kafka_harness.distribution import CURRENT
from kafka_harness.kafka_node import NODE_ID, KafkaNode
from kafka_harness.samples import CODECS
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from kits.compaction_kit import records
from kits.log_kit import stored_batches
from moldau.base.clock import SystemClock
from moldau.base.ids import PartitionKey
from moldau.records.batch import BatchHeader
from moldau.records.record import Record
from moldau.storage.checkpoints import CLEANER_OFFSETS, read_offsets
from moldau.storage.compaction.swap import Limits
from moldau.storage.compaction.work import begin, go_on
from moldau.storage.disk import Disk
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

pytestmark = pytest.mark.java(CURRENT)

KEY = PartitionKey("compacted", 0)
SEGMENT_BYTES = 1 << 20
"""The least Kafka 4 allows for a topic."""
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=SEGMENT_BYTES)
CLEANER = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}


def write(address: str) -> None:
    """Write keys again and again: every codec, tombstones, and transactions of both endings."""
    chance = random.Random(7)

    def send(producer: Producer, count: int) -> None:
        for _ in range(count):
            key = b"key %d" % chance.randrange(300)
            value = None if chance.random() < 0.05 else chance.randbytes(400)
            headers = [("h", b"1")] if chance.random() < 0.1 else None
            producer.produce(KEY.topic, value, key, partition=0, headers=headers)
        assert producer.flush(30) == 0

    for codec in CODECS:
        settings = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 5}
        send(Producer({**settings, "enable.idempotence": True}), 2_000)
        producer = Producer({**settings, "transactional.id": f"writer {codec}"})
        producer.init_transactions(30)
        for commits in (True, False, True, False):
            producer.begin_transaction()
            send(producer, 100)
            producer.commit_transaction(30) if commits else producer.abort_transaction(30)


def open_log(data: Path) -> tuple[LogManager, Log]:
    manager = LogManager(Resources(Disk(), SystemClock(), random.Random(1)), [str(data)])
    assert manager.open(CLUSTER_ID, NODE_ID, "boot") == []
    manager.load(lambda _: CONFIG)
    log = manager.get(KEY)
    assert log is not None
    return manager, log


def clean(data: Path) -> None:
    manager, log = open_log(data)
    dirt = manager.dirt(KEY, log.log_end_offset)
    cleaning = manager.prepare_cleaning(KEY, dirt, Limits(1 << 27, 1 << 18))
    step = begin(cleaning.plan, 1 << 30)
    while step.outcome is None:
        cleaning.swap_in(step.group)
        step = go_on(cleaning.plan.token, 1 << 30)
    manager.close({})


def contents(data: Path) -> tuple[list[BatchHeader], list[Record], list[AbortedTransaction]]:
    """What is left: batches as far as both may agree, records, and aborted transactions.

    Kafka counts the timestamps of a batch it writes anew from another one; when each has set the
    delete horizons is a matter of time.
    """
    manager, log = open_log(data)
    batches = [
        batch.header._replace(length=0, crc=0, base_timestamp=0)
        for batch in stored_batches(log)
        if batch.header is not None
    ]
    found = (batches, records(log), [one for each in log.segments for one in each.aborted()])
    manager.release()
    return found


def without_borders(batches: list[BatchHeader], borders: set[int]) -> list[BatchHeader]:
    """Leave out the empty batches that we keep where the next segment begins, and Kafka may not."""
    return [batch for batch in batches if batch.count or batch.next_offset not in borders]


def test_kafka_and_we_leave_the_same(tmp_path):
    with KafkaNode(tmp_path / "kafka", {"log.cleaner.enable": "false"}) as kafka:
        config = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
        create_topic(kafka.address, KEY.topic, config=config)
        write(kafka.address)
    ours = tmp_path / "ours"
    shutil.copytree(kafka.data, ours)
    before = contents(shutil.copytree(kafka.data, tmp_path / "before"))
    with KafkaNode(tmp_path / "kafka", CLEANER) as kafka:
        path = str(kafka.data / CLEANER_OFFSETS)
        logs = sorted((kafka.data / str(KEY)).glob("*.log"))
        active = int(logs[-1].stem)
        eventually(
            lambda: read_offsets(Disk(), path).get(KEY, 0) == active, "Kafka has compacted it"
        )
    clean(ours)
    kafkas, own = contents(kafka.data), contents(ours)
    borders = {int(path.stem) for path in (ours / str(KEY)).glob("*.log")}
    assert len(borders) > 2, "a border between cleaned segments was meant to be there"
    assert len(own[1]) < len(before[1]) / 2
    assert any(batch.count == 0 for batch in own[0]), "an emptied batch was meant to be there"
    assert any(batch.has_delete_horizon for batch in own[0])
    assert any(batch.control for batch in own[0])
    assert own[2], "an aborted transaction was meant to be there"
    assert own[1] == kafkas[1]
    assert own[2] == kafkas[2]
    assert without_borders(own[0], borders) == without_borders(kafkas[0], borders)
