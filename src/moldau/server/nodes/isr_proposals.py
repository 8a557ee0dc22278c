"""ISR changes on their way to the controller: AlterPartition, many partitions at a time.

A leader proposes an ISR, and counts both the old and the new one until the proposal is answered
(`replication.leader_state`). One request is in flight at a time; later proposals are pending and
leave with the next one. A request that failed as a whole is sent again, on another connection:
the controller must not handle a copy of it after a later one was answered. It notices a proposal
that it has taken already, because that names the partition epoch it was made on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from moldau.base.ids import BrokerId
from moldau.cluster.isr_changes import IsrAnswer, IsrProposal
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError
from moldau.replication.leader_state import IsrProposal as LeadersProposal
from moldau.replication.partition import Partition
from moldau.server.nodes.one_in_flight import OneInFlight

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.05
"""Before a request that failed as a whole is sent again; Kafka's number."""

PROPOSALS_PER_REQUEST: Final = 500
"""More leave with the next one: their answers are applied in one turn of the loop."""


class AlterPartitions(Protocol):
    """Asks the controller; `BrokerRequests.alter_partitions`."""

    async def __call__(
        self, broker_id: BrokerId, broker_epoch: int, proposals: list[IsrProposal], /
    ) -> list[IsrAnswer]: ...


class IsrProposals:
    """Everything that this broker's leaders have proposed. Owned by the event loop's thread."""

    def __init__(
        self, ask: AlterPartitions, broker_id: BrokerId, broker_epoch: Callable[[], int]
    ) -> None:
        self._ask = ask
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[Partition, LeadersProposal] = {}
        """The newest proposal of each partition, in the order in which they came."""
        self._requests = OneInFlight("isr proposals", self._waiting, self._send_next)
        self._is_closed = False

    def propose(self, partition: Partition, proposal: LeadersProposal) -> None:
        """Have a proposal sent, on a later turn of the loop."""
        if self._is_closed:
            return  # others are elected once this broker's session ends
        self._waiting[partition] = proposal
        self._requests.begin()

    async def _send_next(self) -> None:
        asked = [
            (partition, self._waiting.pop(partition))
            for partition in tuple(self._waiting)[:PROPOSALS_PER_REQUEST]
        ]
        # One that was decided in another way meanwhile has no answer to wait for.
        asked = [one for one in asked if one[0].pending_isr is one[1]]
        unanswered = await self._send(asked) if asked else []
        for partition, proposal in unanswered:
            # A newer proposal of the same partition stays.
            self._waiting.setdefault(partition, proposal)
        if unanswered:
            await asyncio.sleep(RETRY_S)

    async def _send(
        self, asked: list[tuple[Partition, LeadersProposal]]
    ) -> list[tuple[Partition, LeadersProposal]]:
        """Send proposals in one request; return those that have no answer."""
        epoch = self._broker_epoch()
        proposals = [self._stated(partition, one, epoch) for partition, one in asked]
        try:
            answers = await self._ask(self._broker_id, epoch, proposals)
        except (ApiError, StoreFailed) as error:
            logger.debug("ISR changes were not taken: %s", error)
            return asked
        except Exception:
            # Not dropped: a partition with a proposal that nobody answers never makes another one.
            logger.exception("a bug while ISR changes were proposed, they are sent again")
            return asked
        by_partition = {(one.topic_id, one.index): one for one in answers}
        unanswered = []
        for partition, proposal in asked:
            answer = by_partition.get((partition.topic_id, partition.key.partition))
            if answer is None:
                unanswered.append((partition, proposal))
            else:
                partition.isr_answer(
                    proposal,
                    answer.error,
                    leader_epoch=answer.leader_epoch,
                    partition_epoch=answer.partition_epoch,
                    isr=answer.isr,
                    recovering=answer.recovering,
                )
        return unanswered

    def _stated(
        self, partition: Partition, proposal: LeadersProposal, broker_epoch: int
    ) -> IsrProposal:
        """Convert a proposal for the controller, with this broker's own epoch filled in."""
        members = zip(proposal.isr, proposal.broker_epochs, strict=True)
        return IsrProposal(
            partition.topic_id,
            partition.key.partition,
            proposal.leader_epoch,
            proposal.partition_epoch,
            tuple(
                (member, broker_epoch if member == self._broker_id else epoch)
                for member, epoch in members
            ),
        )

    async def close(self) -> None:
        """Send no more."""
        self._is_closed = True
        self._waiting.clear()
        await self._requests.cancel()
