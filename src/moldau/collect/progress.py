"""What of a file may be marked as done: everything before the first record that is not delivered.

Records travel together in spans; a span is done when each record in it was acknowledged, or never
can be. Spans may be settled in any order, and count in the order of the file. Lines that are only
counted share one delivery, that of their sum.

Pure: it knows of a delivery only whether it is done and why it failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from moldau.collect.marks import Mark


class Sent(Protocol):
    """A record on its way."""

    def done(self) -> bool:
        """Tell whether it is known what became of it."""
        ...

    def exception(self) -> Exception | None:
        """Return why it failed, None if it was acknowledged; asked of one that is done."""
        ...


class Span(NamedTuple):
    """Records that follow each other in a file."""

    end: Mark
    """The end of the last one."""
    sent: Sequence[Sent]


class Settled(NamedTuple):
    """What became of some records."""

    delivered_count: int
    refused: Sequence[Exception]
    """Of those that can never be delivered."""


class Progress:
    """The records of one file that are on their way, and what lies behind them."""

    def __init__(self, done: Mark) -> None:
        self.done = done
        """Everything before has been delivered."""
        self.failure: Exception | None = None
        """Why a record was not delivered that has to be sent again."""
        self._spans: deque[Span] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._spans

    @property
    def is_settled(self) -> bool:
        """Whether it is known of every record what became of it."""
        return all(one.done() for span in self._spans for one in span.sent)

    def add(self, end: Mark, sent: Sequence[Sent]) -> None:
        """Take note of records that were sent, up to this place.

        Those that share a delivery become one span, or an hour without brokers would take a span
        for every time that a file was looked at.
        """
        if sent and all(one is sent[0] for one in sent):
            sent = sent[:1]
            if self._spans and self._spans[-1].sent == sent:
                self._spans.pop()
        self._spans.append(Span(end, sent))

    def settle(self, is_hopeless: Callable[[Exception], bool]) -> Settled:
        """Move `done` on as far as it goes, and tell what became of the records it passed.

        A record that failed stops it, unless sending that one again would be hopeless.
        """
        delivered_count = 0
        refused: list[Exception] = []
        spans = self._spans
        while spans and self.failure is None:
            end, sent = spans[0]
            # Who was sent last is mostly told last: asked first, one question is enough.
            if not all(one.done() for one in reversed(sent)):
                break
            errors = [error for one in sent if (error := one.exception()) is not None]
            self.failure = next((error for error in errors if not is_hopeless(error)), None)
            if self.failure is None:
                delivered_count += len(sent) - len(errors)
                refused += errors
                self.done = end
                spans.popleft()
        return Settled(delivered_count, refused)

    def begin_again(self) -> Mark:
        """Forget everything that was sent after `done`, which is returned: read on from there."""
        self._spans.clear()
        self.failure = None
        return self.done
