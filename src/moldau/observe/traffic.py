"""What went in and out, per topic, as plain counters."""

from __future__ import annotations

from collections.abc import Iterator


class TopicTraffic:
    """One topic's traffic since the broker started."""

    __slots__ = ("bytes_in", "bytes_out", "failed_fetch", "failed_produce", "messages_in")

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.failed_produce = 0
        self.failed_fetch = 0


class Traffic:
    """The traffic of every topic that had any."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}

    def of(self, topic: str) -> TopicTraffic:
        """Return the one object that counts this topic."""
        traffic = self._topics.get(topic)
        if traffic is None:
            traffic = self._topics[topic] = TopicTraffic()
        return traffic

    def forget(self, topic: str) -> None:
        """Drop the counters of a topic that was deleted."""
        self._topics.pop(topic, None)

    def items(self) -> Iterator[tuple[str, TopicTraffic]]:
        """Yield every topic with its counters; safe while others are added."""
        yield from tuple(self._topics.items())
