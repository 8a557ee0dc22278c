"""Requests and answers of the core travel as Kafka's messages, and nonsense is refused whole."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.message_samples import fitted, random_message
from kits.raft_node import CLUSTER, key
from moldau.base.files import FileRegion
from moldau.base.network import Address
from moldau.cluster.journal import METADATA_TOPIC, METADATA_TOPIC_ID
from moldau.cluster.kraft.apis.checks import LISTENER_BYTES_MAX, LISTENERS_MAX
from moldau.cluster.kraft.apis.elections import SUCCESSORS_MAX
from moldau.cluster.kraft.messages import (
    NodeEndpoint,
    answer_message,
    answer_of,
    fetched_records,
    leader_address,
    refusal_message,
    request_message,
    request_of,
)
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.raft import requests as core
from moldau.cluster.raft.log_position import LogEnd
from moldau.cluster.raft.requests import QuorumAnswer
from moldau.cluster.raft.voters import NO_DIRECTORY, NO_NODE, ReplicaKey, Voter, VoterEndpoint
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.compiler import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages import data
from moldau.protocol.messages import raft as wire
from moldau.protocol.registry import api_of
from moldau.storage.epochs import EpochEnd

ENDPOINT = VoterEndpoint("CONTROLLER", "controller-1.example", 9093)
OWN = Voter(key(1), (ENDPOINT,))
LEADER = NodeEndpoint(2, "controller-2.example", 9094)

VOTE = core.VoteRequest(CLUSTER, 5, key(1), key(2), LogEnd(4, 30), is_pre_vote=True)
BEGIN = core.BeginQuorumEpochRequest(CLUSTER, 5, 1, key(2))
END = core.EndQuorumEpochRequest(CLUSTER, 5, 1, (key(3), key(2)))
FETCH = core.FetchRequest(CLUSTER, key(1), 5, LogEnd(4, 30), 25, 0.5)
SNAPSHOT = core.FetchSnapshotRequest(CLUSTER, key(1), 5, SnapshotId(20, 3), 1000)
ADDED = core.AddVoterRequest(CLUSTER, Voter(key(4), (ENDPOINT,)), ack_when_committed=False)
REMOVED = core.RemoveVoterRequest(CLUSTER, key(4))
UPDATED = core.UpdateVoterRequest(CLUSTER, 5, Voter(key(4), (ENDPOINT,)))
SENT = [VOTE, BEGIN, END, FETCH, SNAPSHOT]
"""Requests about the partition of the metadata."""
CHANGES = [ADDED, REMOVED, UPDATED]


def name_of(value):
    return type(value).__name__


def message_of(request):
    return request_message(request, OWN, 1 << 20)


def travelled(message, version):
    """Return a message as the other side of a connection reads it."""
    return decode(type(message), version, encode(message, version))


ADD, REMOVE, UPDATE = map(message_of, CHANGES)
MESSAGES = [*map(message_of, SENT), ADD, REMOVE, UPDATE]


# What can be drawn

epochs = st.integers(0, 2**31 - 1)
offsets = st.integers(1, 2**63 - 2)
nodes = st.integers(0, 2**31 - 1)
directories = st.just(NO_DIRECTORY) | st.binary(min_size=16, max_size=16)
keys = st.builds(ReplicaKey, nodes, directories)
clusters = st.none() | st.text(max_size=30)
log_ends = st.just(LogEnd(-1, 0)) | st.builds(LogEnd, epochs, offsets)
snapshots = st.builds(SnapshotId, st.integers(0, 2**63 - 1), epochs)

votes = st.builds(core.VoteRequest, clusters, epochs, keys, keys, log_ends, st.booleans())
begins = st.builds(core.BeginQuorumEpochRequest, clusters, epochs, nodes, keys)
ends = st.builds(
    core.EndQuorumEpochRequest,
    clusters,
    epochs,
    nodes,
    st.lists(keys, max_size=5, unique_by=lambda one: one.node).map(tuple),
)
fetches = st.builds(
    core.FetchRequest,
    clusters,
    keys,
    epochs,
    log_ends,
    st.integers(-1, 2**63 - 2),
    st.integers(0, 2**31 - 1).map(lambda wait_ms: wait_ms / 1000),
).filter(lambda request: request.last.epoch <= request.epoch)
snapshot_fetches = st.builds(
    core.FetchSnapshotRequest, clusters, keys, epochs, snapshots, st.integers(0, 2**63 - 1)
)
sent = st.one_of(votes, begins, ends, fetches, snapshot_fetches)


def first_version(request):
    """Return the first version of a message that has all that a request says."""
    match request:
        case core.VoteRequest(is_pre_vote=True):
            return 2
        case core.VoteRequest(candidate=candidate, voter=voter):
            return _directories_from(1, candidate, voter)
        case core.BeginQuorumEpochRequest(voter=voter):
            return _directories_from(1, voter)
        case core.EndQuorumEpochRequest(successors=successors):
            return _directories_from(1, *successors)
        case core.FetchRequest(replica=replica, high_watermark=-1):
            return max(12, _directories_from(17, replica))
        case core.FetchRequest():
            return 18
        case _:
            return _directories_from(1, request.replica)


def _directories_from(version, *keys):
    return version if any(one.directory != NO_DIRECTORY for one in keys) else 0


def versions_of(request):
    """Return the versions in which a request can be sent."""
    last = message_of(request).VERSIONS.last
    return range(first_version(request), last + 1)


# Requests


@given(sent)
def test_a_request_survives_in_every_version_that_can_carry_it(request):
    receiver = getattr(request, "voter", key(9)).node
    for version in versions_of(request):
        message = travelled(message_of(request), version)
        assert request_of(message, receiver) == request


@pytest.mark.parametrize("request_", SENT, ids=name_of)
def test_a_request_is_about_the_metadata_in_every_version(request_):
    message = message_of(request_)
    lowest = 12 if isinstance(request_, core.FetchRequest) else 0
    for version in range(lowest, message.VERSIONS.last + 1):
        assert isinstance(request_of(travelled(message, version), 2), type(request_))


def test_a_voter_that_is_not_named_is_whoever_receives_the_request():
    for request in (VOTE, BEGIN):
        read = request_of(travelled(message_of(request), 0), 7)
        assert read.voter == ReplicaKey(7)
        assert request_of(travelled(message_of(request), 1), 7).voter == key(2)


def test_an_empty_log_has_epoch_0_in_messages_as_kafkas_has():
    empty = LogEnd(-1, 0)
    vote, fetch = message_of(replace(VOTE, last=empty)), message_of(replace(FETCH, last=empty))
    assert vote.topics[0].partitions[0].last_offset_epoch == 0
    assert fetch.topics[0].partitions[0].last_fetched_epoch == 0
    assert request_of(vote).last == request_of(fetch).last == empty


def test_a_high_watermark_that_is_not_told_is_none():
    for version in range(12, 18):
        assert request_of(travelled(message_of(FETCH), version)).high_watermark == -1
    untold = travelled(message_of(FETCH), 18)
    untold.topics[0].partitions[0].high_watermark = 2**63 - 1
    assert request_of(untold).high_watermark == -1


def test_no_millisecond_of_a_wait_gets_lost():
    for wait_ms in range(3_000):
        request = replace(FETCH, max_wait_s=wait_ms / 1000)
        assert message_of(request).max_wait_ms == wait_ms


def test_a_leader_says_where_it_is_reached():
    for request in (BEGIN, END):
        listeners = travelled(message_of(request), 1).leader_endpoints
        assert listeners == [wire.RaftListener(*ENDPOINT)]


def test_a_fetch_says_how_much_it_wants():
    assert request_message(FETCH, OWN, 12345).max_bytes == 12345
    assert request_message(SNAPSHOT, OWN, 12345).max_bytes == 12345


def test_successors_are_named_with_and_without_directories():
    assert request_of(travelled(message_of(END), 0)).successors == (ReplicaKey(3), ReplicaKey(2))
    assert request_of(travelled(message_of(END), 1)).successors == (key(3), key(2))


def test_a_tool_asks_for_a_voter():
    for version in (0, 1):
        assert request_of(travelled(ADD, version)) == core.AddVoterRequest(
            CLUSTER, Voter(key(4), (ENDPOINT,)), ack_when_committed=version == 0
        )
    assert request_of(travelled(REMOVE, 0)) == core.RemoveVoterRequest(CLUSTER, key(4))
    assert request_of(travelled(UPDATE, 0)) == core.UpdateVoterRequest(
        CLUSTER, 5, Voter(key(4), (ENDPOINT,), (0, 1))
    )


# Nonsense


def changed(message, **fields):
    """Return a message with other values, in itself, its partition or what the partition has."""
    copied = travelled(message, message.VERSIONS.last)
    places = [copied]
    if hasattr(copied, "topics"):
        places += [copied.topics[0], copied.topics[0].partitions[0]]
    places += [getattr(places[-1], "snapshot_id", places[-1])]
    places += [getattr(copied, "kraft_version_feature", copied)]
    for name, value in fields.items():
        owners = [place for place in places if hasattr(place, name)]
        assert owners, name
        setattr(owners[-1], name, value)
    return copied


NEGATIVE = [
    (VOTE, {"replica_epoch": -1}),
    (VOTE, {"replica_id": -1}),
    (VOTE, {"last_offset_epoch": -1}),
    (VOTE, {"last_offset": -1}),
    (BEGIN, {"leader_epoch": -1}),
    (BEGIN, {"leader_id": -1}),
    (END, {"leader_epoch": -1}),
    (END, {"leader_id": -1}),
    (END, {"preferred_candidates": [wire.PreferredCandidate(-1, NO_DIRECTORY)]}),
    (END, {"preferred_candidates": [], "preferred_successors": [2, -1]}),
    (FETCH, {"replica_state": data.FetchReplicaState(-1)}),
    (FETCH, {"max_wait_ms": -1}),
    (FETCH, {"current_leader_epoch": -1}),
    (FETCH, {"fetch_offset": -1}),
    (FETCH, {"last_fetched_epoch": -1}),
    (FETCH, {"high_watermark": -2}),
    (SNAPSHOT, {"replica_id": -1}),
    (SNAPSHOT, {"current_leader_epoch": -1}),
    (ADD, {"voter_id": -1}),
    (REMOVE, {"voter_id": -1}),
    (UPDATE, {"voter_id": -1}),
    (UPDATE, {"current_leader_epoch": -1}),
    (UPDATE, {"min_supported_version": -1}),
    (UPDATE, {"min_supported_version": 2}),
]
REPEATED = [
    (END, {"preferred_candidates": [wire.PreferredCandidate(2, NO_DIRECTORY)] * 2}),
    (END, {"preferred_candidates": [], "preferred_successors": [2, 2]}),
    *(
        (message, {name: [wire.RaftListener(*ENDPOINT)] * 2})
        for message, name in (
            (BEGIN, "leader_endpoints"),
            (END, "leader_endpoints"),
            (ADD, "listeners"),
            (UPDATE, "listeners"),
        )
    ),
]


def _listeners(count, size=1):
    return [wire.RaftListener(f"{number}", "h" * size, 1) for number in range(count)]


TOO_MANY = [
    (BEGIN, {"leader_endpoints": _listeners(LISTENERS_MAX + 1)}),
    (END, {"leader_endpoints": _listeners(LISTENERS_MAX + 1)}),
    (ADD, {"listeners": _listeners(LISTENERS_MAX + 1)}),
    (UPDATE, {"listeners": _listeners(LISTENERS_MAX + 1)}),
    (ADD, {"listeners": _listeners(1, LISTENER_BYTES_MAX)}),
    (ADD, {"listeners": _listeners(2, LISTENER_BYTES_MAX // 2)}),
    (END, {"preferred_candidates": [], "preferred_successors": list(range(SUCCESSORS_MAX + 1))}),
    (
        END,
        {
            "preferred_candidates": [
                wire.PreferredCandidate(node, NO_DIRECTORY) for node in range(SUCCESSORS_MAX + 1)
            ]
        },
    ),
]
SENSELESS = [
    (FETCH, {"last_fetched_epoch": 6}),
    (ADD, {"voter_directory_id": NO_DIRECTORY}),
    (REMOVE, {"voter_directory_id": NO_DIRECTORY}),
    (UPDATE, {"voter_directory_id": NO_DIRECTORY}),
    (ADD, {"listeners": []}),
    (UPDATE, {"listeners": []}),
    (ADD, {"listeners": [wire.RaftListener("", "host", 1)]}),
    (ADD, {"listeners": [wire.RaftListener("name", "", 1)]}),
    (ADD, {"listeners": [wire.RaftListener("name", "host", 0)]}),
]


def _case(case):
    request, fields = case
    return f"{name_of(request)} {' '.join(fields)}"


@pytest.mark.parametrize("case", [*NEGATIVE, *REPEATED, *TOO_MANY, *SENSELESS], ids=_case)
def test_a_request_that_makes_no_sense_is_refused(case):
    request, fields = case
    message = message_of(request) if request in SENT else request
    assert not isinstance(request_of(changed(message)), ErrorCode)
    assert request_of(changed(message, **fields)) is ErrorCode.INVALID_REQUEST


def test_as_many_listeners_and_successors_as_allowed_are_taken():
    listeners = _listeners(LISTENERS_MAX)
    assert len(request_of(changed(ADD, listeners=listeners)).voter.endpoints) == LISTENERS_MAX
    successors = list(range(SUCCESSORS_MAX))
    end = changed(message_of(END), preferred_candidates=[], preferred_successors=successors)
    assert len(request_of(end).successors) == SUCCESSORS_MAX


def _spoiled_topics(message):
    """Yield messages about something else than the one partition of the metadata."""
    topic_name = next(
        name for name in ("topic_name", "name", "topic") if hasattr(message.topics[0], name)
    )
    index = "partition" if hasattr(message.topics[0].partitions[0], "partition") else None
    whole = changed(message)
    yield changed(message, topics=[])
    yield changed(message, topics=whole.topics * 2)
    yield changed(message, partitions=[])
    yield changed(message, partitions=whole.topics[0].partitions * 2)
    yield changed(message, **{topic_name: "__cluster_metadata2", **_other_id(message)})
    yield changed(message, **{index or "partition_index": 1})
    yield changed(message, **{index or "partition_index": -1})


def _other_id(message):
    return {"topic_id": b"\x02" * 16} if isinstance(message, data.FetchRequest) else {}


@pytest.mark.parametrize("request_", SENT, ids=name_of)
def test_a_request_about_anything_else_is_refused(request_):
    refused = [request_of(message) for message in _spoiled_topics(message_of(request_))]
    other = ErrorCode.INVALID_REQUEST
    if isinstance(request_, core.FetchSnapshotRequest):
        other = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused == [ErrorCode.INVALID_REQUEST] * 4 + [other] * 3


def test_a_snapshot_that_cannot_be_is_the_leaders_to_refuse():
    message = changed(message_of(SNAPSHOT), end_offset=-1, position=-1)
    read = request_of(message)
    assert (read.snapshot, read.position) == (SnapshotId(-1, 3), -1)


def about_the_metadata(message):
    """Put the one partition into a random message, so that the rest of it is looked at."""
    for topics in ("topics", "responses"):
        for topic in getattr(message, topics, [])[:1]:
            setattr(message, topics, [topic])
            topic.partitions = topic.partitions[:1]
            for name in {"topic_name", "name", "topic"} & set(dir(topic)):
                setattr(topic, name, METADATA_TOPIC)
            for partition in topic.partitions:
                for index in {"partition", "partition_index", "index"} & set(dir(partition)):
                    setattr(partition, index, 0)
    return message


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
@given(seed=st.integers(0, 2**32))
def test_whatever_a_request_says_it_is_read_or_refused(message, seed):
    drawn = about_the_metadata(random_message(type(message), random.Random(seed)))
    read = request_of(travelled(fitted(drawn, drawn.VERSIONS.last), drawn.VERSIONS.last), 2)
    assert isinstance(read, core.Request | ErrorCode)


# Answers

errors = st.sampled_from([one for one in ErrorCode if one is not ErrorCode.NONE])
known = st.tuples(epochs, st.just(NO_NODE) | nodes).map(
    lambda told: (told[0], told[1] if told[0] else NO_NODE)
)
records = st.binary(max_size=50)


@st.composite
def answers(draw):
    """Draw a request, an answer that a node may give to it, and the records that go with it."""
    request = draw(sent)
    told = draw(known)
    if draw(st.booleans()):
        return request, request.answer_type(draw(errors), *told), b""
    told = (ErrorCode.NONE, *told)
    match request:
        case core.VoteRequest():
            return request, core.VoteAnswer(*told, draw(st.booleans())), b""
        case core.FetchRequest():
            return request, *draw(fetch_answers(told))
        case core.FetchSnapshotRequest():
            place = draw(snapshots), draw(st.integers(0, 2**63 - 1))
            part = core.FetchSnapshotAnswer(*told, *place, draw(records), draw(offsets))
            return request, part, part.data
        case _:
            return request, request.answer_type(*told), b""


@st.composite
def fetch_answers(draw, told):
    answer = core.FetchAnswer(*told, draw(st.integers(-1, 2**63 - 1)))
    kind = draw(st.sampled_from(["records", "diverging", "snapshot"]))
    if kind == "diverging":
        return replace(answer, diverging=draw(st.builds(EpochEnd, epochs, offsets))), b""
    if kind == "snapshot":
        return replace(answer, snapshot=draw(snapshots)), b""
    return answer, draw(records)


@given(answers())
def test_an_answer_survives_in_every_version(drawn):
    request, answer, content = drawn
    expected = answer
    if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        expected = request.answer_type(answer.error, 0, NO_NODE)
    for version in versions_of(request):
        message = travelled(message_of(request), version)
        response = travelled(answer_message(message, answer, None, content), version)
        assert answer_of(request, response) == expected
        if isinstance(request, core.FetchRequest) and expected.epoch:
            assert fetched_records(response) == content


@pytest.mark.parametrize("version", range(12, 19))
def test_a_fetch_brings_records_or_says_what_stands_in_their_way(version):
    message = travelled(message_of(FETCH), version)
    plain = core.FetchAnswer(ErrorCode.NONE, 6, 2, 25)
    for answer, content in (
        (plain, b"batches"),
        (replace(plain, diverging=EpochEnd(4, 20)), b""),
        (replace(plain, snapshot=SnapshotId(20, 4)), b""),
    ):
        response = travelled(answer_message(message, answer, LEADER, content), version)
        assert answer_of(FETCH, response) == answer
        assert fetched_records(response) == content


@pytest.mark.parametrize("request_", SENT, ids=name_of)
def test_an_answer_says_where_the_leader_is(request_):
    endpoints_from = 16 if isinstance(request_, core.FetchRequest) else 1
    lowest = 12 if isinstance(request_, core.FetchRequest) else 0
    answer = request_.answer_type(ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, 2)
    for version in range(lowest, message_of(request_).VERSIONS.last + 1):
        message = travelled(message_of(request_), version)
        response = travelled(answer_message(message, answer, LEADER), version)
        told = (2, Address(*LEADER[1:])) if version >= endpoints_from else None
        assert leader_address(response) == told
        assert leader_address(travelled(answer_message(message, answer, None), version)) is None
        refusal = travelled(refusal_message(message, ErrorCode.INVALID_REQUEST), version)
        assert leader_address(refusal) is None


def test_a_tools_answer_says_nothing_of_a_leader():
    done = core.VoterChangeAnswer(ErrorCode.NONE, 6, 2)
    assert leader_address(answer_message(ADD, done, LEADER)) is None


def test_the_address_of_another_node_is_not_the_leaders():
    message = message_of(VOTE)
    for leader in (NO_NODE, 3):
        answer = core.VoteAnswer(ErrorCode.NONE, 6, leader)
        assert answer_message(message, answer, LEADER).node_endpoints == []
    response = answer_message(message, core.VoteAnswer(ErrorCode.NONE, 6, 2), LEADER)
    response.node_endpoints = [
        wire.RaftNodeEndpoint(3, "other", 1),
        wire.RaftNodeEndpoint(2, "", 1),
        wire.RaftNodeEndpoint(2, "nowhere", 0),
    ]
    assert leader_address(response) is None
    response.node_endpoints.append(wire.RaftNodeEndpoint(2, "leader", 1))
    assert leader_address(response) == (2, Address("leader", 1))


def test_a_port_beyond_the_last_is_none():
    answer = core.FetchAnswer(ErrorCode.NONE, 6, 2)
    response = answer_message(message_of(FETCH), answer, LEADER)
    response.node_endpoints[0].port = 2**16
    assert leader_address(response) is None


def test_a_voter_that_updates_itself_hears_who_leads():
    told = core.VoterChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, 2)
    response = travelled(answer_message(UPDATE, told, LEADER), 0)
    assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.current_leader == wire.UpdateRaftVoterLeader(2, 6, *LEADER[1:])
    unknown = travelled(answer_message(UPDATE, replace(told, leader=NO_NODE), LEADER), 0)
    assert unknown.current_leader == wire.UpdateRaftVoterLeader(-1, 6)


@pytest.mark.parametrize("message", [ADD, REMOVE], ids=name_of)
def test_a_tool_hears_what_became_of_its_request(message):
    done = core.VoterChangeAnswer(ErrorCode.NONE, 6, 2)
    response = travelled(answer_message(message, done, LEADER), 0)
    assert (response.error_code, response.error_message) == (0, None)
    refused = replace(done, error=ErrorCode.VOTER_NOT_FOUND)
    response = travelled(answer_message(message, refused, LEADER), 0)
    assert response.error_code == ErrorCode.VOTER_NOT_FOUND
    assert response.error_message == ErrorCode.VOTER_NOT_FOUND.text


@pytest.mark.parametrize("request_", CHANGES, ids=name_of)
def test_a_node_hears_what_became_of_its_own_change(request_):
    done = core.VoterChangeAnswer(ErrorCode.NONE, 6, 2)
    heard = answer_of(request_, travelled(answer_message(message_of(request_), done, None), 0))
    told = (6, 2) if request_ is UPDATED else (0, NO_NODE)
    assert heard == core.VoterChangeAnswer(ErrorCode.NONE, *told)


def test_a_fetch_is_answered_with_the_topic_as_it_was_asked_for():
    answer = core.FetchAnswer(ErrorCode.NONE, 6, 2, 25)
    for version in range(12, 19):
        message = travelled(message_of(FETCH), version)
        topic = answer_message(message, answer, None).responses[0]
        is_by_name = version == 12
        assert topic.topic == (METADATA_TOPIC if is_by_name else "")
        assert topic.topic_id == (NO_DIRECTORY if is_by_name else METADATA_TOPIC_ID)


def test_records_go_out_as_regions_of_files():
    region = FileRegion(None, 100, 50)
    fetch = answer_message(
        message_of(FETCH), core.FetchAnswer(ErrorCode.NONE, 6, 2), None, (region,)
    )
    assert fetch.responses[0].partitions[0].records == (region,)
    part = core.FetchSnapshotAnswer(ErrorCode.NONE, 6, 2, SnapshotId(20, 3), 100, size=150)
    piece = answer_message(message_of(SNAPSHOT), part, None, (region,)).topics[0].partitions[0]
    assert piece.unaligned_records == (region,)
    assert (piece.size, piece.position) == (150, 100)


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
def test_another_cluster_hears_nothing_but_that(message):
    error = ErrorCode.INCONSISTENT_CLUSTER_ID
    told = request_of(message, 2).answer_type(error, 6, 2)
    for response in (answer_message(message, told, LEADER), refusal_message(message, error)):
        bare = {"error_code": error}
        if hasattr(response, "error_message"):
            bare["error_message"] = error.text
        assert response == type(response)(**bare)
        assert type(response) is api_of(message).response


@pytest.mark.parametrize("request_", [*SENT, *CHANGES], ids=name_of)
def test_a_refusal_is_the_answers_error(request_):
    refusal = refusal_message(message_of(request_), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answer = answer_of(request_, travelled(refusal, refusal.VERSIONS.last))
    assert answer == request_.answer_type(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0, NO_NODE)
    refusal.error_code = 31_000
    assert answer_of(request_, refusal).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_snapshot_of_another_partition_is_refused_as_by_kafka():
    message = changed(message_of(SNAPSHOT), name="other", partition=3)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = travelled(refusal_message(message, unknown), 1)
    assert response.error_code == 0
    assert response.topics[0].name == "other"
    partition = response.topics[0].partitions[0]
    assert (partition.index, partition.error_code) == (3, unknown)


# Answers that are none


def response_to(request, **fields):
    """Return a sound answer, with other values in its partition."""
    extra = {"data": b"x", "snapshot": SnapshotId(20, 3)}
    is_snapshot = isinstance(request, core.FetchSnapshotRequest)
    answer = request.answer_type(ErrorCode.NONE, 6, 2, **(extra if is_snapshot else {}))
    response = answer_message(message_of(request), answer, None)
    topics = response.responses if isinstance(response, data.FetchResponse) else response.topics
    partition = topics[0].partitions[0]
    for name, value in fields.items():
        owner = getattr(partition, "current_leader", partition)
        setattr(owner if hasattr(owner, name) else partition, name, value)
    return response


@pytest.mark.parametrize("request_", SENT, ids=name_of)
def test_an_answer_names_an_epoch_and_a_leader_or_nobody(request_):
    assert answer_of(request_, response_to(request_)).leader == 2
    for wrong in ({"leader_epoch": -1}, {"leader_epoch": -2}, {"leader_id": -2}):
        with pytest.raises(PeerUnavailable):
            answer_of(request_, response_to(request_, **wrong))


@pytest.mark.parametrize("request_", SENT, ids=name_of)
def test_an_error_of_one_that_knows_nothing_names_nobody(request_):
    response = response_to(request_, error_code=6, leader_epoch=-1, leader_id=-1)
    assert answer_of(request_, response) == request_.answer_type(
        ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, NO_NODE
    )


@pytest.mark.parametrize("request_", SENT, ids=name_of)
def test_nobody_leads_epoch_0(request_):
    response = response_to(request_, error_code=3, leader_epoch=0, leader_id=0)
    assert answer_of(request_, response).leader == NO_NODE


def test_a_vote_is_not_granted_with_an_error():
    response = response_to(VOTE, vote_granted=True, error_code=ErrorCode.INVALID_VOTER_KEY)
    assert not answer_of(VOTE, response).granted


@pytest.mark.parametrize(
    "fields",
    [
        {"diverging_epoch": data.DivergingEpoch(3, -1)},
        {"diverging_epoch": data.DivergingEpoch(-1, 3)},
        {"diverging_epoch": data.DivergingEpoch(-2, -2)},
        {"snapshot_id": data.FetchSnapshotId(3, -1)},
        {"snapshot_id": data.FetchSnapshotId(-1, 3)},
        {"high_watermark": -2},
        {"records": b"x", "snapshot_id": data.FetchSnapshotId(3, 3)},
        {"records": b"x", "diverging_epoch": data.DivergingEpoch(3, 3)},
        {
            "diverging_epoch": data.DivergingEpoch(3, 3),
            "snapshot_id": data.FetchSnapshotId(3, 3),
        },
        {"records": (FileRegion(None, 0, 1),)},
    ],
    ids=str,
)
def test_a_fetch_has_one_sound_answer(fields):
    assert answer_of(FETCH, response_to(FETCH, records=None)).diverging is None
    with pytest.raises(PeerUnavailable):
        answer_of(FETCH, response_to(FETCH, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"size": -1},
        {"position": -1},
        {"snapshot_id": wire.SnapshotId(-1, 3)},
        {"snapshot_id": wire.SnapshotId(20, -1)},
        {"unaligned_records": (FileRegion(None, 0, 1),)},
    ],
    ids=str,
)
def test_a_part_of_a_snapshot_has_its_place(fields):
    with pytest.raises(PeerUnavailable):
        answer_of(SNAPSHOT, response_to(SNAPSHOT, **fields))


@pytest.mark.parametrize("request_", SENT, ids=name_of)
def test_an_answer_to_something_else_is_none(request_):
    for other in SENT:
        if type(other) is not type(request_):
            with pytest.raises(PeerUnavailable):
                answer_of(request_, response_to(other))
    response = response_to(request_)
    topics = "responses" if isinstance(response, data.FetchResponse) else "topics"
    (topic,) = getattr(response, topics)
    for wrong in ([], [topic, topic]):
        setattr(response, topics, wrong)
        with pytest.raises(PeerUnavailable):
            answer_of(request_, response)
        assert leader_address(response) is None
    setattr(response, topics, [topic])
    partition = topic.partitions[0]
    index = "index" if hasattr(partition, "index") else "partition_index"
    setattr(partition, index, 1)
    with pytest.raises(PeerUnavailable):
        answer_of(request_, response)
    setattr(partition, index, 0)
    for wrong in ([], [partition] * 2):
        topic.partitions = wrong
        with pytest.raises(PeerUnavailable):
            answer_of(request_, response)


@pytest.mark.parametrize("request_", SENT, ids=name_of)
@given(seed=st.integers(0, 2**32))
def test_whatever_an_answer_says_it_is_read_or_none(request_, seed):
    declared = type(response_to(request_))
    drawn = about_the_metadata(random_message(declared, random.Random(seed)))
    drawn.error_code = 0
    response = travelled(fitted(drawn, declared.VERSIONS.last), declared.VERSIONS.last)
    leader_address(response)
    try:
        answer = answer_of(request_, response)
    except PeerUnavailable:
        return
    assert isinstance(answer, QuorumAnswer)
    assert type(answer) is request_.answer_type
    assert answer.epoch >= 0
    assert answer.leader >= NO_NODE
