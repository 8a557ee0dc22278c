"""Commits by the clock: how often they look for something to do, and what they do at the end."""

from __future__ import annotations

import asyncio

from kits.consumer_kit import PARTITION
from moldau.client.consuming.auto_commit import AutoCommit
from moldau.client.records import OffsetAndMetadata


class Idle:
    """A host with nothing to commit, which counts how often it is asked."""

    count = 0

    def processed(self):
        self.count += 1
        return {}


class Noted:
    """Commits in the background, noted."""

    def __init__(self):
        self.asked = []

    def commit_soon(self, offsets, _callback):
        self.asked.append(offsets)


def test_an_interval_of_nothing_does_not_keep_the_loop_busy():
    async def main():
        host = Idle()
        running = asyncio.ensure_future(AutoCommit(host, Noted(), "g", 0).run())
        for _ in range(500):
            await asyncio.sleep(0)
        running.cancel()
        return host.count

    assert asyncio.run(main()) < 100


def test_what_is_given_up_is_committed_in_the_background():
    noted = Noted()
    commits = AutoCommit(Idle(), noted, "g", 1000)
    commits.commit_last({})
    commits.commit_last({PARTITION: OffsetAndMetadata(7)})
    assert noted.asked == [{PARTITION: OffsetAndMetadata(7)}]
