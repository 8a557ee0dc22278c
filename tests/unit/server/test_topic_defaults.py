"""Every broker setting that stands in for a topic's own shows in a new topic, as on Kafka 4.3.1.

`tests/compat/test_topic_defaults_are_current.py` asks Kafka the same.
"""

import pytest

from kits.topic_defaults import ASKED_TOGETHER, ROWS, STRONGER, shown_by_a_topic
from moldau.server.configuration.topic_configs import BROKER_SYNONYMS
from moldau.server.configuration.values import Source
from moldau.testing import TestBroker


def test_the_table_has_every_name():
    assert {row.setting for row in ROWS} == {
        name for names in BROKER_SYNONYMS.values() for name in names
    }


@pytest.mark.parametrize("group", ASKED_TOGETHER)
def test_a_new_topic_shows_what_the_settings_say(group):
    rows = ASKED_TOGETHER[group]
    with TestBroker(settings={row.setting: row.text for row in rows}, topics=["t"]) as broker:
        shown = shown_by_a_topic(broker.bootstrap_servers, "t")
    for row in rows:
        # Kafka calls the value of a lesser name a default; Moldau says where it was set.
        expected = Source(row.source) if row.setting in STRONGER else Source.STATIC_BROKER
        assert shown[row.config] == (row.value, expected), row.setting
