"""How much one request of a controller says at most.

A request is encoded, decoded and checked in one turn of the event loop. So a large update comes in
pieces, each of which takes one or two milliseconds. A weight of one is the work of a partition with
three replicas, or of a short config. The sender ends a piece when it is heavy enough; the receiver
refuses what is much heavier, before it does the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.protocol.messages.replication import (
    UpdateMetadataBroker,
    UpdateMetadataConfigResource,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

PIECE_WEIGHT: Final = 200
"""A piece of this weight is complete."""

PIECE_WEIGHT_MAX: Final = 500
"""A piece of more is refused. One statement may be heavy, and other releases may send more."""

_IDS_PER_WEIGHT: Final = 16
_BYTES_PER_WEIGHT: Final = 16_384


def partition_weight(state: UpdateMetadataPartitionState) -> int:
    """Return the weight of a partition."""
    ids = (
        len(state.replicas)
        + len(state.isr)
        + len(state.adding_replicas)
        + len(state.removing_replicas)
        + len(state.eligible_leaders)
        + len(state.last_known_leaders)
    )
    return 1 + ids // _IDS_PER_WEIGHT


def broker_weight(broker: UpdateMetadataBroker) -> int:
    """Return the weight of a broker."""
    return 1 + len(broker.endpoints) + len(broker.features)


def config_weight(value: bytes | None) -> int:
    """Return the weight of a config with this value."""
    return 1 + len(value or b"") // _BYTES_PER_WEIGHT


def request_weight(request: UpdateMetadataRequest) -> int:
    """Return the weight of a request; of one that is too heavy, at least what is too much."""
    weight = (
        len(request.topic_states)
        + len(request.live_brokers)
        + len(request.removed_topics)
        + len(request.removed_brokers)
        + len(request.configs)
        + len(request.features)
    )
    for part in _parts(request):
        if weight > PIECE_WEIGHT_MAX:
            break
        weight += part
    return weight


def _parts(request: UpdateMetadataRequest) -> Iterable[int]:
    """Return the weights of everything that is not one statement."""
    for topic in request.topic_states:
        yield len(topic.partition_states)
        yield from (partition_weight(state) - 1 for state in topic.partition_states)
    yield from (broker_weight(broker) - 1 for broker in request.live_brokers)
    for resource in request.configs:
        yield from _entries(resource)


def _entries(resource: UpdateMetadataConfigResource) -> Iterable[int]:
    yield len(resource.entries)
    yield from (config_weight(entry.value) - 1 for entry in resource.entries)
