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
from moldau.client.errors import ClientError, CommitFailed
from moldau.client.records import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

SHORTEST_INTERVAL_MS = 10
"""How often we look for something to commit at most, whatever was asked for: a hundred times a
second costs next to nothing, without a pause it costs a core."""


class AutoCommit:
    """Commits by itself; owned by the group."""

    def __init__(self, host: Host, commits: Commits, group_id: str, interval_ms: int) -> None:
        self._host = host
        self._commits = commits
        self._group_id = group_id
        self._interval_s = max(interval_ms, SHORTEST_INTERVAL_MS) / 1000
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

    def commit_last(self, offsets: Offsets) -> None:
        """Commit what is given up, in the background, and forget it: it is another's from now."""
        if news := self._news(offsets):
            self._commits.commit_soon(news, None)
        self.forget(frozenset(offsets))

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
            if deadline is None and isinstance(error, CommitFailed):
                # Partitions are committed anew when they are handed over, and warned of when they
                # are lost: a commit by the clock that either overtakes is nothing to act on.
                logger.info("group %s: an automatic commit: %s", self._group_id, error.what)
            else:
                logger.warning("group %s: an automatic commit failed: %s", self._group_id, error)
        else:
            self._committed.update(offsets)
