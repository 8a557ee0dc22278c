"""When a metadata store writes a snapshot, and when it removes old ones.

Voters and observers do it alike, each of its own image: after so many bytes of journal, and so long
after the first change that no snapshot has. The journal goes on in a new segment at once, so that
the old ones end where the snapshot does. The store goes on meanwhile, because an image never
changes. A disk that refuses leaves the journal longer than it could be, which is no reason to stop.

`kept_snapshots` says what is kept. It is asked after each snapshot, and every minute as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import StorageError
from moldau.base.files import Files
from moldau.cluster.blocking import Blocking
from moldau.cluster.image import MetadataImage
from moldau.cluster.journal import Journal
from moldau.cluster.kept_snapshots import KeptSnapshots
from moldau.cluster.record_codec import encode_change, metadata_level
from moldau.cluster.snapshots import SnapshotId, SnapshotWriter, batched
from moldau.records.control import ControlType

SNAPSHOT_AFTER_BYTES: Final = 20 << 20
"""Kafka's default: that much journal is read in a second or two at the next start."""

SNAPSHOT_INTERVAL_S: Final = 3600.0
"""Kafka's default: a change is in a snapshot after an hour."""

_CLEANING_INTERVAL_S: Final = 60.0
"""Kafka's interval, which no setting changes."""

_log = logging.getLogger(__name__)

_SLICE_BYTES: Final = 16 << 10
"""Written between two turns of the loop: some two hundred records, a few milliseconds of work."""


class SnapshotPace(NamedTuple):
    """When a snapshot is due: at the first of these, in bytes and in seconds."""

    after_bytes: int = SNAPSHOT_AFTER_BYTES
    interval_s: float = SNAPSHOT_INTERVAL_S
    """0 for never."""


class SnapshotState(NamedTuple):
    """What a snapshot is made of: an image that ends where the journal does."""

    image: MetadataImage
    epoch: int
    """The leader epoch of the last record in the image."""
    control: Mapping[ControlType, bytes]
    """What is known of the quorum's form and voters."""


class Snapshotting:
    """Writes the snapshots of one store.

    `turn` is held by whoever changes the journal, here and in the store.
    """

    def __init__(
        self,
        files: Files,
        folder: str,
        clock: Clock,
        blocking: Blocking,
        turn: asyncio.Lock,
        kept: KeptSnapshots,
        pace: SnapshotPace,
    ) -> None:
        self._files = files
        self._folder = folder
        self._clock = clock
        self._blocking = blocking
        self._turn = turn
        self._kept = kept
        self._pace = pace
        self._next_size = pace.after_bytes
        self._timer: asyncio.TimerHandle | None = None
        """Set while there are changes that no snapshot has."""
        self._task: asyncio.Task[None] | None = None
        self._cleaning_timer: asyncio.TimerHandle | None = None
        """Set while there are old snapshots."""
        self._cleaning: asyncio.Task[None] | None = None

    def changed(self, journal: Journal, state: Callable[[], SnapshotState | None]) -> None:
        """Begin a snapshot if the journal has grown enough; see to it that one is made in time.

        `state` is asked while nobody changes the journal; None puts it off.
        """
        newest = self._kept.newest
        if self._new_bytes(journal) > self._next_size:
            self._begin(journal, state)
        is_new = newest is None or journal.next_offset > newest.end_offset
        if is_new and self._timer is None and self._pace.interval_s:
            loop = asyncio.get_running_loop()
            interval_s = self._pace.interval_s
            self._timer = loop.call_later(interval_s, self._interval_over, journal, state)
        self._clean_later(journal)

    def _new_bytes(self, journal: Journal) -> int:
        """Return the bytes of the journal that no snapshot has, or of the segments with them."""
        newest = self._kept.newest
        return journal.size_from(newest.end_offset if newest is not None else 0)

    def _interval_over(self, journal: Journal, state: Callable[[], SnapshotState | None]) -> None:
        self._timer = None
        self._begin(journal, state)

    def _begin(self, journal: Journal, state: Callable[[], SnapshotState | None]) -> None:
        """Begin a snapshot, unless one is being written."""
        if journal.writable and (self._task is None or self._task.done()):
            self._stop_timer()
            self._next_size = self._new_bytes(journal) + self._pace.after_bytes
            self._task = asyncio.ensure_future(self._write(journal, state))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_timers(self) -> None:
        self._stop_timer()
        if self._cleaning_timer is not None:
            self._cleaning_timer.cancel()
            self._cleaning_timer = None

    async def finish(self) -> None:
        """Wait for what is being written or removed, and begin nothing more."""
        self._stop_timers()
        for task in (self._task, self._cleaning):
            if task is not None:
                await asyncio.wait((task,))
        self._stop_timers()  # the last cleaning may have set one

    async def _write(self, journal: Journal, ask: Callable[[], SnapshotState | None]) -> None:
        try:
            async with self._turn:
                state = ask()
                if state is None:
                    self._next_size = self._pace.after_bytes
                    return
                snapshot = SnapshotId(state.image.version, state.epoch)
                await self._blocking(journal.roll)
            await self._write_file(state, snapshot)
            async with self._turn:
                newest = self._kept.newest
                if newest is not None and snapshot < newest:
                    self._files.remove(f"{self._folder}/{snapshot.name}")  # a newer one was fetched
                else:
                    self._kept.add(snapshot)
        except (OSError, StorageError) as error:
            _log.warning("metadata snapshot not written: %s", error)
        else:
            self._next_size = self._pace.after_bytes
            await self._clean(journal)

    def _clean_later(self, journal: Journal) -> None:
        if self._kept.has_older and self._cleaning_timer is None:
            loop = asyncio.get_running_loop()
            self._cleaning_timer = loop.call_later(
                _CLEANING_INTERVAL_S, self._begin_cleaning, journal
            )

    def _begin_cleaning(self, journal: Journal) -> None:
        self._cleaning_timer = None
        if journal.writable:
            self._cleaning = asyncio.ensure_future(self._clean(journal))

    async def _clean(self, journal: Journal) -> None:
        """Remove what retention keeps no longer; the rest is looked at again in a minute."""
        try:
            async with self._turn:
                removal = self._kept.expire(journal, self._clock.wall_ms())
                if removal is not None:
                    await self._blocking(removal)
        except (OSError, StorageError) as error:
            _log.warning("old metadata not removed: %s", error)
        self._clean_later(journal)

    async def _write_file(self, state: SnapshotState, snapshot: SnapshotId) -> None:
        now_ms = self._clock.wall_ms()
        path = f"{self._folder}/{snapshot.name}"
        writer = SnapshotWriter(self._files, path, now_ms, now_ms)
        level = metadata_level(state.image)
        try:
            writer.append_control(state.control.items())
            values = (encode_change(change, level) for change in state.image.as_changes())
            for batch in batched(values, _SLICE_BYTES):
                writer.append(batch)
                await asyncio.sleep(0)
            await self._blocking(writer.finish)
        except OSError:
            writer.abandon()
            raise
