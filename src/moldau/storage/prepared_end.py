"""What a truncation needs, found out in steps before the log is cut.

A truncation brings producer state back to what it was, for which it reads all headers since the
segment's start. And a closed segment that becomes the active one again has its indexes loaded, or
rebuilt if they are missing. In a segment of a gigabyte that may be a million headers, and nobody
else would get a turn meanwhile. So both can be done in steps beforehand. The truncation itself
stays one step, and does them again only if nothing was prepared or the log has changed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.base.files import Files
from moldau.storage.producer_history import replay_in_steps
from moldau.storage.producers import ProducerStates
from moldau.storage.segment import Segment
from moldau.storage.tail import Tail

if TYPE_CHECKING:
    from moldau.storage.log import Log

LogState = tuple[int, int, int]
"""The start of a log, its end, and the base offset of its first segment. They stay the same only as
long as nobody appends, removes or cuts; a log that is cut drops what was prepared."""


class PreparedEnd(NamedTuple):
    """The producers of a log that ends at an offset, and the tail of its last segment."""

    end_offset: int
    log_state: LogState
    producers: ProducerStates
    segment: Segment
    tail: Tail

    def tail_of(self, log: Log, segment: Segment) -> Tail | None:
        """Return the tail if it belongs to this segment; compaction may have replaced that."""
        return self.tail if segment is self.segment and _state_of(log) == self.log_state else None

    def fits(self, log: Log, end_offset: int) -> bool:
        """Tell whether a log that is being cut to this end is still what it was."""
        return end_offset == self.end_offset and _state_of(log) == self.log_state


def prepare_end(files: Files, log: Log, offset: int) -> Generator[None, None, PreparedEnd | None]:
    """Find out what the log is like before an offset; None if it changes meanwhile."""
    segments, state = tuple(log.segments), _state_of(log)
    segment = _segment_of(segments, offset)
    if segment is None or offset >= log.log_end_offset:
        return None
    steps = _prepare(files, log.folder, segments, segment, offset)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return PreparedEnd(stop.value[0], state, stop.value[1], segment, stop.value[2])
        yield
        if _state_of(log) != state:
            return None


def _prepare(
    files: Files, folder: str, segments: Sequence[Segment], segment: Segment, offset: int
) -> Generator[None, None, tuple[int, ProducerStates, Tail]]:
    # First the tail: it has the indexes by which all else is found.
    tail = yield from segment.load_tail()
    end_offset = end_after_cut(segments, offset)
    producers = yield from replay_in_steps(files, folder, segments, end_offset)
    return end_offset, producers, tail


def _segment_of(segments: Sequence[Segment], offset: int) -> Segment | None:
    return next((one for one in reversed(segments) if one.base_offset <= offset), None)


def end_after_cut(segments: Sequence[Segment], offset: int) -> int:
    """Return where a log ends that is cut at an offset: a batch that contains it goes whole."""
    segment = _segment_of(segments, offset)
    batch = None if segment is None else segment.batch_holding(offset)
    return offset if batch is None else min(offset, batch.base_offset)


def _state_of(log: Log) -> LogState:
    return log.log_start_offset, log.log_end_offset, log.segments[0].base_offset
