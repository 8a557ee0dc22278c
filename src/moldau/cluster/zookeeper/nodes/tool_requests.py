"""What somebody asks the controller for by writing nodes, as Kafka's tools with --zookeeper do.

These are no changes yet. The controller decides, commits changes, and removes the node that asked.
Brokers that only follow ignore them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from moldau.base.ids import PartitionKey, TopicId
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment


@dataclass(frozen=True, slots=True)
class PartitionsWanted:
    """A topic node has partitions without a state, from this number on: they are new."""

    topic: str
    topic_id: TopicId | None
    """None if the topic is new and has no id yet. The controller draws one."""
    first: int
    assignments: tuple[Assignment, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    """The configs that the tool wants for a new topic. They are committed with the topic, because
    creating it writes its config node."""


@dataclass(frozen=True, slots=True)
class TopicNodeIncomplete:
    """A tool of an older Kafka wrote a topic node without fields that it does not know."""

    topic: str
    topic_id: TopicId | None
    """The id to be restored. None if the topic never had one. Then the controller draws one."""


@dataclass(frozen=True, slots=True)
class DeletionWanted:
    """A topic is to be deleted. It may not exist."""

    topic: str


@dataclass(frozen=True, slots=True)
class ReassignmentWanted:
    """Replicas are to be moved."""

    partitions: tuple[WantedReplicas, ...]


@dataclass(frozen=True, slots=True)
class PreferredElectionWanted:
    """These partitions are to be led by their first replica."""

    partitions: tuple[PartitionKey, ...]


ToolRequest: TypeAlias = (
    PartitionsWanted
    | TopicNodeIncomplete
    | DeletionWanted
    | ReassignmentWanted
    | PreferredElectionWanted
)
