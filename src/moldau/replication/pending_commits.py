"""What one request waits for at its partitions, of which there may be any number.

A produce request with acks=all, or a marker for many partitions, has one answer. It is sent when
each of its batches is committed or has failed. Each batch waits at its own partition (`delayed`).
The same goes for DeleteRecords, whose deletions other replicas have to follow.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, TypeVar

from moldau.base.prompt_future import PromptFuture
from moldau.protocol.errors import ErrorCode
from moldau.replication.delayed import Delayed, Done
from moldau.replication.partition import Partition

R = TypeVar("R")


class PendingCommits:
    """The pending batches of one request. Nearly always there are none."""

    __slots__ = ("_answer", "_left", "_waits")

    def __init__(self) -> None:
        self._left = 0
        self._waits: list[Delayed] = []
        self._answer: tuple[PromptFuture[Any], Any] | None = None

    def __bool__(self) -> bool:
        """Tell whether a batch is pending."""
        return self._left > 0

    def add(self, partition: Partition, end_offset: int, timeout_s: float, failed: Done) -> None:
        """Wait until everything below an offset is committed; call `failed` after an error.

        Call it right after the append, without an await in between: this broker may lose the
        leadership during an await, and only a leader knows what is committed.
        """
        self._left += 1
        done = partial(self._committed, failed)
        self._waits.append(partition.delay(end_offset, done, timeout_s))

    def add_deletion(
        self, partition: Partition, offset: int, timeout_s: float, deleted: Done
    ) -> None:
        """Wait until every live replica has deleted the records before an offset; tell `deleted`.

        Call it right after the deletion, as `add`.
        """
        self._left += 1
        done = partial(self._done, deleted)
        self._waits.append(partition.delay_deletion(offset, done, timeout_s))

    def answer(self, response: R) -> asyncio.Future[R]:
        """Return a future that gets the response when no batch is pending any more.

        The future is cancelled when the client disconnects; then the waits are cancelled too.
        """
        future: PromptFuture[R] = PromptFuture()
        self._answer = (future, response)
        future.on_cancel = self._cancel
        self._look()
        return future

    def _committed(self, failed: Done, code: ErrorCode) -> None:
        self._left -= 1
        if code is not ErrorCode.NONE:
            failed(code)
        self._look()

    def _done(self, told: Done, code: ErrorCode) -> None:
        self._left -= 1
        told(code)
        self._look()

    def _look(self) -> None:
        if self._answer is not None and not self._left:
            future, response = self._answer
            if not future.done():
                self._waits.clear()
                future.set_result(response)

    def _cancel(self) -> None:
        for wait in self._waits:
            wait.cancel()
        self._waits.clear()
