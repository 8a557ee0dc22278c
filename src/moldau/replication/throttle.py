"""Limits on the bandwidth of replication: `leader.` and `follower.replication.throttled.rate`.

A tool that moves partitions sets a rate on brokers, and lists the replicas of a topic that count
(`...throttled.replicas`). While these took more than the rate, a leader sends nothing to those that
are not in sync, and a follower leaves those that are behind out of its requests. Replicas in sync
are never held back: acks=all would wait for them. What they take counts all the same.

The rate is taken over the last eleven seconds, as in Kafka. One object serves one side of a broker,
with the sum over all throttled replicas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from moldau.base.clock import Clock
from moldau.base.ids import BrokerId, PartitionKey
from moldau.storage.topic_config import LogConfig

LEADER: Final = "leader.replication.throttled"
FOLLOWER: Final = "follower.replication.throttled"

WINDOW_S: Final = 1.0
WINDOWS: Final = 11
"""Kafka's `replication.quota.window.num`."""


class ReplicationThrottle:
    """What throttled replicas took lately, on one side. Owned by the event loop's thread."""

    def __init__(
        self, side: str, broker_id: BrokerId, clock: Clock, rate: Callable[[], int]
    ) -> None:
        """`rate` is asked each time: it is changed at run time."""
        self._replicas_name = f"{side}.replicas"
        self._broker_id = broker_id
        self._clock = clock
        self._rate = rate
        self._windows: deque[tuple[float, int]] = deque()
        """When each window began, and the bytes in it."""
        self._total = 0

    def applies_to(self, key: PartitionKey, config: LogConfig) -> bool:
        """Tell whether this broker's replica of a partition is throttled."""
        # Hardly any topic names replicas, and then nothing is looked at.
        listed = config.throttled_replicas and config.throttled_replicas.get(self._replicas_name)
        if not listed:
            return False
        return "*" in listed or f"{key.partition}:{self._broker_id}" in listed

    def record(self, size: int) -> None:
        """Note bytes of throttled replicas."""
        now_s = self._clock.monotonic()
        self._expire(now_s)
        self._total += size
        if self._windows and now_s - self._windows[-1][0] < WINDOW_S:
            began_s, before = self._windows.pop()
            self._windows.append((began_s, before + size))
        else:
            self._windows.append((now_s, size))

    def wait_s(self) -> float:
        """Say for how long replicas that are behind are held back; 0 if they are not.

        At most one window: by then the rate may be another one.
        """
        now_s = self._clock.monotonic()
        self._expire(now_s)
        if not self._windows:
            return 0.0
        oldest_s, rate = self._windows[0][0], self._rate()
        elapsed_s = max(WINDOW_S, now_s - oldest_s)
        if self._total <= rate * elapsed_s:
            return 0.0
        if not rate:
            return WINDOW_S
        return min(WINDOW_S, oldest_s + self._total / rate - now_s)

    def _expire(self, now_s: float) -> None:
        while self._windows and now_s - self._windows[0][0] >= WINDOWS * WINDOW_S:
            self._total -= self._windows.popleft()[1]
