"""Voters whose disk is full or damaged, and nodes that are not who they say they are.

A node that cannot trust what it has promised does not start, does not vote, and says in one line
where it is damaged. The others go on without it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_harness.ports import free_port
from kits.kafka_command_kit import ours
from kits.quorum_cluster import QuorumCluster
from moldau.base.clock import system_random
from moldau.base.ids import random_uuid, uuid_text
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from process.cluster_history import traffic_on
from process.mounts import fill, small_volume
from process.raw_client import RawClient
from process.serving import Serving, refused

pytestmark = pytest.mark.long

TOPIC = "events"
SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
FULL = 1
SIZE = 16 << 20
CREATE_VERSION = 5
JOURNAL = f"{0:020d}.log"
PROMISES = "quorum-state"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[QuorumCluster]:
    with QuorumCluster(tmp_path) as running:
        running.create_topic(TOPIC, SPREAD)
        yield running


def start_refused(cluster: QuorumCluster, node_id: int) -> str:
    """Start a node that cannot, in the place of one that has ended; return the line it says."""
    folder = cluster.folder(node_id)
    return refused(folder, "--config", str(folder / "server.properties"))


def test_a_controller_whose_disk_is_full_resigns_and_comes_back_once_there_is_space(tmp_path):
    place = tmp_path / "small"
    own = {FULL: {"metadata.log.dir": str(place / "metadata")}}
    with small_volume(place, SIZE):
        cluster = QuorumCluster(tmp_path, own_settings=own)
        cluster.expected_errors += ["the metadata cannot be written", "No space left"]
        with cluster:
            cluster.create_topic(TOPIC, SPREAD)
            first = cluster.elect(FULL)
            with traffic_on(cluster, TOPIC) as traffic:
                traffic.wait_for_more()
                filler = fill(place)
                # More than fits into the page that the log has begun.
                with RawClient(cluster.address(2)) as client:
                    (told,) = client.call(creation("large", 100), CREATE_VERSION).topics
                assert told.error_code == ErrorCode.REQUEST_TIMED_OUT, told
                second = cluster.wait_for_controller(after=first.epoch, via=2)
                assert second.leader != FULL
                cluster.create_topic("meanwhile", [(2, 3)], via=2, in_sync=False)
                traffic.wait_for_more()
                filler.unlink()
                cluster.wait_in_sync(TOPIC)
                cluster.wait_in_sync("meanwhile")
                traffic.wait_for_more()
            traffic.history.check(cluster)
            told_lines = cluster.output(FULL).splitlines()
            assert len([line for line in told_lines if "cannot be written" in line]) == 1


def creation(name: str, partitions: int) -> CreateTopicsRequest:
    """Ask for a topic without replicas on the broker whose disk is full."""
    where = [CreatableReplicaAssignment(index, [2, 3]) for index in range(partitions)]
    return CreateTopicsRequest([CreatableTopic(name, -1, -1, where)])


def test_a_voter_with_a_damaged_log_names_the_place_and_does_not_start(cluster):
    for number in range(5):
        cluster.create_topic(f"topic-{number}", [(2, 3, 1)])
    victim = cluster.active().leader
    cluster.kill(victim)
    journal = cluster.metadata_folder(victim) / JOURNAL
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 1
    journal.write_bytes(content)
    said = start_refused(cluster, victim)
    assert str(journal) in said
    assert "position" in said
    assert journal.read_bytes() == content
    with traffic_on(cluster, TOPIC) as traffic:
        cluster.create_topic("later", [cluster.others(victim)], via=cluster.others(victim)[0])
        traffic.wait_for_more()
    assert not traffic.history.lost(cluster)


@pytest.mark.parametrize(
    "damage",
    [
        lambda told: told[: len(told) // 2],
        lambda _: b"",
        lambda told: json.dumps({**json.loads(told), "leaderEpoch": -7}).encode(),
        lambda told: json.dumps({**json.loads(told), "data_version": 9}).encode(),
    ],
    ids=["half", "empty", "a forged epoch", "of a later release"],
)
def test_a_voter_that_cannot_read_its_promises_does_not_start(cluster, damage):
    first = cluster.active()
    victim = cluster.others(first.leader)[0]
    cluster.stop(victim)
    promises = cluster.metadata_folder(victim) / PROMISES
    whole = promises.read_bytes()
    promises.write_bytes(damage(whole))
    assert str(promises) in start_refused(cluster, victim)
    assert cluster.active() == first
    promises.write_bytes(whole)
    cluster.start(victim)
    cluster.wait_in_sync(TOPIC)


def test_a_voter_with_an_empty_disk_does_not_vote(cluster):
    """It has forgotten what it promised: somebody has to say that it may begin again."""
    first = cluster.active()
    victim = cluster.others(first.leader)[0]
    cluster.stop(victim)
    shutil.rmtree(cluster.data(victim))
    assert "format" in start_refused(cluster, victim)
    assert cluster.active() == first


def copy_of(cluster: QuorumCluster, node_id: int, folder: Path, cluster_id: str) -> Serving:
    """Return a process, not yet started, with a node's id and voters, and a place of its own."""
    folder.mkdir()
    own = {
        "log.dirs": str(folder / "data"),
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},CONTROLLER://127.0.0.1:{free_port()}",
        "advertised.listeners": "",
        "initial.broker.registration.timeout.ms": "5000",
    }
    file = folder / "server.properties"
    usual = (cluster.folder(node_id) / "server.properties").read_text()
    file.write_text(usual + "".join(f"{key}={value}\n" for key, value in own.items()))
    said = ours("kafka-storage", "format", "-t", cluster_id, "-c", file)
    assert said.status == 0, said
    return Serving(folder, "--config", str(file))


def test_a_node_of_another_cluster_is_kept_out(cluster, tmp_path):
    first = cluster.active()
    other = cluster.others(first.leader)[0]
    cluster.stop(other)
    foreign = copy_of(cluster, other, tmp_path / "foreign", uuid_text(random_uuid(system_random())))
    with ended(foreign.launch()):
        assert foreign.wait() == 1
    told = [line for line in foreign.errors.splitlines() if "belongs to another cluster" in line]
    assert len(told) == 1, foreign.errors
    assert cluster.active() == first
    cluster.start(other)
    cluster.wait_in_sync(TOPIC)


def test_a_second_broker_with_the_id_of_another_is_kept_out(cluster, tmp_path):
    first = cluster.active()
    other = cluster.others(first.leader)[0]
    twin = copy_of(cluster, other, tmp_path / "twin", cluster.cluster_id)
    with ended(twin.launch()):
        assert twin.wait() == 1
    assert f"cannot register broker {other}: DUPLICATE_BROKER_REGISTRATION" in twin.errors
    assert cluster.active() == first
    cluster.wait_in_sync(TOPIC)


@contextmanager
def ended(serving: Serving) -> Iterator[None]:
    """End a process with a block, whatever happens."""
    try:
        yield
    finally:
        serving.kill()
