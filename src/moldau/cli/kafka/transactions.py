"""`kafka-transactions`: lists and describes transactions, finds and aborts those that hang."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, Options, number, text
from moldau.cli.kafka.running import (
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    what_of,
    with_admin,
)
from moldau.cli.kafka.text_tables import tabbed_table

ABOUT: Final = (
    "This tool is used to analyze the transactional state of producers in the cluster: list,"
    " describe, describe-producers, find-hanging, abort, forceTerminateTransaction."
)
MINUTE_MS: Final = 60_000

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("transactional-id", "id", "The transactional id.", former=("transactionalId",)),
        text("transactional-id-pattern", "regex", "List only ids like this."),
        number("duration-filter", "ms", "List only transactions open for longer."),
        number("broker-id", "broker", "The broker to ask."),
        text("topic", "topic", "The topic."),
        number("partition", "partition", "The partition."),
        number(
            "max-transaction-timeout", "minutes", "How long a transaction may be open.", default=15
        ),
        number("start-offset", "offset", "Where the transaction to be aborted begins."),
        number("producer-id", "id", "Its producer, for brokers before 3.0."),
        number("producer-epoch", "epoch", "The producer's epoch."),
        number("coordinator-epoch", "epoch", "The coordinator's epoch."),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, ABOUT, console)
    action = options.words[0] if options.words else ""
    if action not in ACTIONS:
        raise options.error(f"invalid choice: '{action}'" if action else "too few arguments")
    require_cluster(options)
    required, failed, work = ACTIONS[action]
    options.require(*required)
    told = failed.format_map({name.replace("-", "_"): options.value(name) for name in NAMED})
    try:
        return with_admin(options, console, lambda admin: work(admin, options, console))
    except CommandFailed:
        raise
    except MoldauError as error:
        raise CommandFailed(f"{told}: {what_of(error)}") from None


async def _list(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    found = await admin.list_transactions(
        min_duration_ms=options.number("duration-filter"),
        pattern=options.value("transactional-id-pattern"),
    )
    described = await admin.describe_transactions([one.transactional_id for one in found])
    rows = [
        (
            one.transactional_id,
            str(described.ok[one.transactional_id].coordinator),
            str(one.producer_id),
            one.state,
        )
        for one in found
        if one.transactional_id in described.ok
    ]
    titles = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
    console.say_all(tabbed_table(titles, rows))


async def _describe(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    told = await admin.describe_transaction(options.text("transactional-id"))
    start = told.start_time_ms
    console.say_all(tabbed_table(
        (
            "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState",
            "TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs",
            "TopicPartitions",
        ),
        [
            (
                str(told.coordinator), told.transactional_id, str(told.producer_id),
                str(told.producer_epoch), told.state, str(told.timeout_ms), _or_none(start),
                _or_none(None if start is None else _now_ms() - start),
                ",".join(map(str, sorted(told.partitions))),
            )
        ],
    ))  # fmt: skip


async def _describe_producers(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    place = _place(options)
    found = await admin.describe_producers([place], broker_id=options.number("broker-id"))
    rows = [
        (
            str(one.producer_id), str(one.producer_epoch), _number(one.coordinator_epoch),
            _number(one.last_sequence), _number(one.last_timestamp_ms),
            _or_none(one.transaction_start_offset),
        )
        for one in found.or_raise()[next(iter(found))]
    ]  # fmt: skip
    console.say_all(tabbed_table(
        (
            "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence",
            "LastTimestamp", "CurrentTransactionStartOffset",
        ),
        rows,
    ))  # fmt: skip


async def _find_hanging(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    hanging = await admin.find_hanging_transactions(
        await _searched(admin, options),
        max_transaction_timeout_ms=(options.number("max-transaction-timeout") or 0) * MINUTE_MS,
    )
    rows = [
        (*map(str, one.partition), *_open(one.producer), _minutes_since(one.producer))
        for one in hanging
    ]
    console.say_all(tabbed_table(
        (
            "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset",
            "LastTimestamp", "Duration(min)",
        ),
        rows,
    ))  # fmt: skip


async def _searched(admin: client.AsyncAdmin, options: Options) -> list[tuple[str, int]]:
    topic, partition = options.value("topic"), options.number("partition")
    broker_id = options.number("broker-id")
    if topic is None and broker_id is None:
        raise CommandFailed(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope"
            " of the search"
        )
    if topic is None and partition is not None:
        raise CommandFailed("The --partition argument requires --topic to be provided")
    if topic is not None and partition is not None:
        return [(topic, partition)]
    topics = [topic] if topic is not None else await admin.list_topics(include_internal=True)
    described = (await admin.describe_topics(topics)).or_raise()
    return [
        (told.name, one.partition)
        for told in described.values()
        for one in told.partitions
        if broker_id is None or broker_id in one.replicas
    ]


async def _abort(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    del console
    start_offset, producer_id = options.number("start-offset"), options.number("producer-id")
    if start_offset is not None:
        await admin.abort_hanging_transaction(_place(options), start_offset)
        return
    if producer_id is None:
        raise CommandFailed(
            "The transaction to abort must be identified either with --start-offset (for brokers"
            " on 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch"
            " (for older brokers)"
        )
    epochs = []
    for name in ("producer-epoch", "coordinator-epoch"):
        if (epoch := options.number(name)) is None:
            raise CommandFailed(f"Missing required argument --{name}")
        epochs.append(epoch)
    await admin.abort_transaction(
        _place(options),
        producer_id=producer_id,
        producer_epoch=epochs[0],
        coordinator_epoch=max(0, epochs[1]),
    )


async def _terminate(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    del console
    await admin.fence_producer(options.text("transactional-id"))


Work = Callable[["client.AsyncAdmin", Options, Console], Awaitable[None]]
NAMED: Final = ("transactional-id", "topic", "partition")
ACTIONS: Final[dict[str, tuple[tuple[str, ...], str, Work]]] = {
    "list": ((), "Failed to list transactions", _list),
    "describe": (
        ("transactional-id",),
        "Failed to describe transaction state of transactional-id `{transactional_id}`",
        _describe,
    ),
    "describe-producers": (
        ("topic", "partition"),
        "Failed to describe producers for partition {topic}-{partition} on leader",
        _describe_producers,
    ),
    "find-hanging": ((), "Failed to find hanging transactions", _find_hanging),
    "abort": (
        ("topic", "partition"),
        "Failed to abort transaction on partition {topic}-{partition}",
        _abort,
    ),
    "forceTerminateTransaction": (
        ("transactional-id",),
        "Failed to force terminate transactionalId `{transactional_id}`",
        _terminate,
    ),
}
"""What can be done -> the options it needs, what to say where it fails, and the doing."""


def _place(options: Options) -> tuple[str, int]:
    return options.text("topic"), options.number("partition") or 0


def _open(producer: client.ProducerDescription) -> tuple[str, ...]:
    return (
        str(producer.producer_id),
        str(producer.producer_epoch),
        _number(producer.coordinator_epoch),
        _number(producer.transaction_start_offset),
        _number(producer.last_timestamp_ms),
    )


def _minutes_since(producer: client.ProducerDescription) -> str:
    return str((_now_ms() - (producer.last_timestamp_ms or 0)) // MINUTE_MS)


def _number(known: int | None) -> str:
    return "-1" if known is None else str(known)


def _or_none(known: int | None) -> str:
    return "None" if known is None else str(known)


def _now_ms() -> int:
    return int(time.time() * 1000)
