"""The report of `moldau group describe`: how far groups are, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.cli.frame import client
from moldau.cli.frame.failures import about
from moldau.cli.frame.report import DOUBTFUL, GOOD, Column, Report, View
from moldau.client.records import OffsetAndMetadata, TopicPartition

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
    committed = await admin.list_offsets_of_groups(described.ok)
    failed = {**described.errors, **committed.errors}
    wanted = {
        partition
        for name, offsets in committed.ok.items()
        for partition in (*offsets, *_readers(described.ok[name]))
    }
    ends = (await admin.list_offsets(dict.fromkeys(sorted(wanted), client.OffsetSpec.LATEST))).ok
    data, views, rows = [], [], []
    for name, offsets in committed.ok.items():
        lines = _lines(described.ok[name], offsets, ends)
        summary = _summary(described.ok[name], lines)
        data.append({**summary, "offsets": lines})
        views.append(View(SUMMARY, [summary]))
        if lines:
            views.append(View(OFFSETS, lines))
        rows += lines
    errors = [about(name, error) for name, error in failed.items()]
    main = View(OFFSETS, rows)
    return Report(data, main, "group", views or (main,), errors)


def _readers(group: client.GroupDescription) -> dict[TopicPartition, client.MemberDescription]:
    return {partition: member for member in group.members for partition in member.assignment}


def _lines(
    group: client.GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, client.ListedOffset],
) -> list[dict[str, Any]]:
    readers = _readers(group)
    lines = []
    for partition in sorted({*committed, *readers}):
        own, reader = committed.get(partition), readers.get(partition)
        end = ends[partition].offset if partition in ends else None
        lines.append(
            {
                "group": group.group_id,
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": own.offset if own else None,
                "latest": end,
                # A log that was truncated may end before what was committed.
                "lag": max(0, end - own.offset) if own and end is not None else None,
                "client_id": reader.client_id if reader else None,
                "host": reader.host if reader else None,
                "member_id": reader.member_id if reader else None,
                "metadata": own.metadata if own else None,
            }
        )
    return lines


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
