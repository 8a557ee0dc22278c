"""The batches of one partition in their order: open, waiting, on their way.

Holds the rules that keep the order (B6): at most five numbered batches on their way, because a
broker remembers five; a batch that failed goes back before those that came after it, and is sent
again only when it is the first that is not acknowledged; nothing new is sent before it is, or the
broker would forget that it has it already; what is on its way to an old leader is awaited before
anything goes to the new one. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from moldau.client.producing.batch_results import Guard
from moldau.client.producing.batches import ProducerBatch
from moldau.client.producing.sequences import Gap, SequenceIdentity, Sequences

NO_LEADER: Final = -1
NOBODY: Final = -2
"""No broker: nothing is on its way."""

NUMBERED_IN_FLIGHT_MAX: Final = 5
"""A broker knows a repeated batch among the last five of a producer."""


class PartitionQueue:
    """One partition's batches."""

    __slots__ = (
        "_in_flight_max",
        "_sent_to",
        "guard",
        "in_flight",
        "leader",
        "open",
        "partition",
        "sequences",
        "topic",
        "unacknowledged",
        "waiting",
    )

    def __init__(
        self, topic: str, partition: int, guard: Guard, in_flight_max: int, *, idempotent: bool
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.guard = guard
        self.leader = NO_LEADER
        self.open: ProducerBatch | None = None
        """The batch that `send` adds to."""
        self.waiting: deque[ProducerBatch] = deque()
        """Closed batches: those that failed first, in their order, then the new ones."""
        self.unacknowledged: list[ProducerBatch] = []
        """Batches that were sent, in the order of their first sending, and not settled."""
        self.in_flight = 0
        self.sequences = Sequences() if idempotent else None
        self._in_flight_max = in_flight_max
        if idempotent:
            self._in_flight_max = min(in_flight_max, NUMBERED_IN_FLIGHT_MAX)
        self._sent_to = NOBODY

    def __repr__(self) -> str:
        return f"<{self.topic}-{self.partition}>"

    @property
    def load(self) -> int:
        """How many batches are before a new one."""
        return len(self.waiting) + self.in_flight

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.unacknowledged and self.open is None

    def close_open(self) -> None:
        """Let the open batch be sent as it is."""
        if self.open is not None:
            self.waiting.append(self.open)
            self.open = None

    def sendable(self, now: float) -> bool:
        """Tell whether the first waiting batch may go to the leader now."""
        if not self.waiting or self.leader == NO_LEADER:
            return False
        head = self.waiting[0]
        if head.not_before > now or self.in_flight >= self._in_flight_max:
            return False
        if self.in_flight and self._sent_to != self.leader:
            return False
        return self.sequences is None or self._in_sequence(head, self.sequences)

    def _in_sequence(self, head: ProducerBatch, sequences: Sequences) -> bool:
        if sequences.gap is Gap.CERTAIN:
            return not self.in_flight
        if head.attempts:
            return self.unacknowledged[0] is head
        if self.unacknowledged and (
            not sequences.introduced or self.unacknowledged[0].attempts > 1
        ):
            return False
        return sequences.gap is Gap.NONE or not (self.unacknowledged or self.in_flight)

    def settle_numbers(self, identity: SequenceIdentity) -> bool:
        """Make ready to number what is sendable; False if that needs a raised epoch (`renumber`).

        A partition goes on under an older identity until nothing of it is left to acknowledge.
        """
        sequences = self.sequences
        if sequences is None:
            return True
        if sequences.identity is not None and self.unacknowledged:
            if sequences.gap is not Gap.CERTAIN:
                return True
        elif sequences.identity != identity:
            sequences.adopt(identity)
            return True
        elif sequences.close_gap():
            return True
        if sequences.identity == identity:
            return False
        # The epoch was raised for another partition meanwhile: that serves here as well.
        self.renumber(identity)
        return True

    def renumber(self, identity: SequenceIdentity) -> None:
        """Close a gap under a raised epoch."""
        assert self.sequences is not None
        self.sequences.renumber(identity, self.unacknowledged)

    def take(self) -> ProducerBatch:
        """Take the first waiting batch, to be sent to the leader now."""
        batch = self.waiting.popleft()
        if not batch.attempts:
            if self.sequences is not None:
                self.sequences.number(batch)
            self.unacknowledged.append(batch)
        batch.attempts += 1
        self.in_flight += 1
        self._sent_to = self.leader
        return batch

    def answered(self) -> None:
        """A batch that was on its way is not any more, whatever became of it."""
        self.in_flight -= 1
        if not self.in_flight:
            self._sent_to = NOBODY

    def acknowledged(self, batch: ProducerBatch) -> None:
        """The broker has written it."""
        self._forget(batch)
        if self.sequences is not None:
            self.sequences.acknowledged(batch)

    def given_up(self, batch: ProducerBatch) -> None:
        """It failed for good, or was never sent: what follows it has a gap before it."""
        if batch is self.open:
            self.open = None
        elif batch in self.waiting:
            self.waiting.remove(batch)
        self._forget(batch)
        if self.sequences is not None:
            self.sequences.given_up(batch)

    def _forget(self, batch: ProducerBatch) -> None:
        if batch in self.unacknowledged:
            self.unacknowledged.remove(batch)

    def requeue(self, batch: ProducerBatch) -> None:
        """Put a batch that failed back before those sent after it."""
        order = self.unacknowledged
        place = order.index(batch)
        position = 0
        for waiting in self.waiting:
            if not waiting.attempts or order.index(waiting) > place:
                break
            position += 1
        self.waiting.insert(position, batch)

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Replace a batch that is too large by its halves."""
        place = self.unacknowledged.index(batch)
        halves = batch.halves()
        self.unacknowledged[place : place + 1] = halves
        for half in halves:
            self.requeue(half)
        return halves
