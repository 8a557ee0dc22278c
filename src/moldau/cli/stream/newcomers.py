"""Partitions that are added to topics while these are read without a group.

All that is in them came after the reading began, so they are read from their first record on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from moldau.base.clock import Clock, SystemClock
from moldau.cli.stream.reach import Stretch
from moldau.client.consumer import Consumer
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition

METADATA_AGE_MS: Final = 10_000
"""How late a new partition is noticed. A request every ten seconds costs a broker nothing, and five
minutes, a client's usual age, are longer than somebody watches a terminal."""
PERIOD_S: Final = 1.0
"""How often to look at what the consumer knows: that is no request."""
LOOKUP_MS: Final = 1_000
"""How long the first offset of a partition may take: a new one may have no leader yet."""


class Newcomers:
    """Looks for partitions that were not there before."""

    def __init__(
        self,
        consumer: Consumer[Any, Any],
        topics: Collection[str],
        known: Collection[TopicPartition],
        clock: Clock | None = None,
    ) -> None:
        self._consumer = consumer
        self._topics = frozenset(topics)
        self._known = set(known)
        self._clock = clock or SystemClock()
        self._next = self._clock.monotonic() + PERIOD_S

    def look(self) -> dict[TopicPartition, Stretch]:
        """Return what is new, each once, and where it begins; nothing if it is not time to look."""
        now = self._clock.monotonic()
        if now < self._next:
            return {}
        self._next = now + PERIOD_S
        try:
            found = [self._consumer.partitions_for(topic, timeout_ms=0) for topic in self._topics]
            added = frozenset[TopicPartition]().union(*found) - self._known
            if not added:
                return {}
            begins = self._consumer.beginning_offsets(added, timeout_ms=LOOKUP_MS)
        except ClientError:
            # A topic is being deleted, or a partition has no leader: the next look tells more.
            return {}
        self._known |= added
        return {one: Stretch(begins[one], None) for one in sorted(added)}
