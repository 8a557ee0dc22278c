"""Configs that are not in Kafka's own table: those set only at run time, and Moldau's."""

from __future__ import annotations

import re
from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    Value,
    at_least,
    boolean,
    cluster_wide,
    integer,
    internal,
    long,
    string,
    without_effect,
)
from moldau.storage.topic_config import LONG_MAX

NO_MOVES: Final = "replicas are not moved between log directories yet"

ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]/\s]+):(?P<port>[0-9]{1,5})")
"""HOST:PORT, with an IPv6 address in brackets."""


def _address_or_nothing(value: Value) -> str | None:
    matched = ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if not value or (matched is not None and int(matched["port"]) <= 65535):
        return None
    return "Expected HOST:PORT"


OWN: tuple[ConfigDefinition, ...] = (
    boolean(
        "internal.topics.writable",
        False,
        "Let clients with the id __admin_client produce to the internal topics, as Kafka does.",
    ),
    string(
        "moldau.metrics.listen",
        "",
        "HOST:PORT where metrics are served as Prometheus text; empty serves none.",
        _address_or_nothing,
    ),
    integer(
        "moldau.metrics.partitions.max",
        2000,
        "Metrics of single partitions are left out when the broker has more than this many. Of"
        " committed offsets this many are told, those of the smallest groups first.",
        at_least(0),
    ),
    long(
        "log.scrub.interval.ms",
        0,
        "How long to rest between two passes that check the CRC of every batch in closed segments;"
        " 0 checks none.",
        at_least(0),
    ),
    *cluster_wide(
        *internal(
            long(
                "leader.replication.throttled.rate",
                LONG_MAX,
                "Bytes per second a leader serves to throttled followers.",
                at_least(0),
            ),
            long(
                "follower.replication.throttled.rate",
                LONG_MAX,
                "Bytes per second a throttled follower fetches.",
                at_least(0),
            ),
            *without_effect(
                NO_MOVES,
                long(
                    "replica.alter.log.dirs.io.max.bytes.per.second",
                    LONG_MAX,
                    "Bytes per second copied between this broker's log directories.",
                    at_least(0),
                ),
            ),
        )
    ),
)
