"""`kafka-topics`: creates, lists, describes, enlarges and deletes topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.base.errors import MoldauError
from moldau.base.ids import ZERO_TOPIC_ID, uuid_bytes, uuid_text
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    CommandFailed,
    cluster_options,
    names_cluster,
    parse,
    what_of,
    with_admin,
)
from moldau.cli.kafka.selection import TopicFilter
from moldau.cli.operations.configs import configs_of_topics, min_isr_of

ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
PARTITION_FILTERS: Final = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
INT16_MAX: Final = 2**15 - 1
CONFIGS_ELSEWHERE: Final = (
    " (the command kafka-configs supports altering topic configs with --bootstrap-server.)"
)

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        flag("list", "List topics."),
        flag("create", "Create a topic."),
        flag("delete", "Delete a topic."),
        flag("alter", "Give a topic more partitions."),
        flag("describe", "Show partitions, leaders and configs of topics."),
        text("topic", "topic", "The topic; a regular expression, except with --create."),
        text("topic-id", "topic-id", "The topic to describe, by its id."),
        text("config", "name=value", "A config of the topic to be created; may be repeated."),
        text("delete-config", "name", "Taken and not heeded since 4.0: use kafka-configs."),
        number("partitions", "# of partitions", "How many partitions; the cluster's default."),
        number("replication-factor", "replication factor", "How many replicas of each."),
        text("replica-assignment", "0:1,1:2", "Brokers of each partition, partition by partition."),
        flag("under-replicated-partitions", "Describe only those with replicas out of sync."),
        flag("unavailable-partitions", "Describe only those without a leader."),
        flag("under-min-isr-partitions", "Describe only those below min.insync.replicas."),
        flag("at-min-isr-partitions", "Describe only those that just reach min.insync.replicas."),
        flag("topics-with-overrides", "Describe only topics with configs of their own."),
        flag("if-exists", "Change or show the topic only if there is one."),
        flag("if-not-exists", "Create the topic only if there is none."),
        flag("exclude-internal", "Leave internal topics out."),
        flag(
            "force", "Taken and not heeded: no question is asked.", former=("disable-rack-aware",)
        ),
        number("partition-size-limit-per-response", "count", "Taken; pages are the broker's own."),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool helps to create, delete, describe, or change a topic."
    options = parse(PARSER, arguments, about, console)
    _check(options, console)
    work = WORK[next(name for name in ACTIONS if options.has(name))]
    try:
        return with_admin(options, console, lambda admin: work(admin, options, console))
    except MoldauError as error:
        console.say(f"Error while executing topic command : {what_of(error)}")
        return 1


def _check(options: Options, console: Console) -> None:
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise options.error(
            "Command must include exactly one action:"
            " --list, --describe, --create, --alter or --delete"
        )
    if options.has("delete-config"):
        console.warn("delete-config option is no longer supported: use kafka-configs")
    if not names_cluster(options):
        raise CommandFailed("--bootstrap-server must be specified")
    if not options.has("list") and not options.has("describe"):
        options.require("topic")
    unnamed = not options.has("topic") and not options.has("topic-id")
    if options.has("describe") and options.has("if-exists") and unnamed:
        raise options.error("--topic or --topic-id is required to describe a topic")
    if options.has("alter"):
        if options.has("config"):
            raise options.error(
                'Option combination "[bootstrap-server],[config]" can\'t be used with option'
                f' "[alter]"{CONFIGS_ELSEWHERE}'
            )
        options.require("partitions")
    _check_combinations(options)


def _check_combinations(options: Options) -> None:
    only_with = {
        "config": ("alter", "create"),
        "partitions": ("alter", "create"),
        "replication-factor": ("create",),
        "replica-assignment": ("alter", "create"),
        **dict.fromkeys(PARTITION_FILTERS, ("describe",)),
        "topics-with-overrides": ("describe",),
        "if-exists": ("alter", "delete", "describe"),
        "if-not-exists": ("create",),
        "exclude-internal": ("list", "describe"),
    }
    for name, allowed in only_with.items():
        options.exclude(name, *(action for action in ACTIONS if action not in allowed))
    if options.has("create"):
        options.exclude("replica-assignment", "partitions", "replication-factor")
    for name in PARTITION_FILTERS:
        options.exclude(name, "topics-with-overrides")


async def _create(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    name = options.text("topic")
    assignments = _assignments(options)
    configs = _configs(options)
    if "." in name or "_" in name:
        console.say(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore"
            " ('_') could collide. To avoid issues it is best to use either, but not both."
        )
    factor, partitions = options.number("replication-factor"), options.number("partitions")
    if factor is not None and not 1 <= factor <= INT16_MAX:
        raise CommandFailed(f"The replication factor must be between 1 and {INT16_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise CommandFailed("The partitions must be greater than 0")
    try:
        await admin.create_topic(
            name,
            partitions,
            factor,
            configs=configs,
            assignments=dict(enumerate(assignments)) if assignments else None,
        )
    except client.TopicAlreadyExists:
        if not options.has("if-not-exists"):
            raise
    else:
        console.say(f"Created topic {name}.")


def _configs(options: Options) -> dict[str, str | None]:
    pairs = [re.split(r"\s*=\s*", given) for given in options.values("config")]
    if any(len(pair) != 2 or not pair[1] for pair in pairs):
        raise CommandFailed(
            "requirement failed: Invalid topic config: all configs to be added must be in the"
            ' format "key=val".'
        )
    return {name.strip(): value.strip() for name, value in pairs}


def _assignments(options: Options) -> list[list[int]]:
    given = options.value("replica-assignment")
    if not given:
        return []
    try:
        assigned = [[int(one) for one in brokers.split(":")] for brokers in given.split(",")]
    except ValueError:
        raise CommandFailed(f"{given} is not a list of brokers such as 0:1,1:2") from None
    for partition, brokers in enumerate(assigned):
        twice = sorted({one for one in brokers if brokers.count(one) > 1})
        if twice:
            raise CommandFailed(
                "Partition replica lists may not contain duplicate entries:"
                f" {','.join(map(str, twice))}"
            )
        if len(brokers) != len(assigned[0]):
            raise CommandFailed(
                f"Partition {partition} has different replication factor: {brokers}"
            )
    return assigned


async def _list(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    console.say("\n".join(await _named(admin, options)))


async def _alter(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    del console
    assigned = _assignments(options)
    topics = await _existing(admin, options)
    total = options.number("partitions") or 0
    wanted = {}
    for topic in topics:
        added = None
        if assigned:
            described = await admin.describe_topic(topic)
            added = assigned[len(described.partitions) :]
        wanted[topic] = client.NewPartitions(total, added)
    (await admin.create_partitions_of(wanted)).or_raise()


async def _delete(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    del console
    (await admin.delete_topics(await _existing(admin, options))).or_raise()


async def _named(admin: client.AsyncAdmin, options: Options) -> list[str]:
    """Return the topics a command line means, in order."""
    listed = await admin.list_topics(include_internal=not options.has("exclude-internal"))
    if (given := options.value("topic")) is None:
        return sorted(listed)
    wanted = TopicFilter(given)
    return sorted(topic for topic in listed if wanted.takes(topic))


async def _existing(admin: client.AsyncAdmin, options: Options) -> list[str]:
    """Return the topics a command line means; there must be one, unless that was waived."""
    topics = await _named(admin, options)
    given = options.value("topic")
    if not topics and given and not options.has("if-exists"):
        raise CommandFailed(f"Topic '{given}' does not exist as expected")
    return topics


# Describing


@dataclass(frozen=True, slots=True)
class _Shown:
    """What of a description is to be printed."""

    filters: frozenset[str]
    overrides_only: bool
    live_brokers: frozenset[int]

    def partition(self, told: client.PartitionDescription, min_isr: int) -> bool:
        if not self.filters:
            return True
        in_sync = len(told.isr)
        met = {
            "under-replicated-partitions": len(told.replicas) > in_sync,
            "unavailable-partitions": told.leader not in self.live_brokers,
            "under-min-isr-partitions": told.leader is None or in_sync < min_isr,
            "at-min-isr-partitions": in_sync == min_isr,
        }
        return any(met[name] for name in self.filters)


async def _describe(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    found = await _described(admin, options)
    configs = await configs_of_topics(admin, [one.name for one in found])
    cluster = await admin.describe_cluster()
    shown = _Shown(
        frozenset(name for name in PARTITION_FILTERS if options.has(name)),
        options.has("topics-with-overrides"),
        frozenset(broker.broker_id for broker in cluster.brokers),
    )
    for topic in found:
        console.say_all(_lines(topic, configs[topic.name], shown))


async def _described(admin: client.AsyncAdmin, options: Options) -> list[client.TopicDescription]:
    if (given := options.value("topic-id")) is not None:
        try:
            topic_id = uuid_bytes(given)
        except ValueError as error:
            raise CommandFailed(str(error)) from None
        if topic_id != ZERO_TOPIC_ID:
            return await _described_by_id(admin, options, topic_id)
    topics = await _existing(admin, options)
    return list((await admin.describe_topics(topics)).or_raise().values())


async def _described_by_id(
    admin: client.AsyncAdmin, options: Options, topic_id: bytes
) -> list[client.TopicDescription]:
    listed = await admin.list_topics(include_internal=not options.has("exclude-internal"))
    if topic_id in {one.topic_id for one in listed.values()}:
        return [await admin.describe_topic(topic_id)]
    if options.has("if-exists"):
        return []
    raise CommandFailed(f"TopicId '{uuid_text(topic_id)}' does not exist as expected")


def _lines(
    topic: client.TopicDescription, configs: Mapping[str, client.ConfigEntry], shown: _Shown
) -> list[str]:
    entries = [configs[name] for name in client.texts_in_hash_order(configs)]
    own = [f"{entry.name}={entry.value}" for entry in entries if not entry.is_default]
    lines = []
    if not shown.filters and (own or not shown.overrides_only):
        topic_id = f"\tTopicId: {uuid_text(topic.topic_id)}" if topic.topic_id else ""
        lines.append(
            f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {len(topic.partitions[0].replicas)}\tConfigs: {','.join(own)}"
        )
    if not shown.overrides_only:
        lines += [
            _partition_line(topic.name, one)
            for one in topic.partitions
            if shown.partition(one, min_isr_of(configs))
        ]
    return lines


def _partition_line(topic: str, told: client.PartitionDescription) -> str:
    leader = "none" if told.leader is None else told.leader
    return (
        f"\tTopic: {topic}\tPartition: {told.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(told.replicas)}\tIsr: {_ids(told.isr)}"
        f"\tElr: {_ids(told.eligible_leader_replicas)}"
        f"\tLastKnownElr: {_ids(told.last_known_elr)}"
    )


def _ids(brokers: tuple[int, ...] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))


WORK: Final = {
    "create": _create,
    "alter": _alter,
    "list": _list,
    "describe": _describe,
    "delete": _delete,
}
