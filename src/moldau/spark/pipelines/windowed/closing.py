"""When a window is closed, and what is late then: decided from batches alone, and kept per batch.

Spark's own watermark drops what is late without telling which rows those were, and where it stands
depends on how rows fell into batches. So pipelines with windows keep their own, one state per batch
of the stream. The rule:

    After a batch, windows that end at or before (newest event so far - delay) are closed.
    An event of a later batch that belongs into a closed window is late.
    No event is newer than the batch that brought it: one whose clock is ahead counts as of now.

    Where no events come any more, windows are closed once the clock is past their end + delay.

Without the third one clock that is ahead would make the events of all others late. The time of a
batch is the one that Spark wrote down when it planned the batch. Without the last the windows of a
topic that falls silent would stay open. The clock closes no more than windows that may hold events,
so that older events, which somebody loads in portions, are late for these alone. Up to when it
closes windows is written down before it is done.

Each state follows from the one before it and from the rows of its batch, and Spark runs a batch
again with the same rows. Hence a batch that is run again after a crash finds the same events late,
closes the same windows and gives every append the same number; and a table that has that number
already takes it for done.

Pure: it knows neither Spark nor files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.base.errors import UserError

VERSION: Final = 1

AHEAD_TOLD_MS: Final = 60 * 60 * 1000
"""How long it is told that a source was ahead: as long as somebody needs to look."""


class OpenFiles(NamedTuple):
    """Files of rows on time that hold some of windows that are open."""

    first_ms: int
    last_ms: int
    """The times of the first and the last event in them."""
    paths: tuple[str, ...]


class Totals(NamedTuple):
    """What became of all records so far."""

    events: int = 0
    late: int = 0
    dead: int = 0

    def plus(self, other: Totals) -> Totals:
        """Add up."""
        return Totals(self.events + other.events, self.late + other.late, self.dead + other.dead)


class Ahead(NamedTuple):
    """A source whose clock is far ahead of ours."""

    source: str
    by_ms: int
    at_ms: int
    """When that was seen, by our clock."""


class ClosingBatch(NamedTuple):
    """What a batch held."""

    counts: Totals
    first_ms: int | None
    """The times of the first and the last event that is not late; None without any."""
    last_ms: int | None
    now_ms: int
    """When it was planned."""
    ahead: Ahead | None = None
    """The source that is furthest ahead, if it is far."""


class State(NamedTuple):
    """How things stand after a batch."""

    newest_ms: int | None = None
    """The time of the newest event so far, or of its batch if that was earlier."""
    closed_until_ms: int | None = None
    """Every window before this time is closed; None while none is."""
    appended: Mapping[str, int] = {}
    """How often something was appended to each table: the number of the next append."""
    closings: int = 0
    """How often windows were closed."""
    open_files: tuple[OpenFiles, ...] = ()
    totals: Totals = Totals()
    notes: Mapping[str, str] = {}
    """What the pipeline itself remembers from closing to closing, by name."""
    ahead: Ahead | None = None
    """The last source that was far ahead, for a while."""
    latest_ms: int | None = None
    """The time of the newest event so far, also if that is ahead of the clock."""
    by_clock_until_ms: int | None = None
    """Up to when windows are being closed by the clock; None if none are."""

    def with_note(self, name: str, text: str | None) -> State:
        """Return the state with something to remember, or to forget."""
        others = {one: told for one, told in self.notes.items() if one != name}
        return self._replace(notes=others if text is None else {**others, name: text})

    def wanted(self) -> frozenset[str]:
        """Return what is still to be read of files: no table may take it away."""
        return frozenset(path for one in self.open_files for path in one.paths)

    def next_append(self, table: str) -> int:
        """Return the number that the next append to a table has."""
        return self.appended.get(table, 0)

    def with_append(self, table: str) -> State:
        """Return the state after an append to a table."""
        return self._replace(appended={**self.appended, table: self.next_append(table) + 1})

    def to_json(self) -> str:
        """Write it down."""
        told = {
            "version": VERSION,
            "newest_ms": self.newest_ms,
            "closed_until_ms": self.closed_until_ms,
            "appended": dict(sorted(self.appended.items())),
            "closings": self.closings,
            "totals": self.totals._asdict(),
            "notes": dict(sorted(self.notes.items())),
            "open_files": [one._asdict() for one in self.open_files],
            "ahead": None if self.ahead is None else self.ahead._asdict(),
            "latest_ms": self.latest_ms,
            "by_clock_until_ms": self.by_clock_until_ms,
        }
        return json.dumps(told, indent=1)

    @classmethod
    def from_json(cls, text: str, place: str) -> State:
        """Read what was written down at a place; UserError if it cannot be."""
        try:
            told = json.loads(text)
            if told["version"] != VERSION:
                raise UserError(
                    f"{place} has version {told['version']}, and this Moldau reads {VERSION}:"
                    " use the one that wrote it, or a newer one"
                )
            return cls._read(told)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{place} cannot be read ({error!r}): it holds how the pipeline stood; restore it,"
                " or begin with a new --out"
            ) from None

    @classmethod
    def _read(cls, told: Mapping[str, Any]) -> State:
        files = tuple(
            OpenFiles(one["first_ms"], one["last_ms"], tuple(one["paths"]))
            for one in told["open_files"]
        )
        return cls(
            told["newest_ms"],
            told["closed_until_ms"],
            told["appended"],
            told["closings"],
            files,
            Totals(**told["totals"]),
            told["notes"],
            Ahead(**ahead) if (ahead := told.get("ahead")) is not None else None,
            told.get("latest_ms", told["newest_ms"]),
            told.get("by_clock_until_ms"),
        )


class Closing(NamedTuple):
    """Windows that a batch has closed."""

    since_ms: int | None
    """Where the first begins; None for all there are before the end."""
    until_ms: int
    paths: tuple[str, ...]
    """The files that hold their events, and perhaps others."""


def landed(state: State, batch: ClosingBatch, paths: Sequence[str]) -> State:
    """Return the state after the events of a batch have been appended as these files."""
    after = state._replace(totals=state.totals.plus(batch.counts), ahead=_ahead(state, batch))
    if batch.last_ms is None or batch.first_ms is None:
        return after
    last_ms = min(batch.last_ms, batch.now_ms)
    newest_ms = last_ms if state.newest_ms is None else max(state.newest_ms, last_ms)
    latest_ms = batch.last_ms if state.latest_ms is None else max(state.latest_ms, batch.last_ms)
    fresh = OpenFiles(batch.first_ms, batch.last_ms, tuple(paths))
    return after._replace(
        newest_ms=newest_ms, latest_ms=latest_ms, open_files=(*state.open_files, fresh)
    )


def _ahead(state: State, batch: ClosingBatch) -> Ahead | None:
    """Return the last source that was far ahead, unless that is long ago."""
    last = batch.ahead or state.ahead
    is_told = last is not None and batch.now_ms - last.at_ms <= AHEAD_TOLD_MS
    return last if is_told else None


def due(state: State, window_ms: int, delay_ms: int) -> Closing | None:
    """Return what is to be closed now; None if no window has come to its end."""
    if state.newest_ms is None:
        return None
    return closing_until(state, (state.newest_ms - delay_ms) // window_ms * window_ms)


def due_by_clock(
    state: State, now_ms: int, window_ms: int, delay_ms: int, lasting_ms: int = 0
) -> int | None:
    """Return up to when windows are to be closed though no event comes; None if none are.

    `lasting_ms` is how long after the last event something may last that windows end: a session.
    """
    if state.latest_ms is None:
        return None
    end_ms = (state.latest_ms // window_ms + 1) * window_ms + -(
        -lasting_ms // window_ms
    ) * window_ms
    until_ms = min(end_ms, (now_ms - delay_ms) // window_ms * window_ms)
    return None if closing_until(state, until_ms) is None else until_ms


def closing_until(state: State, until_ms: int) -> Closing | None:
    """Return what closes all windows up to a time; None if no window would be."""
    since_ms = state.closed_until_ms
    if since_ms is not None and until_ms <= since_ms:
        return None
    paths = [path for one in state.open_files if one.first_ms < until_ms for path in one.paths]
    if since_ms is None and not paths:
        return None
    return Closing(since_ms, until_ms, tuple(paths))


def closed(state: State, closing: Closing) -> State:
    """Return the state after windows have been closed; their files are let go."""
    still_open = tuple(one for one in state.open_files if one.last_ms >= closing.until_ms)
    return state._replace(
        closed_until_ms=closing.until_ms, closings=state.closings + 1, open_files=still_open
    )
