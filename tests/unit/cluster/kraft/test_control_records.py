"""Who leads and who votes: written as Kafka writes it, and read back, whatever stands there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.raft_node import key, voter_set
from kits.sole_voter import KAFKA
from moldau.base.errors import CorruptRecords, InvariantViolated, ProtocolError
from moldau.cluster.kraft.control_records import (
    CONTROL_RECORDS_MAX,
    leader_change_batch,
    snapshot_control,
    voters_batch,
    voters_in,
    voters_of,
)
from moldau.cluster.raft.requests import LeaderChange, VotersChange
from moldau.cluster.raft.voters import VOTERS_BYTES_MAX, ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages import control_records as stored
from moldau.records.batch import crc_ok, iter_batches, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.control import ControlType, control_batch, control_type
from moldau.records.record import read_records

CONTROLLER = VoterEndpoint("CONTROLLER", "controller-1.example", 9093)
THREE = VoterSet(tuple(Voter(key(node), (CONTROLLER,), (0, 1)) for node in (1, 2, 3)))


def first_batch(name, file):
    """Return the batch that begins a file of Kafka's."""
    data = (KAFKA / name / "__cluster_metadata-0" / file).read_bytes()
    return data[: next(iter_batches(data)).size]


def records_of(batch):
    return [(control_type(one.key), one.value, one.offset) for one in read_records(batch)]


def raw_batch(*records, codec=Codec.NONE):
    builder = BatchBuilder(codec, base_offset=5, leader_epoch=2, control=True)
    for kind, value in records:
        builder.append(1_000, b"\0\0\0" + bytes([kind]), value)
    return builder.build()


def value_of(voters):
    return snapshot_control(voters)[1][1]


def test_a_leader_of_static_voters_begins_its_epoch_as_kafkas_does():
    batch = first_batch("static", f"{0:020d}.log")
    header = parse_header(batch)
    sole = (ReplicaKey(1),)
    change = LeaderChange(1, sole, sole)
    assert leader_change_batch(change, 0, header.leader_epoch, header.base_timestamp) == batch


def test_a_leader_states_the_voters_behind_its_change_as_kafkas_does():
    batch = first_batch("dynamic", f"{0:020d}.log")
    header = parse_header(batch)
    voters, offset = voters_in(batch)
    assert [(voter.key.node, voter.kraft_versions) for voter in voters.voters] == [(1, (0, 1))]
    assert voters.voters[0].endpoints[0][:2] == ("CONTROLLER", "127.0.0.1")
    assert offset == 2
    change = LeaderChange(1, voters.keys, voters.keys, voters)
    assert leader_change_batch(change, 0, header.leader_epoch, header.base_timestamp) == batch


def test_a_snapshot_names_the_voters_as_kafkas_does():
    batch = first_batch("dynamic", f"{0:020d}-{0:010d}.checkpoint")
    voters, _ = voters_in(batch)
    assert snapshot_control(voters) == [record[:2] for record in records_of(batch)[1:]]


def test_a_leader_names_all_voters_and_those_that_granted():
    change = LeaderChange(2, THREE.keys, (key(2), key(3)), THREE)
    batch = leader_change_batch(change, 40, 7, 1_234)
    header = parse_header(batch)
    assert (header.base_offset, header.leader_epoch, header.count) == (40, 7, 3)
    assert (header.base_timestamp, header.max_timestamp, header.control) == (1_234, 1_234, True)
    assert crc_ok(batch, 0, len(batch))
    (first, value, _), (second, version, _), (third, named, offset) = records_of(batch)
    assert (first, second, third) == (
        ControlType.LEADER_CHANGE,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    )
    message = decode(stored.LeaderChangeMessage, 0, value)
    assert message.leader_id == 2
    assert [voter.voter_id for voter in message.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in message.granting_voters] == [2, 3]
    assert decode(stored.KRaftVersionRecord, 0, version).kraft_version == 1
    assert voters_in(batch) == (voters_of(named), offset) == (THREE, 42)


def test_another_voter_set_is_a_batch_of_its_own():
    for states_version, count in ((False, 1), (True, 2)):
        change = VotersChange(THREE, states_version)
        batch = voters_batch(change, 17, 4, 1_000)
        header = parse_header(batch)
        assert (header.base_offset, header.leader_epoch, header.count) == (17, 4, count)
        assert change.record_count == count
        assert voters_in(batch) == (THREE, 16 + count)


@pytest.mark.parametrize("count", [1, 3, 200])
@pytest.mark.parametrize("text", ["c", "\u00fc" * 100])
@pytest.mark.parametrize("listeners", [0, 1, 16])
def test_the_record_of_voters_is_never_larger_than_was_reckoned(count, text, listeners):
    places = tuple(VoterEndpoint(f"{text}{index}", text, 65535) for index in range(listeners))
    voters = VoterSet(tuple(Voter(key(node), places) for node in range(1, count + 1)))
    message = stored.VotersRecord(
        voters=[
            stored.Voter(
                one.key.node,
                one.key.directory,
                [stored.VoterEndpoint(*place) for place in one.endpoints],
                stored.VoterVersionFeature(*one.kraft_versions),
            )
            for one in voters.voters
        ]
    )
    size = len(encode(message, 0))
    assert size <= voters.bytes_max <= size + 6 + 7 * count + 5 * count * listeners


