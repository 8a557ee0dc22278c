"""Which config nodes belong to resources of the metadata image.

Topics and brokers have their configs in both. Client metrics and groups have them in nodes that
Kafka's tree does not know. Quotas and credentials of users, clients and addresses are not in the
image (`tree_image`).

Kafka checks configs before it writes them, but zookeeper-shell does not. One that the controller
itself reads as a number must not make its decisions fail, so it is left out if it is none. The
others are checked where they are used.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.base.checks import invariant
from moldau.cluster.configs import MIN_INSYNC_REPLICAS
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.zookeeper.nodes.config_nodes import (
    BROKERS,
    CLIENT_METRICS,
    GROUPS,
    TOPICS,
    ConfigEntity,
    config_entity,
    config_path,
    decode_config,
)
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode, printable
from moldau.cluster.zookeeper.nodes.steps import Steps

_TYPES: Final[dict[int, str]] = {
    ResourceType.TOPIC: TOPICS,
    ResourceType.BROKER: BROKERS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS,
    ResourceType.GROUP: GROUPS,
}
_RESOURCE_TYPES: Final = {entity_type: number for number, entity_type in _TYPES.items()}

_WHOLE_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")


def entity_of(resource: ConfigResource) -> ConfigEntity:
    """Return the entity that has the configs of a resource."""
    invariant(resource.type in _TYPES, f"configs of type {resource.type} are not stored")
    every_broker = resource.type == ResourceType.BROKER and not resource.name
    return ConfigEntity(_TYPES[resource.type], None if every_broker else resource.name)


def resource_at(path: str) -> ConfigResource | None:
    """Return the resource whose node this is; None if the image has none for it."""
    entity = config_entity(path)
    if entity is None or entity.clients or entity.type not in _RESOURCE_TYPES:
        return None
    resource_type = _RESOURCE_TYPES[entity.type]
    if entity.name is None:
        return ConfigResource(resource_type, "") if entity.type == BROKERS else None
    resource = ConfigResource(resource_type, entity.name)
    # Of two paths that stand for the same name, one is right.
    return resource if config_path(entity_of(resource)) == path else None


def usable_configs(
    path: str, data: bytes | None
) -> Steps[tuple[dict[str, str], list[MalformedNode]]]:
    """Return the configs of a resource, without those that cannot be used, and what is wrong."""
    settings = yield from decode_config(path, data)
    minimum = settings.get(MIN_INSYNC_REPLICAS)
    if minimum is None or _WHOLE_NUMBER.fullmatch(minimum):
        return settings, []
    del settings[MIN_INSYNC_REPLICAS]
    problem = f"{MIN_INSYNC_REPLICAS} is {printable(minimum)}, which is no number from 1 on"
    return settings, [MalformedNode(path, problem)]
