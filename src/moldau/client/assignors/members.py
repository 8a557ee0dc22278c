"""The order in which members are served: the same on every leader, and over restarts.

Static members come first, by the names they keep; the others follow by the ids the broker gave
them. A static member thus keeps its place though a restart gives it a new id (KIP-345).
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.assignors.interface import Subscriptions


def in_order(subscriptions: Subscriptions) -> list[str]:
    """Return the ids of all members, in the order they are served."""

    def place(member: str) -> tuple[bool, str]:
        instance_id = subscriptions[member].instance_id
        return (True, member) if instance_id is None else (False, instance_id)

    return sorted(subscriptions, key=place)


def subscribers(subscriptions: Subscriptions, topics: Iterable[str]) -> dict[str, list[str]]:
    """Return, of each of these topics, who subscribes to it, in the order they are served."""
    members: dict[str, list[str]] = {topic: [] for topic in topics}
    for member in in_order(subscriptions):
        for topic in dict.fromkeys(subscriptions[member].topics):
            if topic in members:
                members[topic].append(member)
    return members
