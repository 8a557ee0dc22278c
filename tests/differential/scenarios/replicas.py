"""Reassignments, elections and the metadata quorum of one broker."""

from __future__ import annotations

from typing import Any

from differential.peer import Peer
from moldau.protocol.messages.metadata import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from moldau.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)

ME, STRANGER = 1, 9
PREFERRED, UNCLEAN = 0, 1


def reassignments(peer: Peer) -> None:
    topic = peer.topic("t", 2)
    for what, replicas in {
        "where it is": [ME],
        "a stranger": [STRANGER],
        "one more": [ME, STRANGER],
        "nowhere": [],
        "twice the same": [ME, ME],
        "a negative id": [-1],
        "cancel": None,
    }.items():
        _reassign(peer, what, (topic, [(0, replicas)]))
        _reassign(peer, f"of the same number: {what}", (topic, [(0, replicas)]), grow=False)
    _reassign(peer, "no topic")
    _reassign(peer, "unknown topic", ("nowhere", [(0, [ME])]))
    _reassign(peer, "cancel unknown", ("nowhere", [(0, None)]))
    _reassign(peer, "no name", ("", [(0, [ME])]))
    _reassign(peer, "unknown partition", (topic, [(7, [ME]), (-1, [ME]), (0, [ME])]))
    _reassign(peer, "no partition", (topic, []))
    _reassign(peer, "one partition twice", (topic, [(0, [ME]), (0, None), (1, [ME])]))
    _reassign(peer, "one topic twice", (topic, [(0, [ME])]), (topic, [(0, [STRANGER])]))
    for label, topics in {
        "all": None,
        "none": [],
        "some": [(topic, [0, 1, 7]), ("nowhere", [0])],
        "repeats": [(topic, [0, 0]), (topic, [0])],
    }.items():
        asked = topics and [ListPartitionReassignmentsTopics(*one) for one in topics]
        peer.ask_all(f"list {label}", ListPartitionReassignmentsRequest(topics=asked))


def _reassign(peer: Peer, what: str, *topics: Any, grow: bool = True) -> None:
    asked = [
        ReassignableTopic(name, [ReassignablePartition(*one) for one in partitions])
        for name, partitions in topics
    ]
    request = AlterPartitionReassignmentsRequest(allow_replication_factor_change=grow, topics=asked)
    peer.ask_all(what, request, 0 if grow else 1)


def elections(peer: Peer) -> None:
    topic = peer.topic("t", 2)
    for kind in (PREFERRED, UNCLEAN, 2):
        for what, topics in {
            "one": [(topic, [0])],
            "two": [(topic, [0, 1])],
            "unknown": [("nowhere", [0]), (topic, [7, -1, 0])],
            "no name": [("", [0])],
            "none": [],
            "no partition": [(topic, [])],
            "repeats": [(topic, [0, 0]), (topic, [0])],
        }.items():
            asked = [ElectLeadersTopic(*one) for one in topics]
            request = ElectLeadersRequest(kind, asked)
            peer.ask_all(f"{kind} {what}", request, 1 if kind else 0)
    for kind in (PREFERRED, UNCLEAN):
        for version in peer.versions(ElectLeadersRequest, 1 if kind else 0):
            answer = peer.call(ElectLeadersRequest(kind, None), version)
            found = {one.topic: one for one in answer.replica_election_results}
            peer.note(f"{kind} all v{version}", [answer.error_code, found[topic].partition_result])


def quorum(peer: Peer) -> None:
    metadata = "__cluster_metadata"
    for what, topics in {
        "the metadata": [(metadata, [0])],
        "another partition": [(metadata, [1])],
        "two partitions": [(metadata, [0, 1])],
        "another topic": [("t", [0])],
        "no topic": [],
        "no partition": [(metadata, [])],
        "twice": [(metadata, [0]), (metadata, [0])],
        "one twice": [(metadata, [0, 0])],
    }.items():
        asked = [
            DescribeQuorumTopic(name, [DescribeQuorumPartition(one) for one in partitions])
            for name, partitions in topics
        ]
        for version in peer.versions(DescribeQuorumRequest):
            answer = peer.call(DescribeQuorumRequest(asked), version)
            _check_positions(answer)
            answer.nodes = [bool(node.listeners) for node in answer.nodes]
            peer.note_answer(f"{what} v{version}", answer)


def _check_positions(answer: Any) -> None:
    """Replace what every broker has in its own numbers by whether it makes sense."""
    for topic in answer.topics:
        for one in topic.partitions:
            one.leader_epoch = one.leader_epoch > 0
            one.high_watermark = one.high_watermark > 0
            for voter in one.current_voters:
                voter.log_end_offset = voter.log_end_offset > 0
                voter.last_fetch_timestamp = voter.last_fetch_timestamp > 0
                voter.last_caught_up_timestamp = voter.last_caught_up_timestamp > 0


SCENARIOS = (reassignments, elections, quorum)
