"""The format and a pipeline on a real cluster: master, two workers and drivers, each a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_harness.distribution import SPARK_CONNECTOR
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from spark.activity_kit import BATCH_ROWS, RULES, activity_topic, handled, process, run_words
from spark.activity_model import check_tables
from spark.session import settings
from spark.standalone import standalone_cluster

JOB = Path(__file__).with_name("cluster_job.py")
SPECULATION = {
    # As eager as can be: every task that is not among the first to end gets a second attempt.
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.minTaskRuntime": "1ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.1",
}

pytestmark = pytest.mark.java(SPARK_CONNECTOR)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


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


def test_a_pipeline_goes_on_without_an_executor_and_with_speculation(broker, cluster, tmp_path):
    topic, records = activity_topic(broker.address, batches=2)
    out = tmp_path / "out"
    small = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    given = {**settings(tmp_path), **small, **SPECULATION}
    words = [*run_words(broker.address, topic, out, given), "--master", cluster.url]

    with process(words, tmp_path / "said.txt", cluster.environment) as driver:
        eventually(lambda: handled(out) >= BATCH_ROWS, "a batch", 180)
        victim = cluster.executors()[0]
        victim.kill()
        eventually(lambda: handled(out) == len(records), "all is filed", 180)
        driver.terminate()
        assert driver.wait(60) == 0, (tmp_path / "said.txt").read_text()

    check_tables(out, records, RULES)
