"""Trying again: on virtual time, with a cluster that only counts what is asked of it."""

from __future__ import annotations

import asyncio
import random

import pytest

from moldau.client.errors import (
    ConnectionLost,
    CorruptAnswer,
    NotCoordinator,
    RequestTimedOut,
    TopicAuthorizationFailed,
    broker_error,
)
from moldau.engine.coordinator_lookup import CoordinatorKind
from moldau.engine.ports import ClientPorts
from moldau.engine.retry import raise_for, read_or_lost, retried
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.sim.world import World

GROUP = (CoordinatorKind.GROUP, "g")


class Counting:
    """What `retried` needs of a cluster."""

    def __init__(self, world):
        self.settings = ConnectionSettings()
        self.ports = ClientPorts(None, world.clock, random.Random(1))
        self.trouble = None
        self.refreshes = 0
        self.forgotten = []

    def request_refresh(self):
        self.refreshes += 1

    def forget_coordinator(self, kind, key, broker_id=None):
        self.forgotten.append((kind, key))


def attempts(*outcomes):
    """Make an attempt that has these outcomes one after the other."""
    left = list(outcomes)

    async def attempt():
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return attempt


def run(scenario):
    with World(1) as world:
        return world.run(scenario(Counting(world), world.clock))


def test_passing_failures_are_tried_again_and_ask_for_what_they_need():
    async def scenario(cluster, clock):
        began = clock.monotonic()
        attempt = attempts(
            broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            broker_error(ErrorCode.NOT_COORDINATOR),
            ConnectionLost("gone"),
            broker_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            "done",
        )
        assert await retried(cluster, attempt, began + 60, coordinator=GROUP) == "done"
        assert cluster.refreshes == 2
        assert cluster.forgotten == [GROUP] * 2
        assert 0.8 * 1.5 <= clock.monotonic() - began <= 1.2 * 1.5

    run(scenario)


def test_what_does_not_pass_is_raised_at_once():
    async def scenario(cluster, clock):
        attempt = attempts(broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "never")
        with pytest.raises(TopicAuthorizationFailed):
            await retried(cluster, attempt, clock.monotonic() + 60)
        with pytest.raises(ZeroDivisionError):
            await retried(cluster, attempts(ZeroDivisionError()), clock.monotonic() + 60)
        with pytest.raises(TimeoutError):
            await retried(cluster, attempts(TimeoutError()), clock.monotonic() + 60)

    run(scenario)


def test_the_last_failure_is_raised_when_no_time_is_left_for_another_attempt():
    async def scenario(cluster, clock):
        failures = [broker_error(ErrorCode.NOT_COORDINATOR) for _ in range(100)]
        deadline = clock.monotonic() + 5
        with pytest.raises(NotCoordinator):
            await retried(cluster, attempts(*failures), deadline)
        assert clock.monotonic() <= deadline

    run(scenario)


def test_an_attempt_under_way_at_the_deadline_is_cancelled():
    async def scenario(cluster, clock):
        cancelled = asyncio.Event()

        async def endless():
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        deadline = clock.monotonic() + 5
        with pytest.raises(RequestTimedOut):
            await retried(cluster, endless, deadline)
        assert cancelled.is_set()
        assert clock.monotonic() == pytest.approx(deadline)

    run(scenario)


def test_who_waits_for_metadata_in_vain_learns_why_there_is_none():
    async def scenario(cluster, clock):
        cluster.trouble = ConnectionLost("no broker could be reached")
        with pytest.raises(RequestTimedOut, match="no broker could be reached"):
            await retried(cluster, asyncio.Event().wait, clock.monotonic() + 5)

    run(scenario)


def test_an_error_code_of_none_raises_nothing():
    raise_for(ErrorCode.NONE)
    with pytest.raises(NotCoordinator, match="said so"):
        raise_for(16, "said so")


def test_an_answer_that_cannot_be_read_is_asked_for_again_where_that_is_harmless():
    async def scenario(cluster, clock):
        answer = attempts(CorruptAnswer("not the protocol"), 7)
        deadline = clock.monotonic() + 10
        assert await retried(cluster, lambda: read_or_lost(answer()), deadline) == 7
        with pytest.raises(CorruptAnswer):
            await retried(cluster, attempts(CorruptAnswer("not the protocol"), 7), deadline)

    run(scenario)
