"""Compacting a log of which a tenth of the keys are different, while others produce.

The log is written as one that is not compacted; the clock starts when its policy is changed, and
stops when the cleaner's checkpoint has reached the active segment. What is counted are the bytes
that stood before that segment.
"""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.kafka_harness.broker import BrokerProcess
from tests.kafka_harness.topics import create_topic

from bench.background_writer import BackgroundWriter
from bench.scale import MB
from bench.stage import BenchError, Stage, data_topic, load

SETTINGS = {"log.cleaner.backoff.ms": "100"}
"""The cleaner's rest when nothing is dirty: it shall not be asleep when the clock starts."""
_SEGMENT_BYTES = 100 * MB
_VALUE_SIZE = 1_000
_RECORDS_PER_KEY = 10
_TIMEOUT_S = 600
_PAUSE_S = 0.01
_TOPIC = "compacted"


def run(stage: Stage) -> dict[str, float]:
    with stage.broker(settings=SETTINGS) as broker:
        _write(broker, stage.scale.compaction_bytes // _VALUE_SIZE)
        live = data_topic(broker, "live", 1)
        folder = broker.data / f"{_TOPIC}-0"
        *closed, active = sorted(folder.glob("*.log"))
        if not closed:
            raise BenchError("everything is in the active segment, and that is never compacted")
        dirty_bytes = sum(segment.stat().st_size for segment in closed)
        with BackgroundWriter(stage.directory, broker.address, live, count=100) as writer:
            began = time.perf_counter()
            _set_policy(broker, "compact")
            _wait_until_cleaned(broker.data, int(active.stem))
            seconds = time.perf_counter() - began
        times = writer.result()
    return {"speed": dirty_bytes / seconds / MB, "p99": times["p99"]}


def _write(broker: BrokerProcess, count: int) -> None:
    config = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": str(_SEGMENT_BYTES),
    }
    create_topic(broker.address, _TOPIC, 1, config)
    load(
        "produce_keyed",
        address=broker.address,
        topic=_TOPIC,
        size=_VALUE_SIZE,
        count=count,
        keys=count // _RECORDS_PER_KEY,
    )


def _set_policy(broker: BrokerProcess, policy: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, _TOPIC, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_TIMEOUT_S)


def _wait_until_cleaned(data: Path, offset: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while _cleaned_offset(data) < offset:
        if time.monotonic() > deadline:
            raise BenchError(f"not compacted up to offset {offset} in {_TIMEOUT_S} s")
        time.sleep(_PAUSE_S)


def _cleaned_offset(data: Path) -> int:
    """Return the offset the checkpoint has for the topic; it is replaced as a whole."""
    try:
        lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return -1
    for line in lines[2:]:  # behind the version and the count
        topic, _, offset = line.split()
        if topic == _TOPIC:
            return int(offset)
    return -1
