"""`kafka-consumer-groups --reset-offsets`: its scenarios, scopes, warnings, table and CSV.

Nothing changes without `--execute`, and never in a group with members. `--from-file` reads the CSV
that `--export` prints. `operations/offset_reset.py` works out the plan.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import JavaFailure, text_of
from moldau.cli.kafka.options import Options
from moldau.cli.kafka.running import CommandFailed
from moldau.cli.kafka.selection import check_partitions, named_partitions
from moldau.cli.kafka.text_tables import Column, table
from moldau.cli.operations.offset_reset import Move, activities_of, committed_offsets, plan_reset
from moldau.cli.operations.positions import Position, PositionKind

Plan = dict[client.TopicPartition, int]
"""The new offset of each partition."""

SCENARIOS: Final = (
    "to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest",
    "to-current", "from-file",
)  # fmt: skip
"""Where offsets may be reset to: one of these options."""

NARROWEST: Final = 15
QUOTED_FROM: Final = 25
"""Kafka's CSV puts words of this length in quotation marks, whatever stands in them."""
DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


async def reset_offsets(
    admin: client.AsyncAdmin, group_ids: Sequence[str], options: Options, console: Console
) -> None:
    """Plan the reset of each group, carry it out with --execute, and print it."""
    plans: dict[str, Plan] = {}
    activities = await activities_of(admin, group_ids)
    for group_id in client.texts_in_hash_order(group_ids):
        if activities[group_id].is_resettable:
            plans[group_id] = await _planned(admin, group_id, options, console)
            if options.has("execute"):
                offsets = dict(plans[group_id].items())
                (await admin.alter_group_offsets(group_id, offsets)).or_raise()
        else:
            console.say(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive,"
                f" but the current state is {activities[group_id].state}."
            )
            plans[group_id] = {}
    lines = (
        _csv(plans, len(options.values("group")) == 1) if options.has("export") else _table(plans)
    )
    console.say_all(lines)


def _table(plans: Mapping[str, Plan]) -> list[str]:
    rows = [
        (group_id, *one, plan[one])
        for group_id, plan in plans.items()
        for one in client.partitions_in_hash_order(plan)
    ]
    columns = (
        # A group with members has no rows, and its name counts.
        Column("GROUP", max([NARROWEST, *map(len, plans)])),
        Column("TOPIC", grows=True),
        Column("PARTITION", 10),
        Column("NEW-OFFSET", 0),
    )
    return ["", *table(columns, rows)] if plans else []


def _csv(plans: Mapping[str, Plan], single: bool) -> list[str]:
    return [
        ",".join(
            [*([] if single else [_word(group_id)]), _word(one.topic), str(one.partition),
             str(plan[one])]
        )
        for group_id, plan in plans.items()
        for one in client.partitions_in_hash_order(plan)
    ] + [""]  # fmt: skip


def _word(text: str) -> str:
    plain = len(text) < QUOTED_FROM and not set(text) & set('",\n\r')
    return text if plain else '"' + text.replace('"', '""') + '"'


# Which partitions


async def _scope(
    admin: client.AsyncAdmin, group_id: str, options: Options
) -> list[client.TopicPartition]:
    if options.has("all-topics"):
        return list(await admin.list_group_offsets(group_id))
    if options.has("topic"):
        found, missing = await named_partitions(admin, options.values("topic"))
        for error in missing.values():
            raise JavaFailure(text_of(error))
        return found
    if not options.has("from-file"):
        raise options.error("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


# Where to


async def _planned(
    admin: client.AsyncAdmin, group_id: str, options: Options, console: Console
) -> Plan:
    partitions = await _scope(admin, group_id, options)
    await check_partitions(admin, partitions)
    scenario = next((name for name in SCENARIOS if options.has(name)), None)
    if scenario is None:
        listed = ", ".join(f"[{name}]" for name in SCENARIOS)
        raise options.error(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]"
        )
    if scenario == "from-file":
        positions = _positions_of_file(group_id, options, console)
        await check_partitions(admin, positions)
    else:
        positions = dict.fromkeys(partitions, POSITIONS[scenario](options))
    plan = await plan_reset(admin, await committed_offsets(admin, group_id), positions)
    _tell_adjustments(plan, positions, console)
    # Kafka does not check whether a committed offset still exists where the group stays.
    stays = scenario == "to-current"
    return {
        one: move.asked if stays and move.asked is not None else move.offset
        for one, move in plan.items()
    }


