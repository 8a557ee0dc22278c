"""Transactions as blocks: committed at the end of the block, aborted if the block raises.

With a consumer, the offsets of the records it returned in the block are part of the transaction
(KIP-447). After an abort the consumer seeks back to where the block began; otherwise the next
transaction would commit past these records. If the consumer loses a partition whose records it has
returned in the block, another member reads the same records. The transaction must not be committed
then: the block raises CommitFailed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from moldau.base.shielding import shielded
from moldau.client.errors import ClientError, InvalidArgument
from moldau.client.records import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class GroupMember(Protocol):
    """The member that commits offsets in a transaction: a consumer's `group_metadata()`."""

    @property
    def group_id(self) -> str: ...
    @property
    def generation_id(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...


class AsyncMark(Protocol):
    """Tracks the records that an AsyncConsumer returns in a block."""

    async def consumed(self) -> tuple[Offsets, GroupMember]:
        """Return the offsets and the member; CommitFailed if it lost one of the partitions."""
        ...

    def rewind(self) -> None:
        """Seek the consumer back to where the block began."""
        ...


class BlockingMark(Protocol):
    """Tracks the records that a Consumer returns in a block."""

    def consumed(self) -> tuple[Offsets, GroupMember]:
        """Return the offsets and the member; CommitFailed if it lost one of the partitions."""
        ...

    def rewind(self) -> None:
        """Seek the consumer back to where the block began."""
        ...


class AsyncOffsetSource(Protocol):
    """What a transaction needs of an AsyncConsumer."""

    def mark(self) -> AsyncMark: ...


class OffsetSource(Protocol):
    """What a transaction needs of a Consumer."""

    def mark(self) -> BlockingMark: ...


class AsyncTransactional(Protocol):
    """What a block needs of an AsyncProducer."""

    def begin_transaction(self) -> None: ...
    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMember) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...
    @property
    def in_transaction(self) -> bool: ...


class Transactional(Protocol):
    """What a block needs of a Producer."""

    def begin_transaction(self) -> None: ...
    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMember) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...
    @property
    def in_transaction(self) -> bool: ...


class AsyncTransaction:
    """One transaction of an AsyncProducer, as an `async with` block."""

    def __init__(
        self, producer: AsyncTransactional, consumer: AsyncOffsetSource | None = None
    ) -> None:
        _check_source(consumer, other_way="__enter__", kind="an AsyncConsumer")
        self._producer = producer
        self._consumer = consumer
        self._mark: AsyncMark | None = None

    async def __aenter__(self) -> Self:
        """Begin; raises InvalidState if the consumer has no group or commits automatically."""
        self._mark = None if self._consumer is None else self._consumer.mark()
        try:
            self._producer.begin_transaction()
        except BaseException:
            _rewind(self._mark)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or abort if the block raised.

        Aborts with CommitFailed if the consumer lost a partition whose records it returned in the
        block. If cancelled before the commit has begun, it aborts and waits for the abort. If the
        outcome of a commit is unknown, call `commit_transaction()` again. If that fails too, start
        over with a new consumer; it reads the group's offsets.
        """
        if error is None:
            try:
                if self._mark is not None:
                    await self.send_offsets(*await self._mark.consumed())
                await self._producer.commit_transaction()
            except BaseException:
                # Once the end was asked for there is nothing to abort, and what was read may count.
                if self._producer.in_transaction:
                    await self._aborted()
                raise
        else:
            await self._aborted()

    async def send_offsets(self, offsets: Offsets, group: GroupMember) -> None:
        """Commit offsets in this transaction; `group` is a consumer's `group_metadata()`."""
        await self._producer.send_offsets_to_transaction(offsets, group)

    async def _aborted(self) -> None:
        """Abort where that is possible; what was raised before matters more than a failure here.

        The consumer comes first: whatever becomes of the rest, nothing may be read past.
        """
        _rewind(self._mark)
        await shielded(self._abort())

    async def _abort(self) -> None:
        try:
            if self._producer.in_transaction:
                await self._producer.abort_transaction()
        except ClientError as failure:
            logger.warning("aborting a transaction failed: %s", failure)


class Transaction:
    """One transaction of a Producer, as a `with` block."""

    def __init__(self, producer: Transactional, consumer: OffsetSource | None = None) -> None:
        _check_source(consumer, other_way="__aenter__", kind="a Consumer")
        self._producer = producer
        self._consumer = consumer
        self._mark: BlockingMark | None = None

    def __enter__(self) -> Self:
        """Begin; raises InvalidState if the consumer has no group or commits automatically."""
        self._mark = None if self._consumer is None else self._consumer.mark()
        try:
            self._producer.begin_transaction()
        except BaseException:
            _rewind(self._mark)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or abort if the block raised.

        Aborts with CommitFailed if the consumer lost a partition whose records it returned in the
        block. If the outcome of a commit is unknown, call `commit_transaction()` again. If that
        fails too, start over with a new consumer; it reads the group's offsets.
        """
        if error is None:
            try:
                if self._mark is not None:
                    self.send_offsets(*self._mark.consumed())
                self._producer.commit_transaction()
            except BaseException:
                # Once the end was asked for there is nothing to abort, and what was read may count.
                if self._producer.in_transaction:
                    self._abort()
                raise
        else:
            self._abort()

    def send_offsets(self, offsets: Offsets, group: GroupMember) -> None:
        """Commit offsets in this transaction; `group` is a consumer's `group_metadata()`."""
        self._producer.send_offsets_to_transaction(offsets, group)

    def _abort(self) -> None:
        """Abort where that is possible; what was raised before matters more than a failure here.

        The consumer comes first: whatever becomes of the rest, nothing may be read past.
        """
        _rewind(self._mark)
        try:
            if self._producer.in_transaction:
                self._producer.abort_transaction()
        except ClientError as failure:
            logger.warning("aborting a transaction failed: %s", failure)


def _check_source(given: object, *, other_way: str, kind: str) -> None:
    """Refuse what hands out no records, and a consumer of the other face."""
    is_source = callable(getattr(given, "mark", None)) and not hasattr(given, other_way)
    if given is not None and not is_source:
        raise InvalidArgument(
            f"consumer={given!r:.100} is not {kind}",
            advice="Use two asyncio clients, or two blocking ones.",
        )


def _rewind(mark: AsyncMark | BlockingMark | None) -> None:
    """Set the consumer back; what was raised before matters more than a failure here."""
    try:
        if mark is not None:
            mark.rewind()
    except ClientError as failure:
        logger.warning("the consumer of a transaction was not set back: %s", failure)
