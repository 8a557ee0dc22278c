"""Names of folders in a log directory: which partition one holds, and what it is called afterwards.

`orders-3` is partition 3 of `orders`. A folder that is not served any more keeps that name in front
of 32 digits and a suffix, so that a new log can have the old name at once.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.base.ids import PartitionKey

METADATA_TOPIC: Final = "__cluster_metadata"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"

FOLDER_NAME_MAX: Final = 255
"""The limit of file systems; the topic in a longer name is truncated."""

_PARTITION_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_SET_ASIDE = re.compile(r".+\.[0-9a-f]{32}-(delete|stray|future)")


def partition_of(name: str) -> PartitionKey | None:
    """Parse the partition from a folder name; None for any other folder."""
    match = _PARTITION_FOLDER.fullmatch(name)
    if match is None or _SET_ASIDE.fullmatch(name) or match[1] == METADATA_TOPIC:
        return None
    return PartitionKey(match[1], int(match[2]))


def is_being_deleted(name: str) -> bool:
    """Tell whether a folder was renamed to be deleted."""
    match = _SET_ASIDE.fullmatch(name)
    return match is not None and match[1] == DELETE_SUFFIX[1:]


def set_aside_name(key: PartitionKey, unique: bytes, suffix: str) -> str:
    """Return the folder name for a deleted or stray partition, as in Kafka."""
    tail = f"-{key.partition}.{unique.hex()}{suffix}"
    return key.topic[: FOLDER_NAME_MAX - len(tail)] + tail