def _back_by(options: Options) -> Position:
    back_ms = _duration_ms(options.text("by-duration"))
    return Position(PositionKind.TIME, int(time.time() * 1000) - back_ms)


POSITIONS: Final[dict[str, Callable[[Options], Position]]] = {
    "to-offset": lambda given: Position(PositionKind.OFFSET, given.number("to-offset") or 0),
    "shift-by": lambda given: Position(PositionKind.SHIFT, given.number("shift-by") or 0),
    "to-datetime": lambda given: Position(PositionKind.TIME, _moment(given.text("to-datetime"))),
    "by-duration": _back_by,
    "to-earliest": lambda _: Position(PositionKind.EARLIEST),
    "to-latest": lambda _: Position(PositionKind.LATEST),
    "to-current": lambda _: Position(PositionKind.CURRENT),
}
"""Scenarios -> the position they name; `--from-file` names an offset for each partition."""


def _tell_adjustments(
    plan: Mapping[client.TopicPartition, Move],
    positions: Mapping[client.TopicPartition, Position],
    console: Console,
) -> None:
    """Print where an offset is not the one that was asked for; refuse a shift from nowhere."""
    for partition, move in plan.items():
        if positions[partition].kind is PositionKind.SHIFT and move.asked is None:
            raise CommandFailed(
                f"Cannot shift offset for partition {partition} since there is no current"
                " committed offset"
            )
    for partition, move in plan.items():
        match positions[partition].kind:
            case PositionKind.TIME if move.asked is None:
                console.say(
                    f"\nWarn: Partition {partition.partition} from topic {partition.topic} is"
                    " empty. Falling back to latest known offset."
                )
            case PositionKind.OFFSET | PositionKind.SHIFT if move.asked != move.offset:
                assert move.asked is not None
                side = "higher than latest" if move.asked > move.offset else "lower than earliest"
                console.warn(
                    f"New offset ({move.asked}) is {side} offset for topic partition {partition}."
                    f" Value will be set to {move.offset}."
                )


def _positions_of_file(
    group_id: str, options: Options, console: Console
) -> dict[client.TopicPartition, Position]:
    plans = _read_plans(options.text("from-file"), options.values("group"))
    if group_id not in plans:
        console.say(f"\nError: No reset plan for group {group_id} found.")
        return {}
    return {one: Position(PositionKind.OFFSET, offset) for one, offset in plans[group_id].items()}


def _read_plans(file: str, groups: Sequence[str]) -> dict[str, Plan]:
    """Read lines of topic, partition and offset; a group may stand before them."""
    try:
        rows = list(csv.reader(Path(file).read_text().splitlines()))
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}") from None
    plans: dict[str, Plan] = {}
    for row in (row for row in rows if row):
        try:
            *group, topic, number, offset = (word.strip() for word in row)
            (group_id,) = group or groups
            plans.setdefault(group_id, {})[client.TopicPartition(topic, int(number))] = int(offset)
        except ValueError:
            raise CommandFailed(
                f"{file}: {','.join(row)!r} is not topic,partition,offset"
            ) from None
    return plans


def _moment(given: str) -> int:
    """Read a moment; one without a time zone is in UTC."""
    if "T" not in given:
        raise JavaFailure(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T'"
            " according to ISO8601 format"
        )
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        raise JavaFailure(f"java.text.ParseException: {error}") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _duration_ms(given: str) -> int:
    matched = DURATION.fullmatch(given)
    if matched is None or given[-1] in "PpTt":
        raise JavaFailure("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds = matched.groups()
    total_s = (
        86_400 * int(days or 0) + 3600 * int(hours or 0) + 60 * int(minutes or 0)
        + float(seconds or 0)
    )  # fmt: skip
    return int((-total_s if sign == "-" else total_s) * 1000)
