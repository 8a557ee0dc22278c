"""Configs of resources: which resource a command means, and which values were set for it alone.

Owns the rules; `AsyncAdmin.alter_config` carries changes out. Does not know how a command spells a
kind of resource or a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.cli.frame import client

ALL_BROKERS: Final = ""
"""The name of the resource with the defaults of all brokers."""
MIN_ISR: Final = "min.insync.replicas"

_OWN_SOURCES: Final = {"BROKER": "DYNAMIC_BROKER", "BROKER_LOGGER": "DYNAMIC_BROKER_LOGGER"}
"""Kinds of resources -> the source of their own values, where it has another name."""


def resource_of(kind: str, name: str) -> client.ConfigResource:
    """Return a resource; kinds are `topic`, `broker`, `group`, `broker-logger`..."""
    return client.ConfigResource(client.ResourceType[kind.upper().replace("-", "_")], name)


def own_entries(
    resource: client.ConfigResource, entries: Mapping[str, client.ConfigEntry]
) -> list[client.ConfigEntry]:
    """Return the entries that were set for the resource itself."""
    kind = resource.type.name
    source = _OWN_SOURCES.get(kind, kind)
    if kind == "BROKER" and resource.name == ALL_BROKERS:
        source = "DYNAMIC_DEFAULT_BROKER"
    return [entry for entry in entries.values() if entry.source.name == source]


async def configs_of_topics(
    admin: client.AsyncAdmin, topics: Iterable[str], keys: Iterable[str] | None = None
) -> client.Results[str, dict[str, client.ConfigEntry]]:
    """Read the configs of topics: all of them, or some."""
    resources = [client.ConfigResource.topic(name) for name in topics]
    found = await admin.describe_configs(resources, names=keys)
    return client.Results(
        {resource.name: entries for resource, entries in found.ok.items()},
        {resource.name: error for resource, error in found.errors.items()},
    )


def min_isr_of(entries: Mapping[str, client.ConfigEntry]) -> int:
    """Return how many replicas have to be in sync; 1 if it is not known."""
    entry = entries.get(MIN_ISR)
    return int(entry.value) if entry is not None and entry.value else 1
