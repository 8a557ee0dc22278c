"""`kafka-get-offsets`: first, last or timed offsets of partitions, a line each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionError, OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    what_of,
    with_admin,
)
from moldau.cli.kafka.selection import TopicFilter

RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
"""A topic, and after a colon a partition or a range of them, its end not included."""
ABOUT: Final = "An interactive shell for getting topic-partition offsets."
TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
LEAST_TIME: Final = min(TIMES.values())

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic-partitions", "topic1:1,topic2:0-3,topic3", "Topics and partitions, as rules."),
        text("topic", "topic", "A regular expression for topics; all if left out."),
        text("partitions", "partition ids", "Partitions, with commas; all if left out."),
        text(
            "time", "timestamp, latest, earliest, max-timestamp, ...",
            "Which offset: by name, by Kafka's number for it, or at a time in ms.",
            default="latest",
        ),
        flag("exclude-internal-topics", "Leave internal topics out."),
        number("offsets", "count", "Taken and not heeded: releases before 3.0 asked for several."),
        number("max-wait-ms", "ms", "Taken and not heeded: releases before 3.0 waited for it."),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    try:
        options = parse(PARSER, arguments, ABOUT, console)
    except OptionError as error:
        if not arguments or str(error) == ABOUT:
            raise
        console.warn(f"Error occurred: {error}")
        return 1
    require_cluster(options)
    try:
        return _run(options, console)
    except MoldauError as error:
        console.warn(f"Error occurred: {what_of(error)}")
        return 1


def _run(options: Options, console: Console) -> int:
    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise CommandFailed("--topic-partitions cannot be used with --topic or --partitions")
    time = _time(options.text("time"))
    wanted = _wanted(options)

    async def work(admin: client.AsyncAdmin) -> None:
        internal = not options.has("exclude-internal-topics")
        partitions = await _partitions(admin, wanted, include_internal=internal)
        if not partitions:
            raise CommandFailed("Could not match any topic-partitions with the specified filters")
        _say(await admin.list_offsets(dict.fromkeys(partitions, time)), console)

    return with_admin(options, console, work, {"client.id": "GetOffsetShell"})


def _say(
    found: client.Results[client.TopicPartition, client.ListedOffset], console: Console
) -> None:
    for partition, error in found.errors.items():
        console.warn(
            f"Skip getting offsets for topic-partition {partition} due to error: {what_of(error)}"
        )
    for partition, listed in sorted(found.ok.items(), key=lambda one: str(one[0])):
        if listed.offset is not None:
            console.say(f"{partition.topic}:{partition.partition}:{listed.offset}")


PartitionFilter = Callable[[str, int], bool]


def _time(given: str) -> int:
    try:
        time = TIMES[given] if given in TIMES else int(given)
    except ValueError:
        names = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise CommandFailed(
            f"Malformed time argument {given}. Please use {names}, or a specified long format"
            " timestamp"
        ) from None
    if time < LEAST_TIME:
        raise CommandFailed(f"{given} is neither a time nor a name for one")
    return time


def _wanted(options: Options) -> PartitionFilter:
    if (rules := options.value("topic-partitions")) is not None:
        each = [_rule(rule) for rule in rules.split(",")]
        return lambda topic, partition: any(one(topic, partition) for one in each)
    topics = TopicFilter(options.value("topic") or ".*")
    numbers = _numbers(options.value("partitions") or "")
    return lambda topic, partition: topics.takes(topic) and (not numbers or partition in numbers)


def _numbers(given: str) -> frozenset[int]:
    try:
        return frozenset(int(one) for one in given.split(",") if given)
    except ValueError:
        raise CommandFailed(
            "--partitions expects a comma separated list of numeric partition ids, but received:"
            f" {given}"
        ) from None


def _rule(given: str) -> PartitionFilter:
    matched = RULE.fullmatch(given)
    if matched is None:
        raise CommandFailed(f"Invalid rule specification: {given}")
    topic, only, first, end = matched.groups()
    topics = TopicFilter(topic or ".*")
    if only:
        return lambda name, partition: topics.takes(name) and partition == int(only)
    return lambda name, partition: (
        topics.takes(name) and int(first or 0) <= partition and (not end or partition < int(end))
    )


async def _partitions(
    admin: client.AsyncAdmin, wanted: PartitionFilter, *, include_internal: bool
) -> list[client.TopicPartition]:
    listed = await admin.list_topics(include_internal=include_internal)
    return [
        client.TopicPartition(topic.name, partition)
        for topic in listed.values()
        for partition in range(topic.partition_count)
        if wanted(topic.name, partition)
    ]
