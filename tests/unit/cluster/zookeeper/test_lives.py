"""The log of a broker says once that ZooKeeper is away, and once that it is back."""

from __future__ import annotations

import asyncio

import pytest

from kits.stores_on_zookeeper import run_with_two_stores

LOST = "the connection to ZooKeeper is lost; nothing can be changed until it is back"
BACK = "the connection to ZooKeeper is back"
EXPIRED = "the session with ZooKeeper has expired, a new one is opened"
BEGUN = "there is a session with ZooKeeper again"


def told(caplog):
    return [
        record.getMessage() for record in caplog.records if record.name.endswith("zookeeper.lives")
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_lost_connection_is_told_once(caplog, seed):
    async def test(kept, first, second):
        kept.ensemble.lose_connection("broker-1")
        await asyncio.sleep(60)

    run_with_two_stores(seed, test, start_both=False)
    assert told(caplog) == [LOST, BACK]


@pytest.mark.parametrize("seed", range(3))
def test_an_expired_session_and_its_successor_are_told_once(caplog, seed):
    async def test(kept, first, second):
        kept.end_session(1)
        await asyncio.sleep(60)

    run_with_two_stores(seed, test, start_both=False)
    lines = [line for line in told(caplog) if line not in {LOST, BACK}]
    assert lines == [EXPIRED, BEGUN]
