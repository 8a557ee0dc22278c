"""How ZooKeeper's shell prints what it tells of a node."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from moldau.cli.zookeeper.connection import NodeStatus

_JAVA_DATE: Final = "%a %b %d %H:%M:%S %Z %Y"
_UNSIGNED: Final = 2**64 - 1


def children_line(names: Iterable[str]) -> str:
    """Return the names of children on one line."""
    return f"[{', '.join(names)}]"


def status_lines(status: NodeStatus) -> list[str]:
    """Return the status of a node, one value a line."""
    return [
        f"cZxid = {_hexadecimal(status.czxid)}",
        f"ctime = {_date(status.ctime_ms)}",
        f"mZxid = {_hexadecimal(status.mzxid)}",
        f"mtime = {_date(status.mtime_ms)}",
        f"pZxid = {_hexadecimal(status.pzxid)}",
        f"cversion = {status.child_version}",
        f"dataVersion = {status.version}",
        f"aclVersion = {status.acl_version}",
        f"ephemeralOwner = {_hexadecimal(status.ephemeral_owner)}",
        f"dataLength = {status.data_length}",
        f"numChildren = {status.child_count}",
    ]


def _hexadecimal(number: int) -> str:
    """Write 64 bits as Java does, which has no sign there."""
    return f"{number & _UNSIGNED:#x}"


def _date(time_ms: int) -> str:
    return time.strftime(_JAVA_DATE, time.localtime(time_ms // 1000))
