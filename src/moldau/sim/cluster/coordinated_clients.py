"""Transactional producers, members of groups and readers of committed records, in a cluster.

What they do and check is what they do with one broker (`sim.workload`); `routing` finds the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import FetchablePartitionResponse
from moldau.replication.partition import Partition
from moldau.sim.cluster.coordination_targets import NO_TERM, CoordinationTargets, term_in
from moldau.sim.cluster.routing import RoutedClient
from moldau.sim.coordination_checks import (
    FinalCommittedReader,
    TransactionsHang,
    check_replayed,
)
from moldau.sim.swarm import Coordination
from moldau.sim.transaction_history import Transaction
from moldau.sim.workload.client import RETRY_S, Link, Worker
from moldau.sim.workload.committed_reader import CommittedReader, Fetched
from moldau.sim.workload.committer import Committer
from moldau.sim.workload.coordinated import CoordinatorKind
from moldau.sim.workload.group_member import GroupMember
from moldau.sim.workload.transactor import Transactor

TRIES = 40
"""Of the last reader: about two seconds."""


class ClusterTransactor(RoutedClient, Transactor):
    """A transactional producer, whose coordinator may move while a transaction is open."""

    give_up_chance = 0.05
    _begun_in = NO_TERM

    def _plan_transaction(self) -> None:
        super()._plan_transaction()
        self._begun_in = self.targets.term(CoordinatorKind.TRANSACTION, self.name)

    async def _end(self, link: Link, transaction: Transaction, *, commit: bool) -> int:
        code = await super()._end(link, transaction, commit=commit)
        now = self.targets.term(CoordinatorKind.TRANSACTION, self.name)
        if not code and now.leader != self._begun_in.leader:
            self.targets.seen["transaction over a coordinator move"] += 1
        return code

    def _check_shut_out(self, error: ErrorCode) -> None:
        if self.targets.clocks_jump:
            return
        if self._was_answered_from_old_metadata():
            self.targets.seen["shut out by a former coordinator"] += 1
            return
        super()._check_shut_out(error)

    def _was_answered_from_old_metadata(self) -> bool:
        """Tell whether the broker that answered may have relied on a former coordinator.

        A former coordinator that has not heard of its successor refuses from its memory, in which
        the transaction has not begun, and Kafka's does the same. The broker's metadata of before
        the request is compared with the newest of now. Terms only grow, so if both are equal the
        broker knew the present coordinator for the whole time.
        """
        assert self._link is not None
        known = term_in(self._link.asked_image, CoordinatorKind.TRANSACTION, self.name)
        return known != self.targets.term(CoordinatorKind.TRANSACTION, self.name)


class ClusterCommitter(RoutedClient, Committer):
    """A client that keeps offsets in a group without being a member."""


class ClusterGroupMember(RoutedClient, GroupMember):
    """A member of a group, whose coordinator may move."""


class ClusterCommittedReader(RoutedClient, CommittedReader):
    """A reader of the topic that transactions write to."""

    def check_stable(self, index: int, known: int, result: FetchablePartitionResponse) -> None:
        """Compare with no earlier answer: another leader learns late what is stable."""
        del known
        super().check_stable(index, 0, result)


def coordinated_clients(targets: CoordinationTargets, work: Coordination) -> list[Worker]:
    """Make the clients of coordinators that a seed has drawn."""
    return [
        *(
            ClusterGroupMember(targets, f"member-{number}-{one}", f"group-{number}", plan)
            for number, plans in enumerate(work.groups)
            for one, plan in enumerate(plans)
        ),
        *(
            ClusterCommitter(targets, f"committer-{number}", group)
            for number, group in enumerate(work.committers)
        ),
        *(
            ClusterTransactor(targets, f"transactor-{number}", plan)
            for number, plan in enumerate(work.transactors)
        ),
        *(
            ClusterCommittedReader(targets, f"committed-reader-{number}", plan)
            for number, plan in enumerate(work.readers)
        ),
    ]


# The end


class FinalCoordinatedReader(ClusterCommittedReader, FinalCommittedReader):
    """Reads what was committed, when nobody writes any more.

    What brokers know of leaders may be a moment old even then: it asks again.
    """

    async def fetch(self, link: Link, index: int, offset: int) -> Fetched | None:
        for _ in range(TRIES):
            fetched = await super().fetch(link, index, offset)
            if fetched is not None:
                return fetched
        return None

    async def read_offsets(
        self, link: Link, group: str, *, stable: bool = False
    ) -> dict[int, int] | None:
        for _ in range(TRIES):
            offsets = await super().read_offsets(link, group, stable=stable)
            if offsets is not None:
                return offsets
            await asyncio.sleep(RETRY_S)
        return None

    def partitions(self) -> Iterator[Partition]:
        for node in self.targets.cluster.nodes.all:
            assert node.process.broker is not None
            yield from (one for one in node.process.broker.parts.partitions if one.leads)


async def check_coordination(targets: CoordinationTargets) -> None:
    """Read all that was committed, and hold each coordinator's memory against its log."""
    if targets.is_void:
        return
    try:
        await FinalCoordinatedReader(targets).run()
    except TransactionsHang:
        if not targets.clocks_jump:
            raise
        # Its coordinator had a clock that was hours ahead, and the next one has not.
        targets.seen["transaction kept open by a wrong clock"] += 1
        return
    for node in targets.cluster.nodes.all:
        assert node.process.broker is not None
        await node.process.inside(check_replayed(node.process.broker))
