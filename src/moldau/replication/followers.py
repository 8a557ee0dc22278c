"""What a leader knows about one follower: its end offset, and when it last was caught up.

All of it comes from the follower's fetches. A fetch from an offset means that the follower has
everything below in its own log. This module does not decide who is in sync: the cluster's metadata
names the in-sync replicas, and `partition` takes their lowest end offset.
"""

from __future__ import annotations

from typing import Final

from moldau.base.ids import NO_OFFSET

UNKNOWN_END: Final = NO_OFFSET
"""The end offset of a follower that has not fetched from this leader yet. It is below every offset,
so the high watermark does not move until each in-sync follower has fetched."""


class Follower:
    """One follower, as its leader sees it."""

    __slots__ = ("_fetched_s", "_leader_end_offset", "caught_up_s", "end_offset")

    def __init__(self, now_s: float) -> None:
        self.end_offset: int = UNKNOWN_END
        """The first offset that the follower does not have."""
        self.caught_up_s = now_s
        """When it last had everything that the leader had. It starts with the leadership, so each
        follower of a new leader has the full `replica.lag.time.max.ms` to catch up."""
        self._fetched_s = now_s
        self._leader_end_offset: int = UNKNOWN_END
        """Where the leader's log ended at the last fetch."""

    def fetched(self, offset: int, leader_end_offset: int, now_s: float) -> None:
        """Note a fetch from an offset.

        The log of a busy leader grows between two fetches, and a follower that keeps up may never
        fetch exactly at its end. So a fetch from the leader's end at the previous fetch means that
        the follower was caught up at the time of that fetch (Kafka's rule).

        The end offset may go back: a follower that lost its unsynced tail fetches from a lower
        offset. The high watermark does not go back with it.
        """
        if offset >= leader_end_offset:
            self.caught_up_s = now_s
        elif self._leader_end_offset != UNKNOWN_END and offset >= self._leader_end_offset:
            self.caught_up_s = max(self.caught_up_s, self._fetched_s)
        self.end_offset = offset
        self._fetched_s = now_s
        self._leader_end_offset = leader_end_offset
