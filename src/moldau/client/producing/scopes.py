"""Transactions as blocks: committed at their end, aborted if something is raised in them.

With a consumer, the offsets of what it handed out in the block go into the transaction (KIP-447).
If that is aborted the consumer is set back to where it stood, since what it handed out counts for
nothing: otherwise the next transaction would commit past it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from moldau.client.errors import ClientError, InvalidState
from moldau.client.producing.transactions import GroupMember, Offsets
from moldau.client.records import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)


class AsyncOffsetSource(Protocol):
    """What a transaction asks of an AsyncConsumer."""

    def assignment(self) -> Collection[TopicPartition]: ...
    def position(self, partition: TopicPartition) -> Awaitable[int]: ...
    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def group_metadata(self) -> GroupMember: ...


class OffsetSource(Protocol):
    """What a transaction asks of a Consumer."""

    def assignment(self) -> Collection[TopicPartition]: ...
    def position(self, partition: TopicPartition) -> int: ...
    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def group_metadata(self) -> GroupMember: ...


class AsyncTransactional(Protocol):
    """What a block asks of an AsyncProducer."""

    def begin_transaction(self) -> None: ...
    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMember) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...
    @property
    def in_transaction(self) -> bool: ...


class Transactional(Protocol):
    """What a block asks of a Producer."""

    def begin_transaction(self) -> None: ...
    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMember) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...
    @property
    def in_transaction(self) -> bool: ...


Positions = dict[TopicPartition, int]


def _moved(before: Positions, after: Positions) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        partition: OffsetAndMetadata(offset)
        for partition, offset in after.items()
        if offset != before.get(partition)
    }


class AsyncTransaction:
    """One transaction of an AsyncProducer, as a block."""

    def __init__(
        self, producer: AsyncTransactional, consumer: AsyncOffsetSource | None = None
    ) -> None:
        self._producer = producer
        self._consumer = consumer
        self._before: Positions = {}

    async def __aenter__(self) -> Self:
        if self._consumer is not None:
            self._before = await self._positions(self._consumer)
        self._producer.begin_transaction()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or abort if something was raised. Cancelled, it aborts, and waits for that."""
        if error is None:
            try:
                if self._consumer is not None:
                    await self._send_offsets(self._consumer)
                await self._producer.commit_transaction()
            except BaseException:
                await self._aborted()
                raise
        else:
            await self._aborted()

    async def send_offsets(self, offsets: Offsets, group: GroupMember) -> None:
        """Make offsets part of this transaction; `group` is a consumer's `group_metadata()`."""
        await self._producer.send_offsets_to_transaction(offsets, group)

    async def _send_offsets(self, consumer: AsyncOffsetSource) -> None:
        moved = _moved(self._before, await self._positions(consumer))
        await self._producer.send_offsets_to_transaction(moved, consumer.group_metadata())

    async def _aborted(self) -> None:
        """Abort where that is possible; what was raised before matters more than a failure here."""
        await asyncio.shield(self._abort())

    async def _abort(self) -> None:
        try:
            if self._producer.in_transaction:
                await self._producer.abort_transaction()
        except ClientError as failure:
            logger.warning("aborting a transaction failed: %s", failure)
        if self._consumer is not None:
            await self._set_back(self._consumer)

    async def _set_back(self, consumer: AsyncOffsetSource) -> None:
        new = [one for one in consumer.assignment() if one not in self._before]
        committed = await consumer.committed(new) if new else {}
        targets = _targets(self._before, committed, consumer.assignment())
        for partition, offset in targets.items():
            consumer.seek(partition, offset)

    @staticmethod
    async def _positions(consumer: AsyncOffsetSource) -> Positions:
        return {one: await consumer.position(one) for one in consumer.assignment()}


class Transaction:
    """One transaction of a Producer, as a block."""

    def __init__(self, producer: Transactional, consumer: OffsetSource | None = None) -> None:
        self._producer = producer
        self._consumer = consumer
        self._before: Positions = {}

    def __enter__(self) -> Self:
        if self._consumer is not None:
            self._before = self._positions(self._consumer)
        self._producer.begin_transaction()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or abort if something was raised."""
        if error is None:
            try:
                if self._consumer is not None:
                    moved = _moved(self._before, self._positions(self._consumer))
                    self.send_offsets(moved, self._consumer.group_metadata())
                self._producer.commit_transaction()
            except BaseException:
                self._abort()
                raise
        else:
            self._abort()

    def send_offsets(self, offsets: Offsets, group: GroupMember) -> None:
        """Make offsets part of this transaction; `group` is a consumer's `group_metadata()`."""
        self._producer.send_offsets_to_transaction(offsets, group)

    def _abort(self) -> None:
        """Abort where that is possible; what was raised before matters more than a failure here."""
        try:
            if self._producer.in_transaction:
                self._producer.abort_transaction()
        except ClientError as failure:
            logger.warning("aborting a transaction failed: %s", failure)
        if self._consumer is not None:
            self._set_back(self._consumer)

    def _set_back(self, consumer: OffsetSource) -> None:
        new = [one for one in consumer.assignment() if one not in self._before]
        committed = consumer.committed(new) if new else {}
        targets = _targets(self._before, committed, consumer.assignment())
        for partition, offset in targets.items():
            consumer.seek(partition, offset)

    @staticmethod
    def _positions(consumer: OffsetSource) -> Positions:
        return {one: consumer.position(one) for one in consumer.assignment()}


def _targets(
    before: Positions,
    committed: Mapping[TopicPartition, Any],
    assigned: Collection[TopicPartition],
) -> Positions:
    """Return where to set back what is assigned now.

    InvalidState for a partition that came during the block and has no committed offset: where it
    began is not known, and going on behind it would lose what was handed out.
    """
    targets = {}
    for partition in assigned:
        if partition in before:
            targets[partition] = before[partition]
        elif committed.get(partition) is not None:
            targets[partition] = committed[partition].offset
        else:
            raise InvalidState(
                f"{partition} cannot be set back: it was assigned during the transaction that was"
                " aborted, and nothing is committed for it",
                advice="Seek it to where it began, or begin the first transaction after the"
                " partitions are assigned.",
            )
    return targets
