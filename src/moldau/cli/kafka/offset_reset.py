"""`kafka-consumer-groups --reset-offsets`: works out where groups shall go on, and moves them.

Eight ways to say where; the result is a table or CSV, which `--from-file` reads again. Nothing
moves without `--execute`, and never a group with members.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import JavaFailure, text_of
from moldau.cli.kafka.options import Options
from moldau.cli.kafka.running import CommandFailed
from moldau.client.assignors.hash_order import partitions_in_hash_order, texts_in_hash_order
from moldau.client.errors import GroupIdNotFound
from moldau.client.records import TopicPartition
from moldau.engine.partitions import as_partitions

if TYPE_CHECKING:
    from moldau.client.admin import AsyncAdmin
    from moldau.client.errors import ClientError

Partition = tuple[str, int]
"""A TopicPartition, wherever it stands as a key: a mapping's keys are exactly of its type."""
Plan = dict[Partition, int]
"""Where to go on, by partition."""

LATEST: Final = -1
EARLIEST: Final = -2
INACTIVE: Final = ("Empty", "Dead")
NARROWEST: Final = 15
QUOTED_FROM: Final = 25
"""Kafka's CSV puts words of this length in quotation marks, whatever stands in them."""
DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


async def reset_offsets(
    admin: AsyncAdmin, group_ids: Sequence[str], options: Options, console: Console
) -> None:
    """Plan, carry out if so wished, and print."""
    plans: dict[str, Plan] = {}
    described = await admin.describe_groups(group_ids)
    for group_id in texts_in_hash_order(group_ids):
        try:
            state = described[group_id].state
        except GroupIdNotFound:
            state = "Dead"
        if state in INACTIVE:
            plans[group_id] = await _planned(admin, group_id, options, console)
            if options.has("execute"):
                (await admin.alter_group_offsets(group_id, plans[group_id])).or_raise()
        else:
            console.say(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive,"
                f" but the current state is {state}."
            )
            plans[group_id] = {}
    lines = (
        _csv(plans, len(options.values("group")) == 1) if options.has("export") else _table(plans)
    )
    for line in lines:
        console.say(line)


def _table(plans: Mapping[str, Plan]) -> list[str]:
    group_width = max([NARROWEST, *map(len, plans)])
    topics = [topic for plan in plans.values() for topic, _ in plan]
    topic_width = max([NARROWEST, *map(len, topics)])
    lines = []
    if plans:
        titles = f"{'GROUP':<{group_width}} {'TOPIC':<{topic_width}} {'PARTITION':<10} NEW-OFFSET"
        lines += ["", titles]
    return lines + [
        f"{group_id:<{group_width}} {topic:<{topic_width}} {partition:<10} {plan[topic, partition]}"
        for group_id, plan in plans.items()
        for topic, partition in partitions_in_hash_order(as_partitions(plan))
    ]


def _csv(plans: Mapping[str, Plan], single: bool) -> list[str]:
    return [
        ",".join(
            [*([] if single else [_word(group_id)]), _word(topic), str(number),
             str(plan[topic, number])]
        )
        for group_id, plan in plans.items()
        for topic, number in partitions_in_hash_order(as_partitions(plan))
    ] + [""]  # fmt: skip


def _word(text: str) -> str:
    plain = len(text) < QUOTED_FROM and not set(text) & set('",\n\r')
    return text if plain else '"' + text.replace('"', '""') + '"'


# Which partitions


async def named_partitions(
    admin: AsyncAdmin, given: Iterable[str]
) -> tuple[list[TopicPartition], dict[TopicPartition, ClientError]]:
    """Return what `t` and `t:0,1` name, and topics that are not there (as partition -1)."""
    found: list[TopicPartition] = []
    whole: list[str] = []
    for one in given:
        topic, colon, numbers = one.partition(":")
        if not colon:
            whole.append(topic)
            continue
        if not topic or not numbers or ":" in numbers:
            raise CommandFailed(f"Invalid topic arg '{one}', expected topic name and partitions")
        for number in numbers.split(","):
            if not number.isdecimal():
                raise CommandFailed(f"Invalid partition '{number}' specified in topic arg '{one}''")
            found.append(TopicPartition(topic, int(number)))
    described = await admin.describe_topics(whole)
    for topic_name, told in described.ok.items():
        found += [TopicPartition(str(topic_name), one.partition) for one in told.partitions]
    missing = {
        TopicPartition(str(topic_name), -1): error for topic_name, error in described.errors.items()
    }
    return found, missing


async def _scope(admin: AsyncAdmin, group_id: str, options: Options) -> list[TopicPartition]:
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


