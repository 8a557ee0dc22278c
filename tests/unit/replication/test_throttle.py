"""The bandwidth of throttled replicas, as a rate over the last seconds."""

from __future__ import annotations

import pytest

from moldau.base.ids import PartitionKey
from moldau.replication.throttle import FOLLOWER, LEADER, ReplicationThrottle
from moldau.storage.topic_config import LogConfig

KEY = PartitionKey("orders", 3)
ME = 1


class Kit:
    """A throttle with a rate and a time that a test sets."""

    def __init__(self, rate, side=FOLLOWER):
        self.rate = rate
        self.now_s = 100.0
        self.throttle = ReplicationThrottle(side, ME, self, lambda: self.rate)

    def monotonic(self):
        return self.now_s


@pytest.mark.parametrize(
    ("listed", "expected"),
    [("*", True), ("3:1", True), ("2:1,3:1", True), ("3:2", False), ("13:1,3:11", False)],
)
@pytest.mark.parametrize("side", [LEADER, FOLLOWER])
def test_a_topic_lists_the_replicas_that_count(side, listed, expected):
    throttle = Kit(10, side).throttle
    entries = frozenset(listed.split(","))
    config = LogConfig(throttled_replicas={f"{side}.replicas": entries})
    assert throttle.applies_to(KEY, config) is expected
    other = FOLLOWER if side is LEADER else LEADER
    config = LogConfig(throttled_replicas={f"{other}.replicas": entries})
    assert not throttle.applies_to(KEY, config)
    assert not throttle.applies_to(KEY, LogConfig())


def test_what_took_more_than_the_rate_waits_until_it_has_not():
    kit = Kit(rate=1_000)
    assert kit.throttle.wait_s() == 0
    kit.throttle.record(1_000)
    assert kit.throttle.wait_s() == 0
    kit.throttle.record(500)
    assert kit.throttle.wait_s() == pytest.approx(1.0)
    kit.now_s += 1.2
    assert kit.throttle.wait_s() == pytest.approx(0.3)
    kit.now_s += 0.3
    assert kit.throttle.wait_s() == 0


def test_what_was_long_ago_does_not_count():
    kit = Kit(rate=1_000)
    kit.throttle.record(1 << 30)
    kit.now_s += 10.9
    assert kit.throttle.wait_s() == 1.0
    kit.now_s += 0.2
    assert kit.throttle.wait_s() == 0


def test_another_rate_counts_at_once():
    kit = Kit(rate=1_000)
    kit.throttle.record(5_000)
    assert kit.throttle.wait_s() > 0
    kit.rate = 10_000
    assert kit.throttle.wait_s() == 0
    kit.rate = 0
    assert kit.throttle.wait_s() == 1.0