def test_a_batch_is_found_where_it_stands():
    data = control_batch(ControlType.LEADER_CHANGE, b"", 0) + voters_batch(
        VotersChange(THREE), 1, 1, 0
    )
    assert voters_in(data) is None
    assert voters_in(data, next(iter_batches(data)).size) == (THREE, 1)


def test_records_of_applications_name_no_voters():
    builder = BatchBuilder(base_offset=5)
    builder.append(0, b"\0\0\0\x06", value_of(THREE))
    assert voters_in(builder.build()) is None


def test_the_last_of_two_sets_in_a_batch_counts():
    one = voter_set(1)
    batch = raw_batch((6, value_of(THREE)), (99, b"of the future"), (6, value_of(one)))
    assert voters_in(batch) == (one, 7)


def test_voters_come_in_the_order_of_their_ids():
    value = value_of(VoterSet(tuple(reversed(THREE.voters))))
    assert voters_of(value) == THREE


@pytest.mark.parametrize(
    "voters",
    [
        [],
        [stored.Voter(1), stored.Voter(1)],
        [stored.Voter(1, bytes(16)), stored.Voter(1, b"another directory"[:16])],
        [stored.Voter(-1)],
        [stored.Voter(1, kraft_version_feature=stored.VoterVersionFeature(1, 0))],
        [stored.Voter(1, kraft_version_feature=stored.VoterVersionFeature(-1, 1))],
    ],
    ids=["none", "twice", "twice with two disks", "negative", "no versions", "negative version"],
)
def test_a_set_that_cannot_be_is_refused(voters):
    with pytest.raises(CorruptRecords):
        voters_of(encode(stored.VotersRecord(voters=voters), 0))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        value_of(THREE)[:-1],
        value_of(THREE) + b"\0",
        b"\0\x01" + value_of(THREE)[2:],
        b"\0\0\xff\xff\xff\xff\x0f",
        bytes(VOTERS_BYTES_MAX + 1),
    ],
)
def test_a_damaged_record_is_refused(value):
    with pytest.raises(CorruptRecords, match="KRAFT_VOTERS"):
        voters_of(value)
    with pytest.raises(CorruptRecords):
        voters_in(raw_batch((6, value)))


def test_a_record_of_more_voters_than_anybody_has_is_not_read():
    hosts = [stored.VoterEndpoint(f"{number}", "h" * 1000, 1) for number in range(70)]
    value = encode(stored.VotersRecord(voters=[stored.Voter(1, endpoints=hosts)]), 0)
    with pytest.raises(CorruptRecords, match=f"{len(value)} bytes"):
        voters_of(value)


def test_a_record_without_a_value_is_refused():
    with pytest.raises(CorruptRecords):
        voters_in(raw_batch((6, None)))


@pytest.mark.parametrize(
    "batch",
    [
        raw_batch(*[(6, value_of(THREE))] * (CONTROL_RECORDS_MAX + 1)),
        raw_batch((2, bytes(3 * VOTERS_BYTES_MAX))),
        raw_batch((2, bytes(3 * VOTERS_BYTES_MAX)), codec=Codec.GZIP),
    ],
    ids=["too many records", "too many bytes", "too many bytes when inflated"],
)
def test_a_control_batch_is_not_read_if_it_is_too_large(batch):
    with pytest.raises(CorruptRecords):
        voters_in(batch)


def test_no_set_is_written_that_nobody_could_read():
    endpoints = tuple(VoterEndpoint(f"{number}", "h" * 100, 1) for number in range(700))
    with pytest.raises(InvariantViolated):
        voters_batch(VotersChange(VoterSet((Voter(key(1), endpoints),))), 0, 1, 0)


texts = st.text(max_size=20)
endpoints = st.builds(VoterEndpoint, texts, texts, st.integers(0, 2**16 - 1))
versions = st.tuples(st.integers(0, 2**15 - 1), st.integers(0, 2**15 - 1)).map(sorted).map(tuple)
voters = st.builds(
    Voter,
    st.builds(ReplicaKey, st.integers(0, 2**31 - 1), st.binary(min_size=16, max_size=16)),
    st.lists(endpoints, max_size=3).map(tuple),
    versions,
)
voter_sets = st.lists(voters, min_size=1, max_size=5, unique_by=lambda one: one.key.node).map(
    lambda found: VoterSet(tuple(sorted(found, key=lambda voter: voter.key)))
)


@given(voter_sets)
def test_voters_survive(voters):
    assert voters_of(value_of(voters)) == voters
    change = LeaderChange(1, voters.keys, (), voters)
    assert voters_in(leader_change_batch(change, 5, 1, 0)) == (voters, 7)


@given(st.data())
def test_whatever_happens_to_a_record_it_is_read_or_refused(data):
    spoiled = bytearray(value_of(THREE))
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = voters_of(bytes(spoiled))
    except CorruptRecords:
        return
    assert voters_of(value_of(read)) == read


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_protocol_error(data):
    try:
        voters_in(raw_batch((6, data)))
        voters_in(data)
    except ProtocolError:
        pass
