"""Every broker setting that stands in for a topic's own shows in a new topic, as on Kafka 4.3.1.

The table holds what Kafka answered with these settings in its `server.properties`.
"""

from pathlib import Path

import pytest

from moldau.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.server.configuration.topic_configs import BROKER_SYNONYMS
from moldau.server.configuration.values import Source
from moldau.testing import TestBroker
from process.raw_client import RawClient

TOPIC = 2
TABLE = Path(__file__).parent / "kafka_4_3_1" / "topic_defaults.tsv"
ROWS = [line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
STRONGER = {names[0] for names in BROKER_SYNONYMS.values()}


def shown_by_a_new_topic(settings):
    """Return (value, source) by topic config."""
    with TestBroker(settings=settings, topics=["t"]) as broker:
        host, port = broker.bootstrap_servers.split(":")
        with RawClient((host, int(port))) as client:
            request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "t", None)])
            (found,) = client.call(request, 4).results
    return {one.name: (one.value, one.config_source) for one in found.configs}


def test_the_table_has_every_name():
    assert {row[0] for row in ROWS} == {
        name for names in BROKER_SYNONYMS.values() for name in names
    }


@pytest.mark.parametrize("names", [STRONGER, {"log.retention.hours"}, None])
def test_a_new_topic_shows_what_the_settings_say(names):
    """All stronger names at once, then a lesser one, then the other lesser ones."""
    chosen = names or {row[0] for row in ROWS} - STRONGER - {"log.retention.hours"}
    rows = [row for row in ROWS if row[0] in chosen]
    shown = shown_by_a_new_topic({name: text for name, text, *_ in rows})
    for name, _, topic_name, value, source in rows:
        # Kafka calls the value of a lesser name a default; Moldau says where it was set.
        expected = Source(int(source)) if name in STRONGER else Source.STATIC_BROKER
        assert shown[topic_name] == (value, expected), name
