"""Chores that may have much to do: some of it in each turn of the loop."""

from __future__ import annotations

import asyncio

from kits.log_kit import HandClock
from kits.slicing import count_turns
from moldau.server.upkeep.housekeeping import FILES_PER_TURN, Housekeeping

COUNT = 100


class Logs:
    """Has only files whose time has come."""

    full_directories = ()

    def __init__(self):
        self.expired = COUNT

    def remove_expired(self, now_ms, limit):
        count = min(self.expired, limit)
        self.expired -= count
        return count

    def due_for_flush(self, now_ms):
        return []


def test_files_of_a_large_topic_are_removed_in_turns():
    logs = Logs()
    chores = Housekeeping(logs, (), None, HandClock(), None, None, None, None)
    assert asyncio.run(count_turns(chores.flush())) >= COUNT // FILES_PER_TURN
    assert not logs.expired
