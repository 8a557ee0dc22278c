"""What acks, the ISR, idempotence and leader epochs are each good for, shown on three brokers.

A record that only its leader has is lost with it; one that followers have is repeated by a producer
that heard nothing, unless the broker can tell. And the two accidents of KIP-101, each with the rule
that prevents it, and with that rule switched off. The switch is a module that only this test puts
into the brokers' processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import InitProducerIdRequest
from process.clusters import SHORT_SESSION, VOTER, Cluster
from process.links import Links, broker
from process.raw_client import RawClient, batch_of, produce_request

LEADER, FOLLOWER = 2, 3
ACKS_ALL, ACKS_LEADER = -1, 1
TOPIC = "events"
MIN_ISR_1 = {"min.insync.replicas": "1"}

LONGER_SESSION = {**SHORT_SESSION, "broker.session.timeout.ms": "6000"}
"""Long enough that a broker is paused and resumed within it."""

_PRODUCE_VERSION = 9


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, settings=LONGER_SESSION) as running:
        yield running


def produce(cluster: Cluster, broker_id: int, value: bytes, acks: int = ACKS_ALL) -> ErrorCode:
    with RawClient(cluster.address(broker_id)) as client:
        return ErrorCode(client.produce(TOPIC, batch_of([value]), acks=acks).error_code)


def produced(cluster: Cluster, broker_id: int, value: bytes, acks: int = ACKS_ALL) -> None:
    """Write a record as soon as the broker knows that it leads."""
    eventually(
        lambda: produce(cluster, broker_id, value, acks) is ErrorCode.NONE, f"{value!r} is written"
    )


def values(cluster: Cluster) -> list[bytes | None]:
    with RawClient(cluster.address(cluster.leader(TOPIC))) as client:
        return [record.value for record in client.read_all(TOPIC)]


def stored_on(cluster: Cluster, broker_id: int, value: bytes) -> None:
    """Wait until a broker has a record in its file."""
    eventually(
        lambda: value in cluster.log_bytes(broker_id, TOPIC, 0), f"{value!r} is on {broker_id}"
    )


# What is acknowledged, and by whom


@pytest.mark.long
def test_a_record_that_only_the_leader_has_is_lost_with_it_after_acks_1(patient):
    patient.create_topic(TOPIC, [(LEADER, FOLLOWER)], MIN_ISR_1)
    produced(patient, LEADER, b"kept")
    stored_on(patient, FOLLOWER, b"kept")
    patient.pause(FOLLOWER)
    # The fetch that is held at the leader takes this one along.
    produced(patient, LEADER, b"on its way", ACKS_LEADER)
    produced(patient, LEADER, b"lost", ACKS_LEADER)
    patient.kill(LEADER)
    patient.resume(FOLLOWER)
    patient.wait_for_leaders(TOPIC, {FOLLOWER})
    produced(patient, FOLLOWER, b"next")
    patient.start(LEADER)
    patient.check_replicas_equal(TOPIC)
    found = values(patient)
    assert b"lost" not in found
    assert found[0] == b"kept"
    assert found[-1] == b"next"


def test_acks_all_is_refused_while_too_few_are_in_sync(cluster):
    cluster.create_topic(TOPIC, [(LEADER, FOLLOWER)])
    cluster.pause(FOLLOWER)
    with RawClient(cluster.address(LEADER)) as client:
        request = produce_request(TOPIC, batch_of([b"appended"]))
        (answer,) = client.call(request, _PRODUCE_VERSION).responses
    (result,) = answer.partition_responses
    assert result.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert cluster.describe(TOPIC, LEADER)[0].isr == (LEADER,)
    assert produce(cluster, LEADER, b"refused") is ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(cluster, LEADER, b"unsafe", ACKS_LEADER) is ErrorCode.NONE
    assert values(cluster) == []  # Nobody reads what is not committed.
    cluster.resume(FOLLOWER)
    produced(cluster, LEADER, b"safe")
    assert values(cluster) == [b"appended", b"unsafe", b"safe"]
    cluster.check_replicas_equal(TOPIC)


@pytest.mark.long
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_a_leader_that_dies_before_its_answer_makes_a_plain_producer_repeat(patient, idempotent):
    patient.create_topic(TOPIC, [(LEADER, VOTER, FOLLOWER)])
    producer = (-1, -1, -1)
    with RawClient(patient.address(LEADER)) as client:
        if idempotent:
            told = client.call(InitProducerIdRequest(None, 0), 1)
            producer = (told.producer_id, told.producer_epoch, 0)
        batch = batch_of([b"once?"], producer=producer)
        patient.pause(FOLLOWER)
        client.send(produce_request(TOPIC, batch), _PRODUCE_VERSION)
        stored_on(patient, VOTER, b"once?")
        patient.kill(LEADER)
        assert client.was_closed()
    patient.resume(FOLLOWER)
    patient.wait_for_leaders(TOPIC, {VOTER})
    with RawClient(patient.address(VOTER)) as client:
        answer = eventually(
            lambda: [one for one in [client.produce(TOPIC, batch)] if not one.error_code],
            "the producer's second try",
        )[0]
    assert answer.base_offset == (0 if idempotent else 1)
    assert values(patient) == [b"once?"] * (1 if idempotent else 2)
    patient.start(LEADER)
    patient.check_replicas_equal(TOPIC)


# The accidents of KIP-101

NO_EPOCHS = """
from moldau.replication import truncation
truncation.diverging = lambda *_: None
"""
CUT_AT_HIGH_WATERMARK = """
from moldau.replication.partition import Partition
follow = Partition.become_follower
def become_follower(self, role):
    follow(self, role)
    if self.log.truncate_to(self.high_watermark):
        self._was_cut()
