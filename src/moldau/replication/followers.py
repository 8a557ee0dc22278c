"""What a leader knows of one follower: how far it has copied the log, and when it was level.

All of it comes from the follower's fetches in the leader's own epoch. A fetch from an offset says
that the follower has everything below in its own log. This module does not decide who is in sync
(`rules`).
"""

from __future__ import annotations

from typing import Final

from moldau.base.ids import NO_OFFSET, BrokerId

UNKNOWN_END: Final = NO_OFFSET
"""The end of a follower that has not fetched from this leader yet. It lies below every offset, so
that the high watermark stands until each in-sync follower has said how far it is."""

NEVER_S: Final = float("-inf")
"""When a follower was level that never was, as far as this leader knows."""

NO_BROKER_EPOCH: Final = -1
"""Of a fetch that does not tell the broker's epoch (before version 15)."""


class Follower:
    """One follower, as its leader sees it."""

    __slots__ = (
        "_fetched_s",
        "_leader_end_offset",
        "broker_epoch",
        "broker_id",
        "caught_up_s",
        "end_offset",
        "has_fetched",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId, caught_up_s: float) -> None:
        self.broker_id = broker_id
        self.has_fetched = False
        """Whether it has fetched from this leader in this epoch."""
        self.end_offset: int = UNKNOWN_END
        """The first offset that the follower does not have."""
        self.log_start_offset: int = UNKNOWN_END
        self.broker_epoch: int = NO_BROKER_EPOCH
        """The epoch of the broker that fetched last. A broker that has restarted since may have
        lost what this follower had (KIP-903)."""
        self.caught_up_s = caught_up_s
        """When it had all that the leader had. A new leader gives each in-sync follower the full
        time that `replica.lag.time.max.ms` allows, so this begins with the leadership."""
        self._fetched_s = caught_up_s
        self._leader_end_offset: int = UNKNOWN_END
        """Where the leader's log ended at the last fetch."""

    def fetched(
        self,
        offset: int,
        leader_end_offset: int,
        now_s: float,
        log_start_offset: int = UNKNOWN_END,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> None:
        """Note a fetch from an offset.

        A busy leader grows between two fetches, and a follower that keeps up may never be seen
        exactly at its end. So a fetch from where the leader ended at the fetch before proves that
        the follower was level at that time (Kafka's rule).
        """
        if offset >= leader_end_offset:
            self.caught_up_s = now_s
        elif self._leader_end_offset != UNKNOWN_END and offset >= self._leader_end_offset:
            self.caught_up_s = max(self.caught_up_s, self._fetched_s)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.has_fetched = True
        self._fetched_s = now_s
        self._leader_end_offset = leader_end_offset

    def was_level(self, at_s: float) -> None:
        """Note that a fetch at a time did not name the partition: the follower had everything."""
        self.caught_up_s = max(self.caught_up_s, at_s)
