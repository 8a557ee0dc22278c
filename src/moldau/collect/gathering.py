"""The collector of files without its surroundings: what to read next, what to send, what is done.

Everything happens in turns that somebody else calls and tells the time: one turn looks at one file
that is due and sends what it finds; between turns there is room to wait until the producer has
room. A file is due the less often the longer it has been quiet, and costs one look then.

Knows nothing of loops, signals or how records are sent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from moldau.client.errors import ClientError, RecordTooLarge
from moldau.collect.complaints import Complaints
from moldau.collect.framing import Piece
from moldau.collect.progress import Sent
from moldau.collect.roster import Roster
from moldau.collect.sources import Seen, Sources
from moldau.collect.state import Entry
from moldau.collect.tails import POLL_MIN_S, Reading, Tail
from moldau.collect.wanted import WantedFiles

TAKE_COUNT: Final = 500
"""Lines that are handed over before the producer is asked whether it has room: with the longest
paths in their headers they take a quarter of what its buffer has free then."""

SEARCH_S: Final = 0.5
"""How soon new files are looked for after one went from its path: its successor is on its way."""

DELIVERY: Final = "delivery"
"""What complaints about sending are kept under; it is no path."""

Send = Callable[[str, Piece], Sent]
"""Hands over a record of the file of that name."""


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    delivered_count: int = 0
    cut_count: int = 0
    """Records that were too long, of which the beginning was sent."""
    skipped_count: int = 0
    """Records that were too long and left out."""
    refused_count: int = 0
    """Records that the brokers would never take."""


class Gathering:
    """All files of one collector, read and sent in turns. Owned by its loop."""

    def __init__(
        self,
        wanted: WantedFiles,
        sources: Sources,
        send: Send,
        complaints: Complaints,
        saved: list[Entry] | None = None,
    ) -> None:
        self.tally = Tally()
        self.fatal: Exception | None = None
        """Why nothing can be delivered any more; whoever calls the turns should end."""
        self.scan_due = 0.0
        self._wanted = wanted
        self._sources = sources
        self._send = send
        self._complaints = complaints
        self._roster = Roster(wanted, sources, complaints, saved)
        self._queue: list[tuple[float, int, Tail]] = []
        self._ticket = count()
        self._leaving: list[Tail] = []
        """Files that were truncated while records of theirs were on their way."""

    # Turns

    def turn(self, now: float) -> bool:
        """Serve one file that is due; tell whether there was one."""
        while self._queue and self._queue[0][0] <= now:
            _, ticket, tail = heapq.heappop(self._queue)
            if ticket == tail.ticket and self._is_followed(tail):
                self._try(tail, now)
                self._enqueue([tail] if self._is_followed(tail) else ())
                return True
        return False

    def scan(self, now: float, now_ms: int) -> None:
        """Look for new files."""
        self.scan_due = now + self._wanted.scan_s
        self._roster.scan(now, now_ms)
        self._enqueue(())

    @property
    def next_due(self) -> float:
        """When there is something to do again."""
        return min(self.scan_due, self._queue[0][0]) if self._queue else self.scan_due

    @property
    def is_at_end(self) -> bool:
        """Whether all files were read to their ends when they were last looked at."""
        if self._roster.is_fresh or self._roster.is_undecided:
            return False
        return all(
            tail.is_over or (tail.is_drained and not tail.splitter.waits_for_lines)
            for tail in self._roster.tails.values()
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        tails = self._roster.tails.values()
        return not self._leaving and all(tail.progress.is_idle for tail in tails)

    @property
    def file_count(self) -> int:
        """How many files are followed."""
        return len(self._roster.tails)

    def entries(self) -> list[Entry]:
        """Return what has been delivered of each file, to be written down."""
        return self._roster.entries()

    def close(self) -> None:
        """Close all files."""
        for tail in self._roster.tails.values():
            tail.file.close()

    def _is_followed(self, tail: Tail) -> bool:
        return not tail.is_over and self._roster.tails.get(tail.identity) is tail

    def _enqueue(self, tails: Sequence[Tail]) -> None:
        """Have files served when they are due, and those that arrived meanwhile."""
        for tail in (*tails, *self._roster.arrivals):
            tail.ticket = next(self._ticket)
            heapq.heappush(self._queue, (tail.due, tail.ticket, tail))
        self._roster.arrivals.clear()

    # Reading

    def _try(self, tail: Tail, now: float) -> None:
        """Serve a file; one that the system will not let us read is no trouble for the others."""
        try:
            self._serve(tail, now)
        except OSError as error:
            self._complaints.say(tail.name, f"cannot read {tail.name}: {error.strerror or error}")
            tail.is_drained = True  # what comes after it need not wait for a broken disk
            tail.rest(now, self._wanted.poll_max_s)

    def _serve(self, tail: Tail, now: float) -> None:
        tail.due = now
        if tail.progress.failure is not None or not self._has_its_turn(tail):
            tail.due = now + POLL_MIN_S
            return
        if pieces := tail.splitter.take(TAKE_COUNT):
            self._hand_over(tail, pieces)
            return
        reading = tail.read(self._seen(tail, now), now)
        if reading is Reading.OTHER_FILE:
            self._begin_anew(tail, now)
        elif reading is Reading.NOTHING:
            self._rest(tail, now)

    def _has_its_turn(self, tail: Tail) -> bool:
        """Tell whether what was to be read before this file has been."""
        before = tail.after
        if before is not None and (before.is_drained or before.is_over):
            tail.after = before = None
        return before is None

    def _seen(self, tail: Tail, now: float) -> Seen:
        """Look at a file where it should be, and take note if it is not there any more."""
        if tail.place is not None:
            place, seen = tail.place, self._look(tail.place)
            if seen is not None and seen.identity == tail.identity:
                return seen
            self._roster.depart(tail, now)
            if seen is not None:
                self._roster.arrive(place, seen, now)
            self.scan_due = min(self.scan_due, now + SEARCH_S)
        return tail.file.look()

    def _look(self, path: str) -> Seen | None:
        try:
            return self._sources.look(path)
        except OSError:
            return None

    def _begin_anew(self, tail: Tail, now: float) -> None:
        """Go on with a file that was truncated."""
        if not self._roster.restart(tail, now):
            if tail.is_replaced:
                self._say_lost(tail)
            # Nothing else has the rest of the last line: what was read of it is all there is.
            self._hand_over(tail, tail.splitter.flush(partial=True))
            self._leaving.append(tail)

    def _rest(self, tail: Tail, now: float) -> None:
        """Leave a file that has nothing new alone for a while, or for good."""
        wanted, quiet_s = self._wanted, tail.quiet_s(now)
        if tail.splitter.waits_for_lines and quiet_s >= wanted.lines_wait_s:
            self._hand_over(tail, tail.splitter.flush(partial=False))
        if tail.place is None and quiet_s >= wanted.rotated_wait_s:
            self._hand_over(tail, tail.splitter.flush(partial=True))
            tail.is_over = True
        # A record that waits for its next line goes out before what is read after this file.
        tail.is_drained = not tail.splitter.waits_for_lines
        tail.rest(now, wanted.poll_max_s)

    # Sending

    def _hand_over(self, tail: Tail, pieces: Sequence[Piece]) -> None:
        """Send records and take note of where they end."""
        if not pieces:
            return
        sent: list[Sent] = []
        for piece in pieces:
            if not piece.is_whole:
                self._say_too_long(tail, piece)
                if not self._wanted.framing.keeps_cut:
                    continue
            try:
                sent.append(self._send(tail.name, piece))
            except RecordTooLarge as error:
                self._say_refused(tail, error)
            except ClientError as error:
                tail.progress.failure = error
                return
        tail.progress.add(tail.mark(), sent)
        self._settle(tail)

    def _say_too_long(self, tail: Tail, piece: Piece) -> None:
        tally = self.tally
        if self._wanted.framing.keeps_cut:
            tally.cut_count += 1
            what = "cut"
        else:
            tally.skipped_count += 1
            what = "left out"
        self._complaints.mention(
            f"{tail.name} too long",
            f"{tail.name}: a record of {piece.size} bytes at position {piece.position} was {what};"
            " of others like it only their number is told",
        )

    def _say_refused(self, tail: Tail, error: Exception) -> None:
        self.tally.refused_count += 1
        self._complaints.mention(
            f"{tail.name} refused", f"{tail.name}: a record was left out: {error}"
        )

    # What becomes of it

    def settle(self) -> None:
        """Take note of what was delivered, send again what was not, let go of what is over."""
        for tail in (*self._roster.tails.values(), *self._leaving):
            if not tail.progress.is_idle or tail.progress.failure is not None:
                self._settle(tail)
            if tail.progress.failure is not None and tail.progress.is_settled:
                self._send_again(tail)
            if tail.is_over and tail.progress.is_idle and self._roster_has(tail):
                self._roster.leave(tail)
        self._leaving = [tail for tail in self._leaving if not tail.progress.is_idle]

    def _roster_has(self, tail: Tail) -> bool:
        return self._roster.tails.get(tail.identity) is tail

    def _settle(self, tail: Tail) -> None:
        settled = tail.progress.settle(_is_hopeless)
        self.tally.delivered_count += settled.delivered_count
        for error in settled.refused:
            self._say_refused(tail, error)
        if settled.delivered_count and tail.progress.failure is None:
            self._complaints.withdraw(DELIVERY)

    def _send_again(self, tail: Tail) -> None:
        """Go back to what was delivered; end everything if trying again is of no use."""
        error = tail.progress.failure
        if not getattr(error, "retriable", False):
            self.fatal = self.fatal or error
            return
        self._complaints.say(DELIVERY, f"not delivered, sending it again: {error}")
        if self._roster_has(tail):
            tail.read_again()
            tail.due = 0.0
            self._enqueue([tail])
            return
        self._say_lost(tail)
        tail.progress.begin_again()

    def _say_lost(self, tail: Tail) -> None:
        self._complaints.say(
            f"{tail.name} lost",
            f"{tail.name} was truncated before all of it was delivered: some of it is lost",
        )


def _is_hopeless(error: Exception) -> bool:
    """Tell whether a record that failed of this can never be delivered."""
    return isinstance(error, RecordTooLarge)
