"""How a follower changes its log: it appends batches of its leader, and truncates what diverges.

Every verb names the leader epoch in which the leader was asked. ApiError, with nothing changed, if
the role has changed since: an answer from an earlier epoch must not change the log.

A truncation is one step in memory. Its files are cut by the returned steps, which block and may run
on another thread. Nothing is appended before the last one has run, whatever the role is by then.
"""

from __future__ import annotations

from moldau.base.files import Buffer
from moldau.base.ids import LeaderEpoch, Offset
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import PREFIX_SIZE, parse_header
from moldau.replication import truncation
from moldau.replication.watched_log import WatchedLog
from moldau.storage.epochs import EpochEnd
from moldau.storage.log_truncation import BlockingSteps


class FollowerLog(WatchedLog):
    """A log that can be read, watched, and brought in line with a leader's."""

    __slots__ = ()

    def append_as_follower(
        self,
        batches: Buffer,
        leader_epoch: LeaderEpoch,
        leader_high_watermark: int,
        leader_log_start: int,
    ) -> int:
        """Append what a leader answered to a fetch that was sent in this epoch; return the size.

        Look at `start_below` first. The high watermark follows the leader's, also back under a new
        leader: a follower's own says only what it has heard of.
        """
        self._check_follows(leader_epoch)
        log, old_high_watermark = self.log, self.high_watermark
        size = log.append_as_follower(truncation.up_to_epoch(batches, leader_epoch))
        end_offset = log.log_end_offset
        self.set_high_watermark(
            Offset(min(max(leader_high_watermark, log.log_start_offset), end_offset))
        )
        start_moved = log.delete_records_before(min(leader_log_start, self.high_watermark))
        if start_moved or self.high_watermark != old_high_watermark:
            self.notify_readers()
        return size

    def start_below(self, batches: Buffer, leader_epoch: LeaderEpoch) -> Offset | None:
        """Return where an empty log must restart to take batches that begin below its start.

        DeleteRecords may move a leader's start into a batch, which comes whole all the same.
        """
        log = self.log
        if log.log_start_offset != log.log_end_offset:
            return None
        view = truncation.up_to_epoch(batches, leader_epoch)
        if len(view) < PREFIX_SIZE:
            return None
        base_offset = parse_header(view, 0).base_offset
        return Offset(base_offset) if base_offset < log.log_start_offset else None

    def divergence(self, leader_end: EpochEnd, leader_epoch: LeaderEpoch) -> Offset:
        """Return where this log parts from its leader's, as the leader has answered."""
        self._check_follows(leader_epoch)
        log = self.log
        return truncation.truncation_offset(
            log.epochs, leader_end, log.log_end_offset, self.high_watermark
        )

    def truncate_to(self, offset: Offset, leader_epoch: LeaderEpoch) -> BlockingSteps:
        """Cut this log at the offset that `divergence` returned.

        The next fetch tells whether the logs agree now.
        """
        self._check_follows(leader_epoch)
        steps = self.log.begin_truncation(offset)
        if steps is None:
            return iter(())
        self._was_cut()
        return self._until_cut(steps)

    def restart_at(self, offset: Offset, leader_epoch: LeaderEpoch) -> BlockingSteps:
        """Empty this log and let it go on at an offset of its leader's.

        It is what remains where the two have no offset in common.
        """
        self._check_follows(leader_epoch)
        steps = self.log.begin_restart(offset)
        self._was_cut()
        return self._until_cut(steps)

    def truncation_ended(self) -> None:
        """Take appends again, if this broker leads by now; for `Partition`."""

    def _until_cut(self, steps: BlockingSteps) -> BlockingSteps:
        yield from steps
        self.truncation_ended()

    def _check_follows(self, leader_epoch: LeaderEpoch) -> None:
        if self.leads or leader_epoch != self.role.leader_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _was_cut(self) -> None:
        """Clamp the high watermark to the log, and notify watchers: producers were read anew."""
        log = self.log
        high_watermark = min(self.high_watermark, log.log_end_offset)
        self.set_high_watermark(max(high_watermark, log.log_start_offset))
        self.notify()
