"""What a new topic shows where its broker has settings that stand in for a topic's own.

The table holds what Kafka 4.3.1 answered with these settings in its `server.properties`. Settings
that would hide each other are asked for apart: all stronger names at once, then the lesser ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kafka_harness.waiting import eventually
from moldau.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from moldau.server.configuration.topic_configs import BROKER_SYNONYMS
from process.raw_client import RawClient

TOPIC = 2


class Row(NamedTuple):
    """One setting of a broker, and what a new topic shows."""

    setting: str
    text: str
    config: str
    value: str
    source: int


def _rows() -> list[Row]:
    table = Path(__file__).parents[1] / "unit" / "server" / "kafka_4_3_1" / "topic_defaults.tsv"
    lines = [line for line in table.read_text().splitlines() if not line.startswith("#")]
    return [Row(*fields[:4], int(fields[4])) for fields in (line.split("\t") for line in lines)]


ROWS = _rows()
STRONGER = {names[0] for names in BROKER_SYNONYMS.values()}
_LEAST = {"log.retention.hours"}
ASKED_TOGETHER = {
    "stronger": [row for row in ROWS if row.setting in STRONGER],
    "lesser": [row for row in ROWS if row.setting not in STRONGER | _LEAST],
    "least": [row for row in ROWS if row.setting in _LEAST],
}


def shown_by_a_topic(address: str, topic: str) -> dict[str, tuple[str | None, int]]:
    """Return value and source by config, once the topic is known."""
    host, port = address.split(":")
    with RawClient((host, int(port))) as client:
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, None)])

        def look() -> DescribeConfigsResult | None:
            (found,) = client.call(request, 4).results
            return None if found.error_code else found

        found = eventually(look, f"{topic} is known")
        assert found is not None
    return {one.name: (one.value, one.config_source) for one in found.configs}
