"""The producers of a log, found out in steps before it is cut.

A truncation brings producer state back to what it was, for which it reads all headers since the
segment's start. In a segment of a gigabyte that may be a million of them, and nobody else would
get a turn meanwhile. So it can be done in steps beforehand, on a state of its own. The truncation
itself stays one step, and reads the headers only if nothing was prepared or the log has changed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.base.files import Files
from moldau.storage.producer_history import replay_in_steps
from moldau.storage.producers import ProducerStates
from moldau.storage.segment import Segment

if TYPE_CHECKING:
    from moldau.storage.log import Log

LogState = tuple[int, int, int]
"""The start of a log, its end, and the base offset of its first segment. They stay the same only as
long as nobody appends, removes or cuts; a log that is cut drops what was prepared."""


class PreparedEnd(NamedTuple):
    """The producers of a log that ends at an offset."""

    end_offset: int
    log_state: LogState
    producers: ProducerStates

    def fits(self, log: Log, end_offset: int) -> bool:
        """Tell whether a log that is being cut to this end is still what it was."""
        return end_offset == self.end_offset and _state_of(log) == self.log_state


def prepare_end(files: Files, log: Log, offset: int) -> Generator[None, None, PreparedEnd | None]:
    """Find the producers as they were before an offset; None if the log changes meanwhile."""
    segments, state = tuple(log.segments), _state_of(log)
    if not segments[0].base_offset <= offset < log.log_end_offset:
        return None
    end_offset = end_after_cut(segments, offset)
    steps = replay_in_steps(files, log.folder, segments, end_offset)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return PreparedEnd(end_offset, state, stop.value)
        yield
        if _state_of(log) != state:
            return None


def end_after_cut(segments: Sequence[Segment], offset: int) -> int:
    """Return where a log ends that is cut at an offset: a batch that contains it goes whole."""
    holding = (one for one in reversed(segments) if one.base_offset <= offset)
    segment = next(holding, None)
    batch = None if segment is None else segment.batch_holding(offset)
    return offset if batch is None else min(offset, batch.base_offset)


def _state_of(log: Log) -> LogState:
    return log.log_start_offset, log.log_end_offset, log.segments[0].base_offset
