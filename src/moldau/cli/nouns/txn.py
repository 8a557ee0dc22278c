"""`moldau txn`: transactions, those that hang, and ending them (KIP-664)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.change import Change, nothing_done, outcome_report
from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.failures import about
from moldau.cli.frame.offset_words import parse_duration_ms
from moldau.cli.frame.report import Column, Report, listing
from moldau.cli.frame.selection import chosen_partitions
from moldau.cli.frame.session import Session, changing, watching
from moldau.client.records import TopicPartition

ID = Column("transactional_id", "TRANSACTIONAL ID")
STATE = Column("state", "STATE")
PRODUCER = Column("producer_id", "PRODUCER")
EPOCH = Column("producer_epoch", "EPOCH")
TOPIC = Column("topic", "TOPIC")
PARTITION = Column("partition", "PARTITION")
PRODUCER_COLUMNS = (
    TOPIC,
    PARTITION,
    PRODUCER,
    EPOCH,
    Column("last_sequence", "LAST SEQUENCE"),
    Column("last_written", "LAST WRITTEN"),
    Column("start_offset", "START OFFSET"),
    Column("coordinator_epoch", "COORDINATOR EPOCH", wide=True),
)
LONGEST = "15m"
"""The broker's default for `transaction.max.timeout.ms`."""

partitions_argument = click.argument(
    "topics", nargs=-1, metavar="TOPIC[:PARTITIONS]...", shell_complete=complete_topics
)


@click.group()
def txn() -> None:
    """Transactions: list, describe, producers, find-hanging, abort."""


def duration_ms(text: str, option: str) -> int:
    """Read how long: `90s`, `15m`."""
    found = parse_duration_ms(text)
    if found is None:
        raise UserError(f"{option} {text}: expected a duration, as in 90s or 15m")
    return found


@txn.command("list")
@click.option(
    "--state", "states", multiple=True, help="Only transactions in this state; repeatable."
)
@click.option(
    "--longer-than", metavar="DURATION", help="Only transactions open for longer than this (15m)."
)
@watching
def list_(session: Session, states: tuple[str, ...], longer_than: str | None) -> None:
    """List transactional ids."""
    least = None if longer_than is None else duration_ms(longer_than, "--longer-than")

    async def look(admin: client.AsyncAdmin) -> Report:
        found = await admin.list_transactions(states=states, min_duration_ms=least)
        return listing((ID, STATE, PRODUCER), [one._asdict() for one in found])

    session.show(look)


@txn.command()
@click.argument("ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@watching
def describe(session: Session, ids: tuple[str, ...]) -> None:
    """Show the state of transactional ids at their coordinators."""
    columns = (
        ID,
        STATE,
        PRODUCER,
        EPOCH,
        Column("coordinator", "COORDINATOR"),
        Column("timeout_ms", "TIMEOUT MS"),
        Column("started", "STARTED"),
        Column("partitions", "PARTITIONS"),
    )

    async def look(admin: client.AsyncAdmin) -> Report:
        described = await admin.describe_transactions(dict.fromkeys(ids))
        rows = [
            {
                "transactional_id": name,
                "state": one.state,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "coordinator": one.coordinator,
                "timeout_ms": one.timeout_ms,
                "started": _when(one.start_time_ms),
                "partitions": [str(partition) for partition in sorted(one.partitions)],
            }
            for name, one in described.ok.items()
        ]
        errors = [about(name, error) for name, error in described.errors.items()]
        return listing(columns, rows, errors=errors)

    session.show(look)


@txn.command()
@partitions_argument
@watching
def producers(session: Session, topics: tuple[str, ...]) -> None:
    """Show the producers of partitions: orders, or orders:0,2-4."""
    if not topics:
        raise UserError("name the topics: orders, or orders:0,2-4")

    async def look(admin: client.AsyncAdmin) -> Report:
        partitions = await chosen_partitions(admin, topics)
        found = await admin.describe_producers(partitions)
        rows = [
            _producer(partition, one) for partition, active in found.ok.items() for one in active
        ]
        errors = [about(partition, error) for partition, error in found.errors.items()]
        return listing(PRODUCER_COLUMNS, rows, errors=errors)

    session.show(look)


@txn.command("find-hanging")
@partitions_argument
@click.option(
    "--silent-for",
    metavar="DURATION",
    default=LONGEST,
    show_default=True,
    help="Minimum time without writes; at least the brokers' transaction.max.timeout.ms.",
)
@watching
def find_hanging(session: Session, topics: tuple[str, ...], silent_for: str) -> None:
    """Find hanging transactions, in some partitions or in all."""
    silent_ms = duration_ms(silent_for, "--silent-for")

    async def look(admin: client.AsyncAdmin) -> Report:
        partitions = await chosen_partitions(admin, topics) if topics else None
        found = await admin.find_hanging_transactions(
            partitions, max_transaction_timeout_ms=silent_ms
        )
        rows = [
            {**_producer(one.partition, one.producer), "transactional_id": one.transactional_id}
            for one in found
        ]
        return listing((*PRODUCER_COLUMNS, ID), rows)

    session.show(look)


@txn.command()
@click.argument("partition", metavar="TOPIC:PARTITION", shell_complete=complete_topics)
@click.option(
    "--start-offset",
    type=click.IntRange(min=0),
    required=True,
    help="Start offset of the transaction, as find-hanging shows it.",
)
@changing
async def abort(
    admin: client.AsyncAdmin, change: Change, partition: str, start_offset: int
) -> Report:
    """Abort a hanging transaction without its coordinator.

    Abort only what find-hanging shows: aborting an active transaction breaks its atomicity.
    """
    found = await chosen_partitions(admin, [partition])
    if len(found) != 1:
        raise UserError(f"{partition!r}: expected one partition, as in orders:0")
    (where,) = found
    open_there = [
        one
        for one in (await admin.describe_producers(found))[where]
        if one.transaction_start_offset == start_offset
    ]
    if not open_there:
        raise UserError(f"no open transaction starts at offset {start_offset} of {where}")
    change.confirm(f"abort the transaction of producer {open_there[0].producer_id} in {where}")
    if not change.dry_run:
        await admin.abort_hanging_transaction(where, start_offset)
    rows = {where: _producer(where, open_there[0])}
    word = "would be aborted" if change.dry_run else "aborted"
    return outcome_report(
        (TOPIC, PARTITION, PRODUCER, EPOCH, PRODUCER_COLUMNS[6]), rows, nothing_done(rows), word
    )


def _producer(partition: TopicPartition, told: client.ProducerDescription) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": told.producer_id,
        "producer_epoch": told.producer_epoch,
        "last_sequence": told.last_sequence,
        "last_written": _when(told.last_timestamp_ms),
        "start_offset": told.transaction_start_offset,
        "coordinator_epoch": told.coordinator_epoch,
    }


def _when(time_ms: int | None) -> str | None:
    """Write a time so that every program reads it and people still can."""
    if time_ms is None:
        return None
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
