"""Commits by the clock: what is worth a warning, and what is not."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kits.consumer_kit import PARTITION
from moldau.client.consuming.auto_commit import AutoCommit
from moldau.client.errors import CommitFailed, RequestTimedOut
from moldau.client.records import OffsetAndMetadata


class Done:
    """A host whose user is done with some records."""

    def processed(self):
        return {PARTITION: OffsetAndMetadata(7)}


class Refused:
    """Commits that fail the first time, and then never end."""

    def __init__(self, error):
        self.error = error
        self.asked = asyncio.Event()

    async def commit_soon(self, _offsets, _callback):
        if self.asked.is_set():
            await asyncio.Event().wait()
        self.asked.set()
        raise self.error

    async def commit(self, offsets, _deadline):
        await self.commit_soon(offsets, None)


def levels_told(error, caplog, *, handing_over):
    async def main():
        refused = Refused(error)
        commits = AutoCommit(Done(), refused, "g", 1)
        if handing_over:
            await commits.commit_now(1.0)
        else:
            running = asyncio.ensure_future(commits.run())
            await refused.asked.wait()
            running.cancel()

    with caplog.at_level(logging.INFO, "moldau.client.consuming.auto_commit"):
        asyncio.run(main())
    return {(record.levelno, "Process fewer" in record.getMessage()) for record in caplog.records}


def test_one_that_a_rebalance_overtakes_warns_nobody(caplog):
    told = levels_told(CommitFailed("it rebalanced"), caplog, handing_over=False)
    assert told == {(logging.INFO, False)}


@pytest.mark.parametrize(
    ("error", "handing_over", "advised"),
    [(RequestTimedOut("slow"), False, False), (CommitFailed("too late"), True, True)],
)
def test_one_that_fails_otherwise_is_warned_of(error, handing_over, advised, caplog):
    told = levels_told(error, caplog, handing_over=handing_over)
    assert told == {(logging.WARNING, advised)}
