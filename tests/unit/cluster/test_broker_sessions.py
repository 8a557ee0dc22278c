"""Sessions: kept up by heartbeats, over one by one, begun anew by a new controller."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import with_brokers
from moldau.cluster.broker_sessions import BrokerSessions, SessionKey

FIRST, SECOND, THIRD = SessionKey(1, 10), SessionKey(2, 20), SessionKey(3, 30)


@pytest.fixture
def sessions():
    made = BrokerSessions(9.0)
    made.contact(FIRST, 100, 0.0)
    made.contact(SECOND, 200, 1.0)
    return made


def test_a_session_is_valid_up_to_its_time_and_no_longer(sessions):
    assert sessions.is_valid(FIRST, 9.0)
    assert not sessions.is_valid(FIRST, 9.1)
    assert not sessions.is_valid(SessionKey(1, 11), 0.0)
    assert not sessions.is_valid(THIRD, 0.0)
    sessions.contact(FIRST, 100, 5.0)
    assert sessions.is_valid(FIRST, 14.0)


def test_sessions_end_one_at_a_time_the_oldest_first(sessions):
    assert sessions.take_overdue(9.0) is None
    assert sessions.take_overdue(9.5) == FIRST
    assert sessions.take_overdue(9.5) is None
    sessions.contact(THIRD, 0, 0.5)
    assert [sessions.take_overdue(99.0) for _ in range(3)] == [THIRD, SECOND, None]


def test_a_new_controller_has_just_heard_of_all_that_are_in_service():
    image = with_brokers([1, 2])
    fenced = replace(image.brokers[2], fenced=True)
    sessions = BrokerSessions(9.0)
    sessions.contact(FIRST, 0, 0.0)
    sessions.restart([image.brokers[1], fenced], 50.0)
    assert not sessions.is_valid(FIRST, 0.0)
    assert sessions.is_valid(SessionKey(1, image.brokers[1].epoch), 59.0)
    assert not sessions.is_valid(SessionKey(2, fenced.epoch), 50.0)


def test_a_shutdown_is_seen_when_all_active_brokers_have_read_it(sessions):
    image = with_brokers([4, 5])
    active = image.active_brokers()
    keys = [SessionKey(broker.id, broker.epoch) for broker in active]
    assert not sessions.is_shutdown_seen(FIRST, [])
    sessions.begin_shutdown(FIRST, 300)
    sessions.begin_shutdown(FIRST, 900)
    assert sessions.is_shutdown_seen(FIRST, [])
    assert not sessions.is_shutdown_seen(FIRST, active)
    sessions.contact(keys[0], 300, 0.0)
    sessions.contact(keys[1], 299, 0.0)
    assert not sessions.is_shutdown_seen(FIRST, active)
    sessions.contact(keys[1], 300, 0.0)
    assert sessions.is_shutdown_seen(FIRST, active)
    sessions.end_shutdown(FIRST)
    assert not sessions.is_shutdown_seen(FIRST, active)
