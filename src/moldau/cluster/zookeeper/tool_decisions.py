"""Decisions on what tools ask for by writing nodes (`nodes/tool_requests`). Pure.

A request is carried out by changes of the image, as any other decision. When they are committed,
the node that asked is removed or brought up to date, by writes of its own. A controller that stops
in between leaves the node, and the next one decides again: each decision may be made twice.

What Kafka's tools ask for is not checked before it is written, and nobody waits for an answer. So
replicas may be on brokers that are down or do not exist. As in Kafka, such a partition exists and
has no leader. What cannot be done is told to the caller, for one line in its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.base.clock import Random
from moldau.base.ids import BrokerId, TopicId, random_uuid
from moldau.base.texts import shorten
from moldau.cluster.changes import ConfigChanged, PartitionCreated, TopicCreated
from moldau.cluster.elections import ElectionAnswer, elect_leaders
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.reassignment import (
    ReassignmentAnswer,
    WantedReplicas,
    alter_reassignments,
    is_under_way,
)
from moldau.cluster.steps import PARTITIONS_PER_STEP, Stepwise
from moldau.cluster.topics import check_new_name, delete_topic, new_partition
from moldau.cluster.zookeeper.client.port import DeleteNode, Operation, SetData
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.commit_writes import leftover_removal
from moldau.cluster.zookeeper.nodes.partition_list_nodes import encode_reassignment
from moldau.cluster.zookeeper.nodes.steps import Steps
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PartitionsWanted,
    PreferredElectionWanted,
    ReassignmentWanted,
    ToolRequest,
    TopicNodeIncomplete,
)
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment
from moldau.cluster.zookeeper.nodes.topic_reading import restored_topic
from moldau.protocol.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What the decisions depend on beside the image and the nodes."""

    random: Random
    """Draws the ids of new topics."""
    deletes_topics: bool = True
    """`delete.topic.enable`. Otherwise a request to delete a topic is only removed."""
    unclean_by_default: bool = False


class RequestOutcome(NamedTuple):
    """What is to be done about a request when its changes are committed."""

    writes: Iterable[Operation | None] = ()
    """Writes that the commit itself does not make, in this order. They may be made as they are
    taken, and only once; None comes where whoever takes them can pause."""
    left: ToolRequest | None = None
    """What is left of the request: moves to be followed, or all of it if it cannot be done now."""
    problems: tuple[str, ...] = ()
    """Why something cannot be done. It is the same each time that the request is decided on."""


DONE: Final = RequestOutcome()

PROBLEMS_TOLD: Final = 10
"""Of one request. A node may name ten thousand partitions."""


def decide_request(
    image: MetadataImage,
    request: ToolRequest,
    nodes: Mapping[str, StoredNode],
    settings: RequestSettings,
) -> Stepwise[RequestOutcome]:
    """Decide on a request.

    `nodes` has the node below /admin that asked, and for a topic all nodes of it that exist. They
    have to be as new as the image, since the writes name their versions. A request that is older
    than the image changes nothing: its node is read again anyway.
    """
    match request:
        case PartitionsWanted():
            return _create_partitions(image, request, settings.random)
        case TopicNodeIncomplete():
            return _restore_node(image, request, nodes, settings.random)
        case DeletionWanted():
            return _delete_topic(image, request, nodes, is_enabled=settings.deletes_topics)
        case ReassignmentWanted():
            return _reassign(image, request, unclean_by_default=settings.unclean_by_default)
        case PreferredElectionWanted():
            return _elect(image, request, nodes)


# Topics


def _create_partitions(
    image: MetadataImage, request: PartitionsWanted, random: Random
) -> Stepwise[RequestOutcome]:
    topic = image.topic(request.topic)
    count = 0 if topic is None else len(topic.partitions)
    if request.first > count or (topic is not None and topic.id != request.topic_id):
        return DONE
    topic_id = request.topic_id or TopicId(random_uuid(random))
    if topic is None:
        try:
            check_new_name(image, request.topic)
        except ApiError as error:
            return RequestOutcome(left=request, problems=(error.message or error.code.name,))
        yield TopicCreated(request.topic, topic_id)
        resource = ConfigResource(ResourceType.TOPIC, request.topic)
        for key, value in request.configs.items():
            yield ConfigChanged(resource, key, value)
    for index, assignment in enumerate(request.assignments, request.first):
        if index < count:
            yield None
        else:
            yield PartitionCreated(topic_id, new_partition(image, index, _replicas(assignment)))
    return DONE


