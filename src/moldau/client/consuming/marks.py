"""What a consumer has handed out since a mark: how far it came, and the way back.

For transactions, which commit the offsets of what was handed out in them or take it back. The
states of partitions are kept, not their names: one that was taken away and came back is another
state. Others may have had it meanwhile, and its offsets are no longer for this consumer to commit,
although neither the assignment nor the generation need show that.

Knows nothing of transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from moldau.base.tuples import NamedTuple
from moldau.client.consuming.coordination import Coordination, GroupMetadata
from moldau.client.consuming.holding import Holding
from moldau.client.consuming.positions import PartitionState, Positions, committable
from moldau.client.errors import ClientClosed, CommitFailed, InvalidState
from moldau.client.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from moldau.engine.portal import Portal


class Consumed(NamedTuple):
    """What was handed out since a mark."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    """Behind it, for every partition that moved."""
    member: GroupMetadata
    """Whose offsets they are."""


class Marked(Protocol):
    """What a mark asks of the consumer it is set in."""

    @property
    def positions(self) -> Positions: ...
    @property
    def is_subscribed(self) -> bool: ...
    def group(self) -> Coordination: ...
    async def position(self, partition: TopicPartition, timeout_ms: float | None) -> int: ...
    def seek(self, partition: TopicPartition, to: int | OffsetAndMetadata) -> None: ...


class Mark:
    """An account of what is handed out from here on. Owned by the event loop's thread."""

    def __init__(self, consumer: Marked, holding: Holding) -> None:
        """Begin the account; InvalidState while another is open."""
        if holding.is_marked:
            raise InvalidState(
                "a transaction with this consumer is already open",
                advice="End that block first: a record can be part of one transaction only.",
            )
        self._consumer = consumer
        self._holding = holding
        self._beginnings = holding.mark()

    async def consumed(self) -> Consumed:
        """End the account: return how far the consumer came, and as whom.

        CommitFailed if any of it is no longer this consumer's to commit; waits for positions that
        are being looked up. Cancelled, or failed, the account stays open.
        """
        while waiting := [one for one in self._beginnings if self._is_sought(one)]:
            await self._consumer.position(waiting[0].partition, None)
        offsets = {
            state.partition: committable(*self._holding.consumed(state))
            for state in self._beginnings
            if self._has_moved(state)
        }
        member = self._consumer.group().metadata()
        if offsets:
            self._check_kept(member)
        self._holding.unmark(self._beginnings)
        return Consumed(offsets, member)

    def rewind(self) -> None:
        """End the account and take it back: go on where each partition stood.

        What was taken away meanwhile goes on where its group says; a closed consumer stays closed.
        """
        self._holding.unmark(self._beginnings)
        with suppress(ClientClosed):
            for state, began in self._beginnings.items():
                if self._is_kept(state) and self._has_moved(state):
                    self._consumer.seek(state.partition, committable(*began))

    def _is_kept(self, state: PartitionState) -> bool:
        return self._consumer.positions.get(state.partition) is state

    def _is_sought(self, state: PartitionState) -> bool:
        return self._is_kept(state) and not state.has_offset

    def _has_moved(self, state: PartitionState) -> bool:
        return self._holding.consumed(state)[0] != self._beginnings[state][0]

    def _check_kept(self, member: GroupMetadata) -> None:
        """Refuse to let anything be committed that others may have been handed by now."""
        gone = [one for one in self._beginnings if self._has_moved(one) and not self._is_kept(one)]
        # Shut out of the group, a consumer is no member before it has dropped what it had; offsets
        # that say no generation would be taken from it, since that is how a loner commits.
        if not gone and self._consumer.is_subscribed and member.generation_id < 0:
            gone = list(self._beginnings)
        if gone:
            names = sorted({f"{one.partition.topic}-{one.partition.partition}" for one in gone})
            raise CommitFailed(
                "this consumer lost partitions whose records it had returned;"
                f" it cannot commit their offsets: {', '.join(names)}",
                advice="Continue: the new owner of the partitions reads the records again. If this"
                " happens often, process fewer records per poll or raise max_poll_interval_ms.",
            )


class BlockingMark:
    """The same for threads."""

    def __init__(
        self,
        mark: Mark,
        portal: Portal,
        wait: Callable[[Coroutine[Any, Any, Consumed]], Consumed],
    ) -> None:
        self._mark = mark
        self._portal = portal
        self._wait = wait

    def consumed(self) -> Consumed:
        """End the account: return how far the consumer came, and as whom.

        CommitFailed if any of it is no longer this consumer's to commit.
        """
        return self._wait(self._mark.consumed())

    def rewind(self) -> None:
        """End the account and take it back: go on where each partition stood."""
        with suppress(ClientClosed):
            # Posted, it happens even if Ctrl-C ends the wait, and whoever else uses the consumer.
            self._portal.post(self._mark.rewind)
            self._portal.call(asyncio.sleep(0))
