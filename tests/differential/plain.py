"""An answer as plain values that two brokers can be compared by.

What a broker must choose for itself is replaced by a name for what it means: a topic's id by the
topic, a member's by the number of the member, an address by `self`, the present by `now`. A value
that is not what it should be (an unknown id, another port) is kept, so that it shows as a
difference.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

from moldau.base.ids import ZERO_TOPIC_ID

NOW_WITHIN_MS = 120_000
"""Longer than any scenario takes, short against every other time the scenarios send."""

TIMES = {"log_append_time_ms", "timestamp", "last_timestamp", "transaction_start_time_ms"}
SIZES_OF_THE_DISK = {"total_bytes", "usable_bytes"}

RANDOM_PART = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""How a coordinator ends the ids of members, behind the client's id or the instance's."""


@dataclass
class Names:
    """What the values that differ from broker to broker are called."""

    host: str
    port: int
    directory: str
    cluster_id: str = ""
    topics: dict[bytes, str] = field(default_factory=lambda: {ZERO_TOPIC_ID: "none"})
    sessions: dict[int, str] = field(default_factory=lambda: {0: "none"})
    members: dict[str, str] = field(default_factory=dict)
    producers: dict[int, str] = field(default_factory=dict)
    """Only ids that a scenario was given; those it makes up are the same for both brokers."""

    def session(self, session_id: int) -> str:
        return self.sessions.setdefault(session_id, f"session {len(self.sessions)}")

    def member(self, random_part: str) -> str:
        return self.members.setdefault(random_part, f"<member {len(self.members)}>")

    def given_producer(self, producer_id: int) -> str:
        return self.producers.setdefault(producer_id, f"producer {len(self.producers)}")


def plain(value: Any, names: Names, key: str = "") -> Any:
    """Turn a message into dicts, lists and scalars without what must differ."""
    if hasattr(value, "FIELDS"):
        return {one.name: plain(getattr(value, one.name), names, one.name) for one in value.FIELDS}
    if isinstance(value, dict):
        return {name: plain(one, names) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one, names, key) for one in value]
    if isinstance(value, memoryview):
        value = bytes(value)
    return _named(value, names, key)


def _named(value: Any, names: Names, key: str) -> Any:
    if key == "topic_id":
        return names.topics.get(bytes(value), value)
    if key == "session_id":
        return names.session(value)
    if key in {"host", "port"} and value == getattr(names, key):
        return "self"
    if key == "cluster_id" and value == names.cluster_id:
        return "self"
    if key == "producer_id":
        return names.producers.get(value, value)
    if key in SIZES_OF_THE_DISK and value > 0:
        return "some"
    if key in TIMES and abs(value - time.time() * 1000) < NOW_WITHIN_MS:
        return "now"
    if isinstance(value, str):
        value = RANDOM_PART.sub(lambda found: names.member(found[0]), value)
        return value.replace(names.directory, "<data>").replace(str(names.port), "<port>")
    return value
