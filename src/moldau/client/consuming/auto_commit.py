"""Committing by the clock: what the user is done with, every `auto.commit.interval.ms`.

Runs beside the user, who need not do anything for it, not even ask for records. What it commits is
the host's to say (`Host.processed`): never a record that the user may still be working on.
"""

from __future__ import annotations

import asyncio
import logging

from moldau.client.consuming.commits import Commits
from moldau.client.consuming.coordination import Host, Offsets
from moldau.client.consuming.steps import Partitions
from moldau.client.errors import ClientError
from moldau.client.records import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)


class AutoCommit:
    """Commits by itself; owned by the group."""

    def __init__(self, host: Host, commits: Commits, group_id: str, interval_ms: int) -> None:
        self._host = host
        self._commits = commits
        self._group_id = group_id
        self._interval_s = interval_ms / 1000
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """What was committed last, to say nothing where nothing is new."""

    async def run(self) -> None:
        """Commit again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            if offsets := self._news(self._host.processed()):
                # Kept for the next time whether it succeeds or not, so a failure is made up for.
                await self._try(offsets, None)

    async def commit_now(self, deadline: float, only: Partitions | None = None) -> None:
        """Commit before partitions change hands; a failure is no reason to keep them."""
        processed = self._host.processed()
        if only is not None:
            processed = {each: kept for each, kept in processed.items() if each in only}
        if offsets := self._news(processed):
            await self._try(offsets, deadline)

    def forget(self, partitions: Partitions) -> None:
        """Forget what was committed of partitions that others may commit from now on."""
        for partition in partitions:
            self._committed.pop(partition, None)

    def _news(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {each: kept for each, kept in offsets.items() if self._committed.get(each) != kept}

    async def _try(self, offsets: Offsets, deadline: float | None) -> None:
        try:
            if deadline is None:
                await self._commits.commit_soon(offsets, None)
            else:
                await self._commits.commit(offsets, deadline)
        except ClientError as error:
            logger.warning("group %s: an automatic commit failed: %s", self._group_id, error)
        else:
            self._committed.update(offsets)
