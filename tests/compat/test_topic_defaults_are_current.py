"""The committed table of topic defaults is what Kafka 4.3.1 answers."""

from __future__ import annotations

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.kinds import make_broker
from kafka_harness.topics import create_topic
from kits.topic_defaults import ASKED_TOGETHER, shown_by_a_topic


@pytest.mark.java(CURRENT)
@pytest.mark.parametrize(
    "group",
    [
        name if name == "least" else pytest.param(name, marks=pytest.mark.long)
        for name in ASKED_TOGETHER
    ],
)
def test_a_new_topic_of_kafka_shows_what_the_table_says(tmp_path, group):
    rows = ASKED_TOGETHER[group]
    with make_broker("kafka", tmp_path, {row.setting: row.text for row in rows}) as kafka:
        shown = shown_by_a_topic(kafka.address, create_topic(kafka.address, "t"))
    assert {row.setting: shown[row.config] for row in rows} == {
        row.setting: (row.value, row.source) for row in rows
    }
