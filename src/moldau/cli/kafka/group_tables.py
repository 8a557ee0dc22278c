"""The tables of `kafka-consumer-groups --describe`: offsets, members, states.

An empty line stands before each table. `operations/group_description.py` looks the offsets up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import JavaFailure, exception_name
from moldau.cli.kafka.options import Options
from moldau.cli.kafka.text_tables import UNKNOWN, Column, table
from moldau.cli.operations.group_description import PartitionProgress, describe_progress
from moldau.cli.operations.offset_reset import NO_GROUP

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
NOBODY: Final = -1
"""The coordinator of a group that is not there."""
DESCRIBE_GROUPS: Final = 15
"""The key of the request."""
UNKNOWN_IS_AN_ERROR: Final = 6
"""Its version since which an unknown group is no dead one (KIP-1043)."""


LEADER_EPOCH: Final = Column("LEADER-EPOCH")
OFFSET_COLUMNS: Final = (
    Column("GROUP", grows=True),
    Column("TOPIC", grows=True),
    Column("PARTITION", 10),
    LEADER_EPOCH,
    Column("CURRENT-OFFSET"),
    Column("LOG-END-OFFSET"),
    Column("LAG"),
    Column("CONSUMER-ID", grows=True),
    Column("HOST", grows=True),
    Column("CLIENT-ID", 0),
)
MEMBER_COLUMNS: Final = (
    Column("GROUP", grows=True),
    Column("CONSUMER-ID", grows=True),
    Column("HOST", grows=True),
    Column("CLIENT-ID", grows=True),
    Column("#PARTITIONS"),
)
INSTANCE_ID: Final = Column("GROUP-INSTANCE-ID", 17, grows=True)
ASSIGNMENT_COLUMNS: Final = (
    Column("CURRENT-EPOCH"),
    Column("CURRENT-ASSIGNMENT", 20, grows=True),
    Column("TARGET-EPOCH"),
    Column("TARGET-ASSIGNMENT", 20, grows=True),
)
STATE_COLUMNS: Final = (
    Column("GROUP", grows=True),
    Column("COORDINATOR (ID)", 25, grows=True),
    Column("ASSIGNMENT-STRATEGY", 20),
    Column("STATE", 20),
    Column("#MEMBERS", 0),
)
EPOCH_COLUMNS: Final = (Column("GROUP-EPOCH"), Column("TARGET-ASSIGNMENT-EPOCH", 25))


async def describe_groups(
    admin: client.AsyncAdmin, group_ids: Sequence[str], options: Options, console: Console
) -> None:
    """Print a table for each group; raises if one of them cannot be described."""
    found = await _described(admin, group_ids)
    verbose = options.has("verbose")
    for _, group in sorted(found.items()):
        if options.has("members"):
            _say_members(group, verbose, console)
        elif options.has("state"):
            await _say_state(admin, group, verbose, console)
        else:
            await _say_offsets(admin, group, verbose, console)


async def _described(
    admin: client.AsyncAdmin, group_ids: Sequence[str]
) -> dict[str, client.GroupDescription]:
    """Describe groups; one that is absent is a dead one where brokers call it that."""
    results = await admin.describe_groups(group_ids)
    found = results.ok
    for group_id, error in results.errors.items():
        if not isinstance(error, client.GroupIdNotFound):
            raise error
        if await _refuse_unknown_groups(admin):
            raise JavaFailure(f"{exception_name(error)}: Group {group_id} not found.")
        found[group_id] = client.GroupDescription(group_id, "classic", "", NO_GROUP, "", NOBODY, ())
    return found


async def _refuse_unknown_groups(admin: client.AsyncAdmin) -> bool:
    """Tell whether brokers are of 4.0 or later: to others an unknown group is a dead one."""
    served = (await admin.describe_api_versions()).or_raise()
    return all(apis[DESCRIBE_GROUPS].last >= UNKNOWN_IS_AN_ERROR for apis in served.values())


def _is_worth_a_table(group: client.GroupDescription, row_count: int, console: Console) -> bool:
    """Say what a reader must know of the group first; tell whether there is more to show."""
    if group.state == NO_GROUP:
        console.say(f"\nError: Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state == "Empty":
        console.warn(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in REBALANCING:
        console.warn(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    return row_count > 0


def _lines(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lay out a table in which empty cells are unknown ones too."""
    return table(columns, [[None if cell == "" else cell for cell in row] for row in rows])


# Offsets


async def _say_offsets(
    admin: client.AsyncAdmin, group: client.GroupDescription, verbose: bool, console: Console
) -> None:
    found = (await describe_progress(admin, {group.group_id: group})).or_raise()
    progress = sorted(found[group.group_id], key=_by_member)
    if not _is_worth_a_table(group, len(progress), console):
        return
    columns = [column for column in OFFSET_COLUMNS if verbose or column != LEADER_EPOCH]
    rows = [_offset_row(group.group_id, one, verbose) for one in progress]
    console.say_all(["", *_lines(columns, rows)])


def _offset_row(group_id: str, one: PartitionProgress, verbose: bool) -> list[object]:
    committed, member = one.committed, one.member
    return [
        group_id,
        *one.partition,
        *([committed.leader_epoch if committed else None] if verbose else []),
        committed.offset if committed else None,
        one.end,
        one.lag,
        *((member.member_id, member.host, member.client_id) if member else (None, None, None)),
    ]


def _by_member(one: PartitionProgress) -> tuple[bool, int]:
    """Sort members with many partitions first, and partitions without a member last."""
    return one.member is None, -len(one.member.assignment) if one.member else 0


# Members


def _say_members(group: client.GroupDescription, verbose: bool, console: Console) -> None:
    _is_worth_a_table(group, len(group.members), console)
    columns = list(MEMBER_COLUMNS)
    static = any(member.instance_id for member in group.members)
    if static:
        columns.insert(2, INSTANCE_ID)
    rows = []
    for member in group.members:
        row: list[object] = [
            group.group_id, member.member_id, member.host, member.client_id,
            len(member.assignment),
        ]  # fmt: skip
        if static:
            row.insert(2, member.instance_id)
        if verbose:
            row += [
                member.epoch, _assignment(member.assignment),
                group.target_assignment_epoch, _assignment(member.target_assignment or ()),
            ]  # fmt: skip
        rows.append(row)
    if verbose:
        console.say_all(["", *_lines([*columns, *ASSIGNMENT_COLUMNS], rows)])
    else:
        console.say_all(["", *(f"{line} " for line in _lines(columns, rows))])


def _assignment(partitions: Iterable[client.TopicPartition]) -> str:
    topics: dict[str, list[str]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


# States


async def _say_state(
    admin: client.AsyncAdmin, group: client.GroupDescription, verbose: bool, console: Console
) -> None:
    if not _is_worth_a_table(group, 1, console):
        return
    brokers = {one.broker_id: one for one in (await admin.describe_cluster()).brokers}
    found = brokers.get(group.coordinator)
    address = f"{found.host}:{found.port}" if found else UNKNOWN
    columns = list(STATE_COLUMNS)
    row: list[object] = [
        group.group_id, f"{address}  ({group.coordinator})", group.assignor, group.state,
        len(group.members),
    ]  # fmt: skip
    if verbose:
        columns[4:4] = EPOCH_COLUMNS
        row[4:4] = [group.epoch, group.target_assignment_epoch]
    console.say_all(["", *_lines(columns, [row])])