def _replicas(assignment: Assignment) -> tuple[BrokerId, ...]:
    """Return where a new partition is to be. It has nothing to move, so a move is over at once."""
    kept = tuple(one for one in assignment.replicas if one not in assignment.removing)
    return kept or assignment.replicas


def _restore_node(
    image: MetadataImage,
    request: TopicNodeIncomplete,
    nodes: Mapping[str, StoredNode],
    random: Random,
) -> Stepwise[RequestOutcome]:
    yield None
    topic, node = image.topic(request.topic), nodes.get(paths.topic(request.topic))
    topic_id = request.topic_id
    if node is None or (topic is not None and topic.id != topic_id):
        return DONE
    topic_id = topic_id or TopicId(random_uuid(random))
    return RequestOutcome(_one_write(restored_topic(image, request.topic, node, topic_id)))


def _one_write(steps: Steps[Operation]) -> Iterator[Operation | None]:
    yield (yield from steps)


def _delete_topic(
    image: MetadataImage,
    request: DeletionWanted,
    nodes: Mapping[str, StoredNode],
    *,
    is_enabled: bool,
) -> Stepwise[RequestOutcome]:
    mark = paths.delete_topic(request.topic)
    if mark not in nodes:
        return DONE
    if not is_enabled:
        return RequestOutcome((DeleteNode(mark, nodes[mark].version),))
    if image.topic(request.topic) is None:
        return RequestOutcome(leftover_removal(request.topic, nodes))
    yield from delete_topic(image, request.topic)
    return DONE  # The commit of a deletion removes the mark as well.


# Replicas and leaders


def _reassign(
    image: MetadataImage, request: ReassignmentWanted, *, unclean_by_default: bool
) -> Stepwise[RequestOutcome]:
    answers = yield from alter_reassignments(
        image, request.partitions, unclean_by_default=unclean_by_default
    )
    return RequestOutcome(left=request, problems=(yield from _problems(answers)))


def follow_reassignment(
    image: MetadataImage, request: ReassignmentWanted, node: StoredNode
) -> Stepwise[RequestOutcome]:
    """Look how far a reassignment is: after it was decided on, and whenever partitions change.

    `request` is what the node says. It names the moves that are under way, as in Kafka, and is
    removed when all are over. Tools wait for that.
    """
    left = []
    for count, one in enumerate(request.partitions, 1):
        if is_under_way(image, one):
            left.append(one)
        if not count % PARTITIONS_PER_STEP:
            yield None
    path = paths.REASSIGN_PARTITIONS
    if not left:
        return RequestOutcome((DeleteNode(path, node.version),))
    if len(left) == len(request.partitions):
        return RequestOutcome(left=request)
    write = _set_reassignment(left, node.version)
    return RequestOutcome(_one_write(write), ReassignmentWanted(tuple(left)))


def _set_reassignment(left: Sequence[WantedReplicas], version: int) -> Steps[SetData]:
    data = yield from encode_reassignment(left)
    return SetData(paths.REASSIGN_PARTITIONS, data, version)


def _elect(
    image: MetadataImage, request: PreferredElectionWanted, nodes: Mapping[str, StoredNode]
) -> Stepwise[RequestOutcome]:
    wanted: dict[str, list[int]] = {}
    for count, key in enumerate(request.partitions, 1):
        wanted.setdefault(key.topic, []).append(key.partition)
        if not count % PARTITIONS_PER_STEP:
            yield None
    answers = yield from elect_leaders(image, wanted, preferred=True)
    path = paths.PREFERRED_REPLICA_ELECTION
    writes = (DeleteNode(path, nodes[path].version),) if path in nodes else ()
    return RequestOutcome(writes, problems=(yield from _problems(answers)))


def _problems(
    answers: Sequence[ReassignmentAnswer | ElectionAnswer],
) -> Stepwise[tuple[str, ...]]:
    """Say what was refused, in a few lines."""
    expected = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    told: list[str] = []
    more = 0
    for count, one in enumerate(answers, 1):
        if one.error not in expected:
            if len(told) < PROBLEMS_TOLD:
                told.append(f"{shorten(one.topic)}-{one.index}: {one.message or one.error.name}")
            else:
                more += 1
        if not count % PARTITIONS_PER_STEP:
            yield None
    return (*told, f"and {more} more") if more else tuple(told)
