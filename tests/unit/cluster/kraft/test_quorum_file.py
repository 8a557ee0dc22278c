"""What a node has promised is written as Kafka writes it, and is never taken for something else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.raft_node import key, voter_set
from kits.sole_voter import KAFKA
from moldau.base.errors import StorageError
from moldau.base.files import read_whole
from moldau.base.ids import uuid_text
from moldau.cluster.kraft.quorum_file import read_quorum_state, write_quorum_state
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.voters import ReplicaKey
from moldau.sim.disk import SimDisk
from moldau.sim.world import World

FOLDER = "/data/__cluster_metadata-0"
PATH = f"{FOLDER}/quorum-state"
STATIC = {
    "clusterId": "",
    "leaderId": 2,
    "leaderEpoch": 3,
    "votedId": -1,
    "appliedOffset": 0,
    "currentVoters": [{"voterId": 1}],
    "data_version": 0,
}
DYNAMIC = {
    "leaderId": 2,
    "leaderEpoch": 3,
    "votedId": 1,
    "votedDirectoryId": uuid_text(key(1).directory),
    "data_version": 1,
}


@pytest.fixture
def disk():
    with World(3) as world:
        disk = SimDisk(world.random("disk"))
        disk.make_folder(FOLDER)
        yield disk


def put(disk, content):
    disk.remove(PATH)
    disk.open(PATH, create=True).append([content])


def read(disk, content):
    put(disk, content if isinstance(content, bytes) else json.dumps(content).encode())
    return read_quorum_state(disk, FOLDER)


def written(disk, quorum, voters, kraft_version):
    write_quorum_state(disk, FOLDER, quorum, voters, kraft_version)
    return read_whole(disk, PATH)


def test_without_a_file_nothing_was_promised(disk):
    assert read_quorum_state(disk, FOLDER) == QuorumState()


@pytest.mark.parametrize(
    ("name", "kraft_version"), [("static", 0), ("snapshot", 0), ("dynamic", 1)]
)
def test_a_file_of_kafkas_is_read_and_written_again_byte_for_byte(disk, name, kraft_version):
    content = (KAFKA / name / "__cluster_metadata-0" / "quorum-state").read_bytes()
    quorum = read(disk, content)
    assert quorum == QuorumState(1, 1, None)
    assert written(disk, quorum, voter_set(1), kraft_version) == content


def test_static_voters_are_named_in_their_order(disk):
    quorum = QuorumState(4, -1, ReplicaKey(2))
    assert written(disk, quorum, voter_set(3, 1, 2, is_static=True), 0) == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":4,"votedId":2,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )
    assert read_quorum_state(disk, FOLDER) == quorum


def test_a_vote_is_kept_with_its_directory_where_the_log_names_the_voters(disk):
    quorum = QuorumState(4, 3, key(2))
    assert written(disk, quorum, voter_set(1, 2, 3), 1) == (
        b'{"leaderId":3,"leaderEpoch":4,"votedId":2,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAg",'
        b'"data_version":1}'
    )
    assert read_quorum_state(disk, FOLDER) == quorum


def test_a_promise_survives_a_power_cut(disk):
    write_quorum_state(disk, FOLDER, QuorumState(4, -1, key(2)), voter_set(1, 2), 1)
    disk.sync_folder("/data")
    disk.sync_folder("/")
    assert read_quorum_state(disk.power_cut(), FOLDER) == QuorumState(4, -1, key(2))


@given(
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    st.none()
    | st.builds(ReplicaKey, st.integers(0, 2**31 - 1), st.binary(min_size=16, max_size=16)),
)
def test_a_promise_survives(epoch, leader, voted):
    quorum = QuorumState(epoch, leader, voted)
    with World(3) as world:
        disk = SimDisk(world.random("disk"))
        disk.make_folder(FOLDER)
        write_quorum_state(disk, FOLDER, quorum, voter_set(1, 2), 1)
        assert read_quorum_state(disk, FOLDER) == quorum


def refused(disk, content):
    with pytest.raises(StorageError) as error:
        read(disk, content)
    assert str(error.value).startswith(f"{PATH}: ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("form", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ["leaderId", "leaderEpoch", "votedId", "data_version"])
@pytest.mark.parametrize(
    "value",
    [None, True, False, "1", 1.0, 1e400, 2**31, -2, 10**4000, [1], {}, ["x" * 40_000]],
    ids=lambda value: f"{type(value).__name__} {str(value)[:5]}",
)
def test_a_number_that_is_none_is_refused(disk, form, name, value):
    refused(disk, {**form, name: value})


@pytest.mark.parametrize("name", ["leaderEpoch", "data_version"])
def test_an_epoch_and_a_version_are_not_negative(disk, name):
    refused(disk, {**STATIC, name: -1})


@pytest.mark.parametrize("form", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_no_field_that_counts_may_be_missing(disk, form):
    for name in {"leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version"} & {
        *form
    }:
        refused(disk, {field: value for field, value in form.items() if field != name})


@pytest.mark.parametrize("version", [2, 3, 32767])
def test_a_version_of_the_future_is_refused(disk, version):
    refused(disk, {**DYNAMIC, "data_version": version})


@pytest.mark.parametrize(
    "directory",
    [None, 1, "", "A", "A" * 21, "A" * 23, "A" * 22 + "==", "*" * 22, "A" * 21 + "B", "ä" * 22],
)
def test_a_directory_that_is_none_is_refused(disk, directory):
    refused(disk, {**DYNAMIC, "votedDirectoryId": directory})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 125,
        b"\xff" * 125,
        b"[]",
        b"null",
        b"3",
        b'"leaderEpoch"',
        json.dumps(STATIC).encode()[:-1],
        json.dumps(STATIC).encode() + b"}",
        b"[" * 60_000,
        b'{"leaderEpoch":' * 4_000,
        b'{"leaderEpoch":' + b"9" * 60_000 + b"}",
        b"[" + b"[]," * 30_000 + b"[]]",
        b" " * (64 << 10) + json.dumps(STATIC).encode(),
    ],
    ids=range(14),
)
def test_anything_else_is_refused_with_the_name_of_the_file(disk, content):
    refused(disk, content)


@given(st.data())
def test_whatever_happens_to_the_bytes_they_are_read_or_refused(data):
    spoiled = bytearray(json.dumps(DYNAMIC).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] ^= data.draw(st.integers(1, 255))
    with World(3) as world:
        disk = SimDisk(world.random("disk"))
        disk.make_folder(FOLDER)
        try:
            quorum = read(disk, bytes(spoiled))
        except StorageError:
            return
        assert quorum.epoch >= 0
        assert quorum.leader >= -1
