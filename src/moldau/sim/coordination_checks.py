"""The checks at the end of a run that concern coordinators: what is committed, what is replayed.

Clients have compared what they were told as it came (`group_history`, `offset_history`,
`transaction_history`). What is left is to wait until everything is decided, to read all of it, and
to hold what the coordinators have in memory against their logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.groups.states import GroupState
from moldau.coordination.loading import Loader
from moldau.coordination.runtime import LOAD_BUFFER_BYTES, Runtime
from moldau.coordination.transactions.shard import TransactionShard
from moldau.protocol.errors import ErrorCode
from moldau.replication.partition import Partition
from moldau.server.broker import Broker
from moldau.sim.history import Violation
from moldau.sim.workload.client import Link
from moldau.sim.workload.committed_reader import CommittedReader, ReaderPlan
from moldau.sim.workload.targets import Targets
from moldau.sim.workload.transactor import OFFSET_PARTITION, group_of

DECIDED_WITHIN_S = 20.0
"""Longer than any transaction may take, and the broker needs to look after it."""

FETCH_VERSION = 12
FETCH_SIZE = 20_000


class TransactionsHang(Violation):
    """Transactions are open for longer than their time-outs allow."""


class FinalCommittedReader(CommittedReader):
    """Reads what was committed, when nobody writes any more."""

    def __init__(self, targets: Targets) -> None:
        plan = ReaderPlan(FETCH_VERSION, committed_only=True, max_bytes=FETCH_SIZE)
        super().__init__(targets, "final-committed-reader", plan)
        self._done = False

    @property
    def finished(self) -> bool:
        return self._done

    async def work(self, link: Link) -> None:
        await self._wait_until_decided()
        for owner in self.targets.transactions.owners:
            found = await self.read_offsets(link, group_of(owner), stable=True)
            if found is None:
                raise Violation(f"P7: the offset of {owner} cannot be read, when all is well")
            self.targets.transactions.settled(owner, found[OFFSET_PARTITION])
        topic = self.targets.kept
        contents = {
            f"{topic.name}-{index}": await self._read_all(link, index)
            for index in range(topic.partition_count)
        }
        self.targets.transactions.final(contents)
        for history in self.targets.groups.values():
            asked = {index: offset.ask() for index, offset in history.offsets.items()}
            found = await self.read_offsets(link, history.name)
            if found is None:
                raise Violation(f"P7: offsets of {history.name} cannot be read, when all is well")
            for index, offset in found.items():
                history.offsets[index].read(asked[index], offset)
        self._done = True

    async def _wait_until_decided(self) -> None:
        """P7: no transaction stays open for longer than its time-out allows."""
        deadline_s = self.targets.world.loop.time() + DECIDED_WITHIN_S
        while True:
            undecided = [
                str(partition.key)
                for partition in self.partitions()
                if partition.last_stable_offset != partition.high_watermark
            ]
            if not undecided:
                return
            if self.targets.world.loop.time() > deadline_s:
                raise TransactionsHang(f"P7: transactions hang in {', '.join(undecided)}")
            await asyncio.sleep(0.2)

    def partitions(self) -> Iterable[Partition]:
        """Return all partitions that are served."""
        broker = self.targets.broker.broker
        assert broker is not None
        return broker.parts.partitions

    async def _read_all(self, link: Link, index: int) -> list[bytes]:
        values: list[bytes] = []
        offset = 0
        while True:
            fetched = await self.fetch(link, index, offset)
            if fetched is None:
                raise Violation(f"P7: partition {index} cannot be read at {offset}")
            values += fetched.values
            if fetched.next_offset == offset:
                return values
            offset = fetched.next_offset


# Replayed state


async def check_replayed(broker: Broker) -> None:
    """I9: what a coordinator has in memory is what a replay of its partition yields."""
    runtimes = broker.parts.runtimes
    for runtime, essence in (
        (runtimes.groups, _group_essence),
        (runtimes.transactions, _transaction_essence),
    ):
        for index in runtime.led:
            await _check_replayed(runtime, index, essence)


async def _check_replayed(runtime: Runtime[Any], index: int, essence: Any) -> None:
    host = runtime._hosts[index]  # noqa: SLF001 - a look inside is what this is for
    if host.refusal is not ErrorCode.NONE:
        return
    replayed = runtime._make_shard(index, host.log.leader_epoch)  # noqa: SLF001
    loader = Loader(host.log, replayed, str(host), runtime.bugs)
    await loader.run(LOAD_BUFFER_BYTES)
    if loader.skipped_count or runtime.bugs.count:
        raise Violation(
            f"I9: {host} wrote {loader.skipped_count} record(s) that it cannot read, "
            f"and {runtime.bugs.count} request(s) raised"
        )
    # Nothing has happened since the end of the log was reached.
    if host.refusal is not ErrorCode.NONE:
        return
    known, found = essence(host.shard, host.shard), essence(replayed, host.shard)
    for one, other in zip(known, found, strict=True):
        if one != other:
            raise Violation(f"I9: {host} holds {one}, its log {other}")


def _group_essence(shard: GroupShard, live: GroupShard) -> tuple[object, ...]:
    """Offsets, and those groups of which everything is written.

    Between two generations it is not; and of a group that never had a member nothing is.
    """
    offsets = shard._offsets  # noqa: SLF001
    decided = {
        name
        for name, group in live._groups.items()  # noqa: SLF001
        if group.state in (GroupState.STABLE, GroupState.EMPTY) and group.generation
    }
    groups = {
        name: (
            core.state,
            core.generation,
            core.protocol,
            core.roster.leader,
            sorted((one.member_id, one.instance_id, one.assignment) for one in core.roster),
        )
        for name, group in shard._groups.items()  # noqa: SLF001
        if name in decided and (core := group._core)  # noqa: SLF001
    }
    return offsets._committed, offsets.pending(), groups  # noqa: SLF001


def _transaction_essence(shard: TransactionShard, live: TransactionShard) -> tuple[object, ...]:
    del live
    ledger = shard._ledger  # noqa: SLF001
    return ({transaction.transactional_id: transaction for transaction in ledger},)
