"""An answer as plain values that two brokers can be compared by.

What a broker must choose for itself is replaced by a name for what it means: a topic's id by the
topic, an address by `self`, the present by `now`. A value that is not what it should be (an
unknown id, another port) is kept, so that it shows as a difference.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from moldau.base.ids import ZERO_TOPIC_ID

NOW_WITHIN_MS = 120_000
"""Longer than any scenario takes, short against every other time the scenarios send."""

TIMES = {"log_append_time_ms", "timestamp", "last_timestamp"}
SIZES_OF_THE_DISK = {"total_bytes", "usable_bytes"}


@dataclass
class Names:
    """What the values that differ from broker to broker are called."""

    host: str
    port: int
    directory: str
    cluster_id: str = ""
    topics: dict[bytes, str] = field(default_factory=lambda: {ZERO_TOPIC_ID: "none"})
    sessions: dict[int, str] = field(default_factory=lambda: {0: "none"})

    def session(self, session_id: int) -> str:
        return self.sessions.setdefault(session_id, f"session {len(self.sessions)}")


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
    if key in SIZES_OF_THE_DISK and value > 0:
        return "some"
    if key in TIMES and abs(value - time.time() * 1000) < NOW_WITHIN_MS:
        return "now"
    if isinstance(value, str):
        return value.replace(names.directory, "<data>").replace(str(names.port), "<port>")
    return value
