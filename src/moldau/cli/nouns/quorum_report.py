"""What is shown of the metadata quorum: who leads, who votes, who follows, how far each one is."""

from __future__ import annotations

from typing import Any, Final

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.base.ids import uuid_text
from moldau.cli.frame import client
from moldau.cli.frame.durations import duration_text
from moldau.cli.frame.report import BAD, DOUBTFUL, GOOD, Column, Report, View

LEADER, VOTER, OBSERVER = "leader", "voter", "observer"
SECOND_MS: Final = 1_000

SUMMARY = (
    Column("leader", "LEADER"),
    Column("leader_epoch", "EPOCH"),
    Column("high_watermark", "HIGH WATERMARK"),
    Column("voter_count", "VOTERS"),
    Column("observer_count", "OBSERVERS"),
)
NODE = Column("node", "NODE")
ROLE = Column("role", "ROLE", style=lambda role: GOOD if role == LEADER else None)
DIRECTORY = Column("directory_id", "DIRECTORY")
ENDPOINTS = Column("endpoints", "ENDPOINTS")
PROGRESS = (
    Column("end_offset", "END OFFSET", style=lambda end: BAD if end is None else None),
    Column("lag", "LAG", style=lambda lag: DOUBTFUL if lag else None),
    Column("silent_for", "LAST FETCH"),
)
TIMES = (
    Column("last_fetch_ms", "LAST FETCH MS", wide=True),
    Column("last_caught_up_ms", "CAUGHT UP MS", wide=True),
)
REPLICAS = (NODE, ROLE, DIRECTORY, ENDPOINTS, *PROGRESS, *TIMES)

Quorum = dict[str, Any]
"""A quorum as plain data; `voters` and `observers` are rows of tables."""


async def ask_quorum(
    admin: client.AsyncAdmin, *, timeout_ms: float | None = None
) -> client.MetadataQuorum:
    """Ask for the quorum; UserError if the brokers have none."""
    try:
        return await admin.describe_metadata_quorum(timeout_ms=timeout_ms)
    except client.UnsupportedVersion:
        raise UserError(
            "there is no metadata quorum: the metadata of this cluster is in ZooKeeper, or its"
            " brokers are of a release before 3.3"
        ) from None


def quorum_report(quorum: client.MetadataQuorum) -> Report:
    """Show a quorum: in short, and each node of it."""
    told = quorum_data(quorum)
    main = View(REPLICAS, [*told["voters"], *told["observers"]])
    return Report(told, main, "node", (View(SUMMARY, [told]), main))


def quorum_data(quorum: client.MetadataQuorum) -> Quorum:
    """Tell of a quorum as plain data."""
    now_ms = SystemClock().wall_ms()

    def rows(replicas: tuple[client.QuorumReplica, ...], role: str) -> list[dict[str, Any]]:
        return [_row(quorum, one, role, now_ms) for one in replicas]

    return {
        "leader": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voter_count": len(quorum.voters),
        "observer_count": len(quorum.observers),
        "voters": rows(quorum.voters, VOTER),
        "observers": rows(quorum.observers, OBSERVER),
    }


def directory_text(directory_id: bytes | None) -> str | None:
    """Write the id of a directory."""
    return None if directory_id is None else uuid_text(directory_id)


def _row(
    quorum: client.MetadataQuorum, replica: client.QuorumReplica, role: str, now_ms: int
) -> dict[str, Any]:
    return {
        "node": replica.node_id,
        "role": LEADER if replica is quorum.leader else role,
        "directory_id": directory_text(replica.directory_id),
        "endpoints": [str(one) for one in replica.endpoints],
        "end_offset": replica.log_end_offset,
        "lag": quorum.lag(replica),
        "silent_for": _silence(replica.last_fetch_ms, now_ms),
        "last_fetch_ms": replica.last_fetch_ms,
        "last_caught_up_ms": replica.last_caught_up_ms,
    }


def _silence(fetched_ms: int | None, now_ms: int) -> str | None:
    """Write how long ago a fetch was: to the millisecond only where that says something."""
    if fetched_ms is None:
        return None
    silent_ms = max(0, now_ms - fetched_ms)
    whole_ms = silent_ms if silent_ms < SECOND_MS else silent_ms // SECOND_MS * SECOND_MS
    return f"{duration_text(whole_ms)} ago"
