"""The format on a real cluster: master, two workers and a driver, each a process.

Pipelines on such a cluster are in `test_pipeline_kills.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kafka_harness.distribution import SPARK_CONNECTOR
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from spark.session import settings
from spark.standalone import SMALL_EXECUTORS, SPECULATION

TASKS = 3
ROWS = 60
JOB = Path(__file__).with_name("cluster_job.py")

pytestmark = pytest.mark.java(SPARK_CONNECTOR)


@pytest.mark.long
def test_a_cluster_reads_a_topic_by_its_address_alone(broker, cluster):
    topic = create_topic(broker.address, fresh_topic("cluster"), 2)
    sent = [f"{partition}-{number}" for partition in range(2) for number in range(50)]
    for partition in range(2):
        values = [value.encode() for value in sent if value.startswith(f"{partition}-")]
        send(broker.address, topic, values, partition)

    done = cluster.run(JOB, "read", json.dumps(SMALL_EXECUTORS), broker.address, topic)

    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == 2
    assert found["values"] == sorted(sent)


def test_rows_of_tasks_that_spark_runs_again_and_twice_at_once_are_there_once(
    broker, cluster, committed_records, tmp_path
):
    """Of every task two attempts stage its rows: one after the other, or both at once."""
    topic = create_topic(broker.address, fresh_topic("unlucky"), 2)
    attempts, checkpoint = tmp_path / "attempts", tmp_path / "checkpoint"
    attempts.mkdir()
    options = {
        "kafka.bootstrap.servers": broker.address,
        "topic": topic,
        "checkpointLocation": str(checkpoint),
        "exactly.once": "true",
        "exactly.once.inline.max.bytes": "0",
        "attempts": str(attempts),
    }
    eager = {**settings(tmp_path), **SMALL_EXECUTORS, **SPECULATION}

    cluster.run(JOB, "write", json.dumps(eager), ROWS, TASKS, json.dumps(options))

    batches = [int(note.name) for note in checkpoint.glob("commits/*") if note.name.isdecimal()]
    assert batches
    assert {file.name for file in attempts.iterdir()} >= {
        f"{batch}-{task}-{attempt}"
        for batch in batches
        for task in range(TASKS)
        for attempt in range(2)
    }
    numbers = range(ROWS * len(batches))
    assert committed_records.values(topic) == Counter(b"%d" % number for number in numbers)
