"""Who waits for a partition to have more: readers for the high watermark, followers for the end.

A parked fetch watches each of its partitions. Readers are told when the high watermark or the
stable offset has moved. Followers are told of appends instead: it is their fetches that move the
high watermark, so that news of it would wake them for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from moldau.base.ids import BrokerId, PartitionKey, TopicId
from moldau.replication.followers import UNKNOWN_END
from moldau.replication.readable_log import ReadableLog

if TYPE_CHECKING:
    from moldau.storage.log import Log


class Watcher(Protocol):
    """Wants to know when a partition has more to read."""

    def moved(self, partition: Any) -> None:
        """There may be more to read: up to the high watermark, or for a follower to the log's end.

        Or the log's start or the leader has changed.
        """
        ...


class WatchedLog(ReadableLog):
    """A log that can be read, and those who wait for more of it."""

    __slots__ = ("_end_watchers", "_told_end", "_watchers")

    def __init__(self, key: PartitionKey, topic_id: TopicId, log: Log, broker_id: BrokerId) -> None:
        super().__init__(key, topic_id, log, broker_id)
        # Ordered, so that the order of wake-ups does not depend on addresses in memory.
        self._watchers: dict[Watcher, None] = {}
        self._end_watchers: dict[Watcher, None] | None = None
        """Followers. Made for the first of them: on one replica there are none."""
        self._told_end: int = UNKNOWN_END
        """The end of the log that followers were told of."""

    def watch(self, watcher: Watcher) -> None:
        """Tell this watcher of every move until `unwatch`."""
        self._watchers[watcher] = None

    def watch_log_end(self, watcher: Watcher) -> None:
        """Tell this watcher, for a follower, of every append instead, until `unwatch`."""
        if self._end_watchers is None:
            self._end_watchers = {}
        self._end_watchers[watcher] = None
        self._told_end = self.log.log_end_offset

    def unwatch(self, watcher: Watcher) -> None:
        """Tell this watcher no more; harmless when it was not told before."""
        self._watchers.pop(watcher, None)
        if self._end_watchers is not None:
            self._end_watchers.pop(watcher, None)

    def notify(self) -> None:
        """Tell every watcher that there may be more to read, or that nothing is served here."""
        self.notify_readers()
        self.notify_followers()

    def notify_readers(self) -> None:
        """Tell those who wait for the high watermark or the stable offset."""
        for watcher in tuple(self._watchers):
            watcher.moved(self)

    def notify_followers(self) -> None:
        """Tell those who wait for the end of the log."""
        self._told_end = self.log.log_end_offset
        for watcher in tuple(self._end_watchers or ()):
            watcher.moved(self)
