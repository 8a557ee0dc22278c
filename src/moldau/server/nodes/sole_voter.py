"""What a node that votes alone tells of its quorum: itself, and who observes its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId
from moldau.cluster.image import MetadataImage
from moldau.cluster.metadata_feed import ObserverState
from moldau.cluster.quorum_description import DescribedNode, DescribedReplica, QuorumDescription
from moldau.cluster.raft.voters import NodeId, VoterEndpoint


class SoleVoterState(Protocol):
    """What the metadata store knows of its own log."""

    @property
    def image(self) -> MetadataImage:
        """The metadata; its version is the end of the log."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this node leads."""
        ...

    @property
    def kraft_version(self) -> int:
        """The level of `kraft.version`; from 1 on voters are known by their directory too."""
        ...

    @property
    def metadata_directory_id(self) -> bytes:
        """The id of the directory that holds the log."""
        ...


def describe_sole_voter(
    state: SoleVoterState,
    node_id: BrokerId,
    observers: Sequence[ObserverState],
    endpoints: Sequence[VoterEndpoint],
    now_ms: int,
) -> QuorumDescription:
    """Return the quorum of one; `endpoints` are its own, empty where no other node can join it."""
    end, own = state.image.version, NodeId(node_id)
    directory = state.metadata_directory_id if state.kraft_version else ZERO_TOPIC_ID
    return QuorumDescription(
        node_id,
        state.leader_epoch,
        end,
        [DescribedReplica(own, directory, end, now_ms, now_ms)],
        [
            DescribedReplica(
                NodeId(one.node_id),
                one.directory_id,
                one.end_offset,
                one.last_fetch_ms,
                one.last_caught_up_ms,
            )
            for one in observers
        ],
        [DescribedNode(own, endpoints or _of_broker(state.image, node_id))],
    )


def _of_broker(image: MetadataImage, broker_id: BrokerId) -> list[VoterEndpoint]:
    broker = image.brokers.get(broker_id)
    endpoints = broker.endpoints if broker is not None else ()
    return [VoterEndpoint(one.listener, one.host, one.port) for one in endpoints]
