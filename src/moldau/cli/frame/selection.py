"""Which topics and partitions a command is about, from what the user wrote.

Names are taken as they are; with `--regex` they are patterns for whole names. `topic:0,2-4` names
single partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import click

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.completion import complete_topics
from moldau.client.records import TopicPartition

PARTITIONS_MAX = 200_000
"""What clusters are built for: a longer range is a slip of the fingers."""

regex_option = click.option(
    "-r", "--regex", is_flag=True, help="Names are patterns that must match the whole name."
)

partitions_argument = click.argument(
    "topics",
    nargs=-1,
    required=True,
    metavar="TOPIC[:PARTITIONS]...",
    shell_complete=complete_topics,
)


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that any of the patterns matches as a whole."""
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise UserError(f"{pattern!r} is not a pattern: {error}") from error
    return [name for name in names if any(one.fullmatch(name) for one in compiled)]


async def chosen_topics(
    admin: client.AsyncAdmin, given: Sequence[str], *, regex: bool
) -> list[str]:
    """Return the topics that are meant; UserError if patterns match none.

    Internal topics are not meant by a pattern that does not begin as their names do.
    """
    if not regex:
        return list(dict.fromkeys(given))
    listed = await admin.list_topics(include_internal=True)
    internal = {name for name, topic in listed.items() if topic.is_internal}
    found = matching((name for name in listed if name not in internal), given)
    found += matching(internal, [pattern for pattern in given if pattern.startswith("__")])
    if not found:
        raise UserError(f"no topic matches {' or '.join(map(repr, given))}")
    return sorted(found)


def parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """Read `topic` or `topic:0,2-4`."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    return topic, parse_numbers(numbers, repr(text), "TOPIC or TOPIC:PARTITION, as in orders:0,2-4")


def parse_numbers(text: str, whole: str, expected: str) -> list[int]:
    """Read `0,2-4`; errors show the whole of what it is a part of, and what was expected there."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()):
            raise UserError(f"{whole}: expected {expected}")
        if not 0 <= int(last) - int(first) < PARTITIONS_MAX:
            raise UserError(f"{whole}: {part} is not a range of partitions")
        found += range(int(first), int(last) + 1)
    return found


async def chosen_partitions(
    admin: client.AsyncAdmin, given: Sequence[str], *, regex: bool = False
) -> list[TopicPartition]:
    """Return the partitions that `topic` and `topic:0,2-4` mean, in order; they have to exist.

    With `regex` all partitions of the topics that match.
    """
    if regex:
        given = await chosen_topics(admin, given, regex=True)
    wanted = [parse_partitions(text) for text in given]
    described = (await admin.describe_topics([topic for topic, _ in wanted])).or_raise()
    found: dict[TopicPartition, None] = {}
    for topic, numbers in wanted:
        known = [one.partition for one in described[topic].partitions]
        for number in known if numbers is None else numbers:
            if number not in known:
                raise UserError(f"topic {topic!r} has no partition {number}")
            found[TopicPartition(topic, number)] = None
    return sorted(found)


def led_partitions(topics: client.Results[Any, client.TopicDescription]) -> list[TopicPartition]:
    """Return the partitions that can be asked now."""
    return [
        TopicPartition(topic.name, one.partition)
        for topic in topics.ok.values()
        for one in topic.partitions
        if one.leader is not None
    ]
