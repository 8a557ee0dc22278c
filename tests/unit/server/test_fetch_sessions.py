"""Fetch sessions (KIP-227): epochs, eviction, and only what moved is worth a look."""

import asyncio
import random

import pytest

from kits import log_kit
from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.replication.partition import Partition
from moldau.server.fetch.sessions import FINAL_EPOCH, INITIAL_EPOCH, SESSIONLESS, FetchSessions


class Clock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(clock):
    return FetchSessions(2, 120.0, clock, random.Random(1))


def partition(name="t", index=0):
    disk, key, topic_id = log_kit.Broker(), PartitionKey(name, index), TopicId(b"t" * 16)
    log = disk.manager.open_or_create(key, topic_id, disk.config)
    return Partition(key, topic_id, log, 1)


def test_a_session_is_opened_with_epoch_0_and_goes_on_with_1_2_3(sessions):
    session = sessions.open(SESSIONLESS, INITIAL_EPOCH)
    assert session.id != SESSIONLESS
    for epoch in (1, 2, 3):
        assert sessions.open(session.id, epoch) is session


def test_a_session_nobody_knows_and_a_wrong_epoch_are_told_apart(sessions):
    with pytest.raises(ApiError) as unknown:
        sessions.open(12345, 1)
    assert unknown.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = sessions.open(SESSIONLESS, INITIAL_EPOCH)
    with pytest.raises(ApiError) as wrong:
        sessions.open(session.id, 7)
    assert wrong.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_final_epoch_closes_a_session(sessions):
    session = sessions.open(SESSIONLESS, INITIAL_EPOCH)
    assert not sessions.open(session.id, FINAL_EPOCH).kept
    assert len(sessions) == 0


def test_when_all_slots_are_busy_a_request_is_served_without_a_session(sessions, clock):
    first = sessions.open(SESSIONLESS, INITIAL_EPOCH)
    sessions.open(SESSIONLESS, INITIAL_EPOCH)
    assert not sessions.open(SESSIONLESS, INITIAL_EPOCH).kept
    clock.now = 121.0
    assert sessions.open(SESSIONLESS, INITIAL_EPOCH).kept
    with pytest.raises(ApiError):
        sessions.open(first.id, 1)


def test_only_what_moved_is_ready(sessions):
    session = sessions.open(SESSIONLESS, INITIAL_EPOCH)
    quiet, busy = partition("quiet"), partition("busy")
    for one in (quiet, busy):
        session.attach(session.reader(one.key.topic, 0), one)
    session.ready.clear()
    busy.notify()
    assert [reader.topic for reader in session.ready] == ["busy"]


def test_a_parked_request_is_woken_by_its_partitions_only(sessions):
    session = sessions.open(SESSIONLESS, INITIAL_EPOCH)
    mine, other = partition("mine"), partition("other")
    session.attach(session.reader("mine", 0), mine)
    woken = []
    session.wake = lambda: woken.append(1)
    other.notify()
    assert woken == []
    mine.notify()
    assert woken == [1]


def test_a_forgotten_partition_wakes_nobody(sessions):
    session = sessions.open(SESSIONLESS, INITIAL_EPOCH)
    forgotten = partition()
    session.attach(session.reader("t", 0), forgotten)
    session.forget("t", 0)
    forgotten.notify()
    assert not session.ready


def test_the_largest_session_goes_where_all_remember_too_many_partitions(sessions, monkeypatch):
    async def work():
        monkeypatch.setattr("moldau.server.fetch.sessions.PARTITIONS_OF_SESSIONS", 100)
        small, large = (sessions.open(SESSIONLESS, INITIAL_EPOCH) for _ in range(2))
        for index in range(30):
            small.reader("small", index)
        for epoch in range(1, 4):
            assert sessions.open(large.id, epoch) is large
            for index in range(30):
                large.reader(f"large {epoch}", index)
        assert sessions.open(small.id, 1) is small  # the look that finds too many
        with pytest.raises(ApiError) as gone:
            sessions.open(large.id, 4)
        assert gone.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert sessions.open(small.id, 2) is small

    asyncio.run(work())


def test_partitions_that_sessions_forget_leave_room_for_others(sessions, monkeypatch):
    async def work():
        monkeypatch.setattr("moldau.server.fetch.sessions.PARTITIONS_OF_SESSIONS", 100)
        session = sessions.open(SESSIONLESS, INITIAL_EPOCH)
        for epoch in range(1, 50):
            assert sessions.open(session.id, epoch) is session
            for index in range(90):
                session.reader("t", index)
            for index in range(90):
                session.forget("t", index)
        for _ in range(20):
            session = sessions.open(session.id, INITIAL_EPOCH)
            for index in range(90):
                session.reader("t", index)
        assert sessions.open(session.id, 1) is session
        session.close()
        session.reader("late", 1)
        session.forget("late", 1)
        assert sessions._room.used == 0

    asyncio.run(work())
