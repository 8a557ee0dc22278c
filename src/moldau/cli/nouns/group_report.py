"""The report of `moldau group describe`: how far groups are, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.cli.frame import client
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import DOUBTFUL, GOOD, Column, Report, View
from moldau.cli.operations.group_description import PartitionProgress, describe_progress

SUMMARY = (
    Column("group", "GROUP"),
    Column("state", "STATE", style=lambda state: GOOD if state == "Stable" else None),
    Column("type", "TYPE"),
    Column("assignor", "ASSIGNOR"),
    Column("coordinator", "COORDINATOR"),
    Column("member_count", "MEMBERS"),
    Column("lag", "LAG"),
)
OFFSETS = (
    Column("group", "GROUP", wide=True),
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("committed", "COMMITTED"),
    Column("latest", "LATEST"),
    Column("lag", "LAG", style=lambda lag: DOUBTFUL if lag else None),
    Column("client_id", "CLIENT"),
    Column("host", "HOST"),
    Column("member_id", "MEMBER", wide=True),
    Column("metadata", "METADATA", wide=True),
)


async def groups_report(admin: client.AsyncAdmin, names: Sequence[str]) -> Report:
    """Describe groups with their lag; what cannot be described is an error of the report."""
    described = await admin.describe_groups(names)
    progress = await describe_progress(admin, described.ok)
    failed = {**described.errors, **progress.errors}
    data, views, rows = [], [], []
    for name, found in progress.ok.items():
        lines = _lines(name, found)
        summary = _summary(described.ok[name], lines)
        data.append({**summary, "offsets": lines})
        views.append(View(SUMMARY, [summary]))
        if lines:
            views.append(View(OFFSETS, lines))
        rows += lines
    errors = [about(name, error) for name, error in failed.items()]
    main = View(OFFSETS, rows)
    return Report(data, main, "group", views or (main,), errors)


def _lines(group_id: str, progress: Sequence[PartitionProgress]) -> list[dict[str, Any]]:
    """Write a line for each partition, although members may share one."""
    by_partition = {one.partition: one for one in progress}
    return [
        {
            "group": group_id,
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": one.committed.offset if one.committed else None,
            "latest": one.end,
            "lag": None if one.lag is None else max(0, one.lag),
            "client_id": one.member.client_id if one.member else None,
            "host": one.member.host if one.member else None,
            "member_id": one.member.member_id if one.member else None,
            "metadata": one.committed.metadata if one.committed else None,
        }
        for partition, one in sorted(by_partition.items())
    ]


def _summary(group: client.GroupDescription, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "member_count": len(group.members),
        "lag": sum(line["lag"] or 0 for line in lines),
    }
