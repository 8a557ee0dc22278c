"""The nodes with configs and quotas below /config, and the notifications that they have changed.

The name of an entity is a part of its path. "<default>" stands for all entities of a type. Users,
client ids and names that may have any character are URL-encoded, as Kafka does it. A quota of a
client of a user has a path of four parts: users/U/clients/C.

Nobody watches each of these nodes. Who changes one creates a notification with its path, and
brokers watch those. Kafka removes them after 15 minutes.

This module does not know which of these entities the metadata image has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote_plus

from moldau.base.tuples import NamedTuple
from moldau.cluster.zookeeper.nodes.node_content import (
    MalformedNode,
    decode_object,
    decode_object_in_steps,
    encode_object,
    printable,
)
from moldau.cluster.zookeeper.nodes.paths import CONFIG
from moldau.cluster.zookeeper.nodes.steps import Steps

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
CLIENTS: Final = "clients"
USERS: Final = "users"
IPS: Final = "ips"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"

ENTITY_TYPES: Final = frozenset({TOPICS, BROKERS, CLIENTS, USERS, IPS, CLIENT_METRICS, GROUPS})
"""Kafka has the last two in KRaft only. We keep them in nodes of the same form."""

_ENCODED_TYPES: Final = frozenset({CLIENTS, USERS, CLIENT_METRICS, GROUPS})
_DEFAULT: Final = "<default>"

_SETTINGS_MAX: Final = 1000
"""Configs of one entity: several times as many as Kafka has for a broker."""


class ConfigEntity(NamedTuple):
    """One thing that has configs or quotas."""

    type: str
    name: str | None
    """None means all of this type."""
    clients: bool = False
    """Whether this is a quota of the user's clients."""
    client: str | None = None
    """Of which client id; None means all of them."""


def config_path(entity: ConfigEntity) -> str:
    """Return the node of an entity."""
    return f"{CONFIG}/{entity_path(entity)}"


def entity_path(entity: ConfigEntity) -> str:
    """Return the path of an entity below /config, as notifications have it."""
    path = f"{entity.type}/{_node_name(entity.type, entity.name)}"
    return f"{path}/{CLIENTS}/{_node_name(CLIENTS, entity.client)}" if entity.clients else path


def config_entity(path: str) -> ConfigEntity | None:
    """Return the entity whose node this is; None if the path is anything else."""
    if not path.startswith(f"{CONFIG}/"):
        return None
    try:
        return _entity(path, path[len(CONFIG) + 1 :])
    except MalformedNode:
        return None


def _entity(node: str, path: str) -> ConfigEntity:
    parts = path.split("/")
    is_of_client = len(parts) == 4 and parts[0] == USERS and parts[2] == CLIENTS
    if parts[0] not in ENTITY_TYPES or not (len(parts) == 2 or is_of_client) or "" in parts:
        raise MalformedNode(node, f"{printable(path)} is no path of an entity with configs")
    name = _entity_name(node, parts[0], parts[1])
    if not is_of_client:
        return ConfigEntity(parts[0], name)
    return ConfigEntity(USERS, name, clients=True, client=_entity_name(node, CLIENTS, parts[3]))


def _node_name(entity_type: str, name: str | None) -> str:
    if name is None:
        return _DEFAULT
    # Java encodes the tilde, too.
    return quote(name, safe="").replace("~", "%7E") if entity_type in _ENCODED_TYPES else name


def _entity_name(node: str, entity_type: str, name: str) -> str | None:
    if name == _DEFAULT:
        return None
    if entity_type not in _ENCODED_TYPES:
        return name
    try:
        return unquote_plus(name, errors="strict")
    except UnicodeDecodeError as error:
        raise MalformedNode(node, f"{printable(name)} is no URL-encoded name") from error


def encode_config(settings: Mapping[str, str]) -> bytes:
    """Encode configs, by name: Kafka's order is that of a hash map."""
    return encode_object({"version": 1, "config": dict(sorted(settings.items()))})


def decode_config(path: str, data: bytes | None) -> Steps[dict[str, str]]:
    """Decode configs; a node without content has none.

    It may be large: a throttled reassignment names all replicas of a topic in one value.
    """
    if not data:
        return {}
    fields = yield from decode_object_in_steps(path, data)
    fields.number("version", 1, least=1)
    settings = fields.object("config", {})
    if len(settings) > _SETTINGS_MAX:
        raise settings.refuse(f"it has more than {_SETTINGS_MAX} configs")
    return {name: settings.text(name) for name in settings}


def encode_config_change(entity: ConfigEntity) -> bytes:
    """Encode the notification that configs of an entity have changed, in version 2."""
    return encode_object({"version": 2, "entity_path": entity_path(entity)})


def decode_config_change(path: str, data: bytes | None) -> ConfigEntity:
    """Decode version 1, of Kafka 0.9, or 2."""
    fields = decode_object(path, data)
    version = fields.number("version", least=1, most=2)
    if version == 2:
        return _entity(path, fields.text("entity_path"))
    return _entity(path, f"{fields.text('entity_type')}/{fields.text('entity_name')}")
