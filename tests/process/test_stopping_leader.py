"""A leader is stopped in good order: its writers are told who leads before a record is refused."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from moldau.protocol.errors import ErrorCode
from process.clusters import Cluster
from process.raw_client import RawClient, batch_of

TOPIC = "handed-over"
WITH_LEADERS = 10
"""The version in which answers name leaders."""


def answers_until_stopped(address: tuple[str, int], stop: Future[None]) -> list[tuple[int, int]]:
    """Write record by record, and return the error and the leader that each answer names."""
    answers = []
    with RawClient(address) as client:
        while not stop.done():
            try:
                result = client.produce(TOPIC, batch_of([b"record"]), version=WITH_LEADERS)
            except ConnectionError:
                break
            answers.append((result.error_code, result.current_leader.leader_id))
            time.sleep(0.002)
    return answers


@pytest.mark.parametrize("kind", ["cluster", "on_zookeeper"])
def test_a_writer_is_told_of_the_next_leader_by_a_record_that_this_one_accepts(kind, request):
    cluster: Cluster = request.getfixturevalue(kind)
    leader, *others = reversed(cluster.ids)
    cluster.create_topic(TOPIC, [(leader, *others)])
    with ThreadPoolExecutor(1) as stopping:
        stop = stopping.submit(cluster.stop, leader)
        answers = answers_until_stopped(cluster.address(leader), stop)
        stop.result()
    next_leader = cluster.leader(TOPIC)
    assert next_leader in others
    refused = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), next_leader)
    named = answers.index((0, next_leader))
    # One may have been on its way to the followers when the broker was asked to stop.
    assert answers[:named].count(refused) <= 1
    assert set(answers[:named]) <= {(0, -1), refused}
    assert set(answers[named + 1 :]) <= {refused}
