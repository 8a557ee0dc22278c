"""Configs of transactions."""

from __future__ import annotations

from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    boolean,
    cluster_wide,
    integer,
    short,
    without_effect,
)

ALWAYS_VERIFIED: Final = "every transaction is decided, and every partition verified, here"

TRANSACTIONS: tuple[ConfigDefinition, ...] = (
    integer(
        "transaction.max.timeout.ms",
        900_000,
        "The longest timeout a transaction may ask for.",
        at_least(1),
    ),
    integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions past their timeout are looked for.",
        at_least(1),
    ),
    integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often forgotten transactional ids are looked for.",
        at_least(1),
    ),
    integer(
        "transactional.id.expiration.ms",
        604_800_000,
        "How long an unused transactional id is remembered.",
        at_least(1),
    ),
    integer(
        "transaction.state.log.load.buffer.size",
        5_242_880,
        "How much of the transaction topic is read at once when it is loaded.",
        at_least(1),
    ),
    integer(
        "transaction.state.log.min.isr",
        2,
        "In-sync replicas a write to the transaction topic needs.",
        at_least(1),
    ),
    integer(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of the transaction topic.",
        at_least(1),
    ),
    short(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of the transaction topic.",
        at_least(1),
    ),
    integer(
        "transaction.state.log.segment.bytes",
        104_857_600,
        "The segment size of the transaction topic.",
        at_least(1),
    ),
    integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "How long a broker rests before it adds a partition to a transaction again.",
        at_least(1),
    ),
    integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long a broker tries to add a partition to a transaction.",
        at_least(0),
    ),
    *without_effect(
        ALWAYS_VERIFIED,
        boolean(
            "transaction.two.phase.commit.enable",
            False,
            "Allow transactions whose outcome another system decides.",
        ),
        *cluster_wide(
            boolean(
                "transaction.partition.verification.enable",
                True,
                "Check that a partition belongs to the transaction that writes to it.",
            ),
        ),
    ),
)