async def _check_partitions(admin: AsyncAdmin, partitions: Iterable[Partition]) -> None:
    wanted = as_partitions(partitions)
    described = (await admin.describe_topics({one.topic for one in wanted})).or_raise()
    absent = [str(one) for one in wanted if one.partition >= len(described[one.topic].partitions)]
    if absent:
        raise JavaFailure(f'The partitions "{",".join(absent)}" do not exist')


# Where to


class _Reset(NamedTuple):
    """One group to be reset, and what its new offsets are worked out from."""

    admin: AsyncAdmin
    group_id: str
    partitions: list[TopicPartition]
    options: Options
    console: Console


async def _planned(admin: AsyncAdmin, group_id: str, options: Options, console: Console) -> Plan:
    partitions = await _scope(admin, group_id, options)
    await _check_partitions(admin, partitions)
    for name, way in WAYS.items():
        if options.has(name):
            return await way(_Reset(admin, group_id, partitions, options, console))
    listed = ", ".join(f"[{name}]" for name in WAYS)
    raise options.error(
        f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]"
    )


async def _to_offset(reset: _Reset) -> Plan:
    offset = reset.options.number("to-offset") or 0
    return await _in_range(reset, dict.fromkeys(reset.partitions, offset))


async def _shifted(reset: _Reset) -> Plan:
    shift = reset.options.number("shift-by") or 0
    kept = await reset.admin.list_group_offsets(reset.group_id)
    wanted: Plan = {}
    for partition in reset.partitions:
        if partition not in kept:
            raise CommandFailed(
                f"Cannot shift offset for partition {partition} since there is no current"
                " committed offset"
            )
        wanted[partition] = kept[partition].offset + shift
    return await _in_range(reset, wanted)


async def _to_datetime(reset: _Reset) -> Plan:
    return await _since(reset, _moment(reset.options.text("to-datetime")))


async def _by_duration(reset: _Reset) -> Plan:
    back_ms = _duration_ms(reset.options.text("by-duration"))
    return await _since(reset, int(time.time() * 1000) - back_ms)


async def _to_earliest(reset: _Reset) -> Plan:
    return await _listed(reset.admin, reset.partitions, EARLIEST)


async def _to_latest(reset: _Reset) -> Plan:
    return await _listed(reset.admin, reset.partitions, LATEST)


async def _to_current(reset: _Reset) -> Plan:
    kept = await reset.admin.list_group_offsets(reset.group_id)
    known = {one: kept[one].offset for one in reset.partitions if one in kept}
    new = [one for one in reset.partitions if one not in kept]
    return known | await _listed(reset.admin, new, LATEST)


async def _from_file(reset: _Reset) -> Plan:
    plans = _read_plans(reset.options.text("from-file"), reset.options.values("group"))
    if reset.group_id not in plans:
        reset.console.say(f"\nError: No reset plan for group {reset.group_id} found.")
        return {}
    await _check_partitions(reset.admin, plans[reset.group_id])
    return await _in_range(reset, plans[reset.group_id])


WAYS: Final[dict[str, Callable[[_Reset], Awaitable[Plan]]]] = {
    "to-offset": _to_offset,
    "shift-by": _shifted,
    "to-datetime": _to_datetime,
    "by-duration": _by_duration,
    "to-earliest": _to_earliest,
    "to-latest": _to_latest,
    "to-current": _to_current,
    "from-file": _from_file,
}


async def _listed(admin: AsyncAdmin, partitions: Iterable[Partition], spec: int) -> Plan:
    found = (await admin.list_offsets(dict.fromkeys(partitions, spec))).or_raise()
    return {partition: one.offset or 0 for partition, one in found.items()}


async def _in_range(reset: _Reset, wanted: Plan) -> Plan:
    """Keep offsets between the first record and the end."""
    first = await _listed(reset.admin, wanted, EARLIEST)
    end = await _listed(reset.admin, wanted, LATEST)
    plan = {}
    for partition, offset in wanted.items():
        plan[partition] = max(first[partition], min(offset, end[partition]))
        if plan[partition] != offset:
            side = "higher than latest" if offset > end[partition] else "lower than earliest"
            reset.console.warn(
                f"New offset ({offset}) is {side} offset for topic partition {partition}."
                f" Value will be set to {plan[partition]}."
            )
    return plan


async def _since(reset: _Reset, moment_ms: int) -> Plan:
    wanted: Plan = dict.fromkeys(reset.partitions, moment_ms)
    found = (await reset.admin.list_offsets(wanted)).or_raise()
    plan = {one: listed.offset for one, listed in found.items() if listed.offset is not None}
    late = [one for one in found if one not in plan]
    for topic, partition in late:
        reset.console.say(
            f"\nWarn: Partition {partition} from topic {topic} is empty."
            " Falling back to latest known offset."
        )
    return plan | await _listed(reset.admin, late, LATEST)


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
            plans.setdefault(group_id, {})[TopicPartition(topic, int(number))] = int(offset)
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