Partition.become_follower = become_follower
"""
"""What followers did before leader epochs."""
KEEP_ISR = """
from moldau.cluster import brokers
from moldau.cluster.partition_update import PartitionTarget
def departure(_, partition, broker_id, *, may_lack_records):
    return PartitionTarget() if partition.leader == broker_id else None
assert callable(brokers.departure)
brokers.departure = departure
"""
"""A broker that goes, or returns, is replaced as a leader, and stays in every ISR."""
NO_CHECKPOINTS = {"log.flush.offset.checkpoint.interval.ms": "3600000"}
"""A broker that was killed knows no high watermark of its own, as early in its life."""


def with_module(directory: Path, source: str) -> dict[str, str]:
    """Return the environment of brokers that run a module of the test before they start."""
    folder = directory / "injected"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source)
    return {"PYTHONPATH": str(folder)}


def stored_values(cluster: Cluster, broker_id: int, candidates: Sequence[bytes]) -> list[bytes]:
    log = cluster.log_bytes(broker_id, TOPIC, 0)
    return [value for value in candidates if value in log]


@pytest.mark.long
def test_a_broker_that_restarts_keeps_what_is_above_its_late_high_watermark(tmp_path):
    """The first accident, in the order that the controller's rules leave: A dies before B restarts.

    A broker that restarts while its leader lives leaves the ISR, and must catch up first.
    """
    with Cluster(tmp_path, settings={**SHORT_SESSION, **NO_CHECKPOINTS}) as cluster:
        cluster.create_topic(TOPIC, [(LEADER, FOLLOWER)], MIN_ISR_1)
        produced(cluster, LEADER, b"m1")
        produced(cluster, LEADER, b"m2")
        cluster.kill(LEADER)
        cluster.wait_for_leaders(TOPIC, {FOLLOWER})
        cluster.kill(FOLLOWER)
        cluster.start(FOLLOWER)
        cluster.wait_for_leaders(TOPIC, {FOLLOWER})
        assert values(cluster) == [b"m1", b"m2"]
        cluster.start(LEADER)
        cluster.check_replicas_equal(TOPIC)


@pytest.mark.long
@pytest.mark.patches
@pytest.mark.parametrize("source", ["", CUT_AT_HIGH_WATERMARK], ids=["epochs", "none"])
def test_a_follower_that_restarts_and_leads_has_what_its_leader_had_committed(tmp_path, source):
    """The first accident as KIP-101 tells it: B restarts, then A dies before B has fetched.

    The controller is kept from taking B out of the ISR, and B's network to A is cut.
    """
    environ = with_module(tmp_path, KEEP_ISR + source)
    settings = {
        **SHORT_SESSION,
        **NO_CHECKPOINTS,
        "broker.session.timeout.ms": "15000",  # B restarts within it, on a slow machine too
        "replica.lag.time.max.ms": "600000",
    }
    with (
        Links() as links,
        Cluster(tmp_path, settings=settings, environ=environ, links=links) as cluster,
    ):
        cluster.create_topic(TOPIC, [(LEADER, FOLLOWER)], MIN_ISR_1)
        produced(cluster, LEADER, b"m1")
        produced(cluster, LEADER, b"m2")
        cluster.kill(FOLLOWER)
        checkpoint = cluster.data(FOLLOWER) / "replication-offset-checkpoint"
        checkpoint.write_text(f"0\n1\n{TOPIC} 0 1\n")
        links.cut(broker(FOLLOWER), broker(LEADER))
        cluster.start(FOLLOWER)
        assert cluster.describe(TOPIC, FOLLOWER)[0].isr == (LEADER, FOLLOWER)
        cluster.kill(LEADER)
        cluster.wait_for_leaders(TOPIC, {FOLLOWER})
        links.heal()
        cluster.start(LEADER)
        produced(cluster, FOLLOWER, b"m3")
        cluster.check_replicas_equal(TOPIC)
        assert values(cluster) == ([b"m1", b"m3"] if source else [b"m1", b"m2", b"m3"])


@pytest.mark.long
@pytest.mark.patches
@pytest.mark.parametrize("source", ["", NO_EPOCHS], ids=["epochs", "none"])
def test_a_leader_that_returns_with_another_record_truncates_it(tmp_path, source):
    """The second accident: B has lost its copy of m2 and leads; A returns with m2 in m3's place."""
    environ = with_module(tmp_path, source)
    with Cluster(tmp_path, environ=environ) as cluster:
        cluster.create_topic(TOPIC, [(LEADER, FOLLOWER)], MIN_ISR_1)
        produced(cluster, LEADER, b"m1")
        stored_on(cluster, FOLLOWER, b"m1")
        size = len(cluster.log_bytes(FOLLOWER, TOPIC, 0))
        produced(cluster, LEADER, b"m2")
        cluster.kill(LEADER)
        cluster.wait_for_leaders(TOPIC, {FOLLOWER})
        cluster.kill(FOLLOWER)
        (log,) = (cluster.data(FOLLOWER) / f"{TOPIC}-0").glob("*.log")
        os.truncate(log, size)
        cluster.start(FOLLOWER)
        produced(cluster, FOLLOWER, b"m3")
        cluster.start(LEADER)
        cluster.wait_in_sync(TOPIC)
        if source:
            assert stored_values(cluster, LEADER, [b"m1", b"m2", b"m3"]) == [b"m1", b"m2"]
            assert stored_values(cluster, FOLLOWER, [b"m1", b"m2", b"m3"]) == [b"m1", b"m3"]
        else:
            cluster.check_replicas_equal(TOPIC)
            assert values(cluster) == [b"m1", b"m3"]
