"""The client, imported when it is first used.

Help, and the completion of verbs and options, need none of it, and it takes longer to load than all
the rest. Who annotates or calls writes `client.AsyncAdmin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.client.admin import (
        Append,
        AsyncAdmin,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        ConfigSource,
        GroupDescription,
        ListedOffset,
        LogDirDescription,
        MemberDescription,
        NewTopic,
        OffsetSpec,
        PartitionDescription,
        ProducerDescription,
        ResourceType,
        Results,
        Subtract,
        TopicDescription,
    )
    from moldau.client.errors import ClientError, GroupIdNotFound

__all__ = [
    "Append",
    "AsyncAdmin",
    "ClientError",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "GroupDescription",
    "GroupIdNotFound",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "ProducerDescription",
    "ResourceType",
    "Results",
    "Subtract",
    "TopicDescription",
]

_ERRORS = frozenset({"ClientError", "GroupIdNotFound"})
"""Those that stand in the module of errors; the admin's has the rest."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "errors" if name in _ERRORS else "admin"
    return getattr(import_module(f"moldau.client.{home}"), name)
