"""Reads the topics from the subscriptions of consumers.

The group machine passes subscriptions on without reading them. But two rules need their topics:
offsets of a topic that a member reads are not deleted on request (GROUP_SUBSCRIBED_TO_TOPIC), and
do not expire. Every version of the consumer protocol begins like version 0: a version, then the
topic names. Only these are read. If the bytes cannot be read, the topics are unknown, and the group
counts as subscribed to all topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumers; Connect and Schema Registry have others."""


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """Return the topics of one subscription; None if it cannot be read."""
    version = int.from_bytes(subscription[:2], "big", signed=True)
    count = int.from_bytes(subscription[2:6], "big", signed=True)
    position = 6
    # Each name takes two bytes at least, so a forged count cannot cause a long loop.
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
    """Return the topics of all subscriptions; None if one cannot be read."""
    together: set[str] = set()
    for subscription in set(subscriptions):
        topics = subscribed_topics(subscription)
        if topics is None:
            return None
        together |= topics
    return frozenset(together)
