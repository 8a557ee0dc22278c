"""A look into what a consumer subscribed to, for the two rules that need to know.

Subscriptions belong to the clients: the group machine passes them on unread. But offsets of a
topic that a member still reads are neither deleted on demand (GROUP_SUBSCRIBED_TO_TOPIC) nor
expired. Every version of the consumer protocol begins as version 0 does, so that is all that is
read here: a version, then the topic names. Bytes that do not fit make the topics unknown, and a
group whose topics are unknown counts as subscribed to all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""What consumers call their protocol; Connect and Schema Registry have others."""


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """Return the topics of one subscription, None if it cannot be read."""
    version = int.from_bytes(subscription[:2], "big", signed=True)
    count = int.from_bytes(subscription[2:6], "big", signed=True)
    position = 6
    # A name takes at least its length, so a forged count cannot cost more than the bytes do.
    if len(subscription) < position or version < 0 or not 0 <= count <= len(subscription) // 2:
        return None
    topics = []
    for _ in range(count):
        size = int.from_bytes(subscription[position : position + 2], "big", signed=True)
        start, position = position + 2, position + 2 + size
        if size < 0 or position > len(subscription):
            return None
        try:
            topics.append(subscription[start:position].decode())
        except UnicodeDecodeError:
            return None
    return frozenset(topics)


def all_subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of several subscriptions together, None if one cannot be read."""
    together: set[str] = set()
    for subscription in set(subscriptions):
        topics = subscribed_topics(subscription)
        if topics is None:
            return None
        together |= topics
    return frozenset(together)
