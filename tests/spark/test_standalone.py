"""The format on a real cluster: master, two workers and a driver, each a process.

Pipelines on such a cluster are in `test_pipeline_kills.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_harness.distribution import SPARK_CONNECTOR
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send

JOB = Path(__file__).with_name("cluster_job.py")

pytestmark = pytest.mark.java(SPARK_CONNECTOR)


def test_a_cluster_reads_a_topic_by_its_address_alone(broker, cluster):
    topic = create_topic(broker.address, fresh_topic("cluster"), 2)
    sent = [f"{partition}-{number}" for partition in range(2) for number in range(50)]
    for partition in range(2):
        values = [value.encode() for value in sent if value.startswith(f"{partition}-")]
        send(broker.address, topic, values, partition)

    done = cluster.run(JOB, broker.address, topic)

    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == 2
    assert found["values"] == sorted(sent)
