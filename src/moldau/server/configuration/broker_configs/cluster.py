"""Configs of this broker's place in a cluster, of replication, controller and metadata."""

from __future__ import annotations

from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    boolean,
    cluster_wide,
    integer,
    internal,
    list_of,
    long,
    names,
    string,
    without_effect,
)
from moldau.storage.topic_config import LONG_MAX

ALWAYS_HANDS_OVER: Final = "a broker that stops always moves its leaders away first"
LEADERS_ONLY: Final = "consumers read from leaders in this version"
FIXED_FETCHES: Final = "brokers fetch metadata with fixed limits in this version"
NOT_THERE: Final = "what it sets is not part of this version"
FIXED_LOG: Final = "the metadata log is written by fixed rules in this version"

CLUSTER: tuple[ConfigDefinition, ...] = (
    integer("node.id", 1, "The number of this broker in its cluster.", at_least(0)),
    integer(
        "broker.id", -1, "The number of this broker under its earlier name; -1 means it is not set."
    ),
    string("broker.rack", None, "The rack this broker stands in, for the placement of replicas."),
    names(
        "process.roles",
        ("broker", "controller"),
        "What this process is: a broker, or a broker with the controller inside.",
        list_of("broker", "controller"),
    ),
    names(
        "controller.listener.names",
        (),
        "Listeners of the controller, for other nodes of the cluster.",
    ),
    names(
        "controller.quorum.voters",
        (),
        "The controllers, ID@HOST:PORT, with commas; all nodes name the same.",
    ),
    names(
        "controller.quorum.bootstrap.servers",
        (),
        "Where to find controllers, HOST:PORT, with commas; the metadata log says who votes.",
    ),
    string(
        "metadata.log.dir",
        None,
        "The directory of the cluster's metadata; the first of log.dirs if not set.",
    ),
    *cluster_wide(
        boolean(
            "unclean.leader.election.enable",
            False,
            "Let a replica that may lack records lead when no in-sync one is left.",
        ),
        integer("num.replica.fetchers", 1, "Fetchers per leader a follower runs.", at_least(1)),
    ),
    *internal(
        long(
            "unclean.leader.election.interval.ms",
            300_000,
            "How often partitions without a leader are looked at for an unclean election.",
            at_least(1),
        ),
    ),
    boolean(
        "auto.leader.rebalance.enable",
        True,
        "Give leadership back to preferred replicas from time to time.",
    ),
    long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the balance of leaders is checked.",
        at_least(1),
    ),
    integer(
        "replica.fetch.backoff.ms",
        1_000,
        "How long a follower rests after an error.",
        at_least(0),
    ),
    integer(
        "replica.fetch.max.bytes",
        1_048_576,
        "The most a follower fetches of one partition at once.",
        at_least(0),
    ),
    integer("replica.fetch.min.bytes", 1, "How much a follower's fetch waits for."),
    integer(
        "replica.fetch.response.max.bytes",
        10_485_760,
        "The most a follower fetches at once.",
        at_least(0),
    ),
    integer("replica.fetch.wait.max.ms", 500, "How long a follower's fetch waits for data."),
    integer(
        "replica.socket.receive.buffer.bytes",
        -1,  # Kafka's is 65,536, which wakes a follower up for every 64 KB
        "The receive buffer of a socket to another broker; -1 leaves it to the system.",
    ),
    long(
        "replica.lag.time.max.ms",
        30_000,
        "How long a follower may lag before it leaves the in-sync replicas.",
    ),
    integer("replica.socket.timeout.ms", 30_000, "How long a follower waits for an answer."),
    integer(
        "controller.socket.timeout.ms",
        30_000,
        "How long controller and broker wait for each other.",
    ),
    integer(
        "broker.heartbeat.interval.ms",
        2_000,
        "How often a broker tells the controller that it lives.",
        at_least(1),  # Kafka takes 0, and then does nothing else
    ),
    integer(
        "broker.session.timeout.ms",
        9_000,
        "How long a silent broker stays a member of the cluster.",
        at_least(1),
    ),
    integer(
        "initial.broker.registration.timeout.ms",
        60_000,
        "How long a starting broker tries to register.",
    ),
    integer(
        "controller.quorum.fetch.max.bytes",
        1_048_576,
        "The most metadata a controller fetches at once.",
        at_least(1),
    ),
    *without_effect(
        ALWAYS_HANDS_OVER,
        boolean("controlled.shutdown.enable", True, "Move leadership away before a broker stops."),
    ),
    *without_effect(
        LEADERS_ONLY,
        string(
            "replica.selector.class",
            None,
            "The Java class that picks the replica a consumer reads from.",
        ),
    ),
    integer(
        "controller.quorum.election.timeout.ms",
        1_000,
        "How long controllers wait for a leader before they elect one.",
        at_least(0),
    ),
    integer(
        "controller.quorum.election.backoff.max.ms",
        1_000,
        "The longest rest between two elections of a controller.",
        at_least(0),
    ),
    integer(
        "controller.quorum.fetch.timeout.ms",
        2_000,
        "How long a controller may go without news of the leader.",
        at_least(0),
    ),
    integer(
        "controller.quorum.request.timeout.ms",
        2_000,
        "How long a controller waits for an answer.",
        at_least(0),
    ),
    integer(
        "controller.quorum.retry.backoff.ms",
        20,
        "How long a controller rests before it asks again.",
        at_least(0),
    ),
    boolean(
        "controller.quorum.auto.join.enable",
        False,
        "Let a new controller join the voters by itself, where the log names them.",
    ),
    *without_effect(
        FIXED_FETCHES,
        integer(
            "controller.quorum.fetch.snapshot.max.bytes",
            1_048_576,
            "The most of a snapshot a controller fetches at once.",
            at_least(1),
        ),
    ),
    long(
        "metadata.log.max.record.bytes.between.snapshots",
        20_971_520,
        "Bytes of metadata after which a snapshot is taken.",
        at_least(1),
    ),
    long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "The longest time between two snapshots of the metadata, while there are changes.",
        at_least(0),
    ),
    long(
        "metadata.max.retention.bytes",
        104_857_600,
        "Bytes of the metadata log and its snapshots from which on old ones are removed; the newest"
        " snapshot stays. Negative: no limit.",
    ),
    long(
        "metadata.max.retention.ms",
        604_800_000,
        "How old a snapshot of the metadata may become before it is removed, with the log up to the"
        " next one; the newest stays. Negative: no limit.",
    ),
    *without_effect(
        FIXED_LOG,
        integer(
            "controller.quorum.append.linger.ms",
            25,
            "How long the controller gathers changes before it writes them.",
            at_least(0),
        ),
        integer(
            "metadata.log.segment.bytes",
            1_073_741_824,
            "The size of one segment of the metadata.",
            at_least(8_388_608),
        ),
        long(
            "metadata.log.segment.ms", 604_800_000, "How old a segment of the metadata may become."
        ),
        integer(
            "metadata.max.idle.interval.ms",
            500,
            "How often an idle controller writes a record to show that it lives.",
            at_least(0),
        ),
        *internal(
            long(
                "internal.metadata.delete.delay.millis",
                60_000,
                "How long a removed segment of the metadata stays on the disk.",
            ),
            integer(
                "internal.metadata.log.segment.bytes",
                None,
                "The size of one segment of the metadata, for Kafka's own tests.",
            ),
            integer(
                "internal.metadata.max.batch.size.in.bytes",
                8_388_608,
                "The largest batch of metadata.",
            ),
        ),
    ),
    *without_effect(
        NOT_THERE,
        *internal(
            long(
                "controller.performance.always.log.threshold.ms",
                2_000,
                "Log each controller event that takes longer than this.",
                at_least(0),
            ),
            long(
                "controller.performance.sample.period.ms",
                60_000,
                "How often the controller logs its performance.",
                at_least(100),
            ),
            long(
                "server.max.startup.time.ms", LONG_MAX, "How long the start may take.", at_least(0)
            ),
            boolean(
                "unstable.feature.versions.enable",
                False,
                "Offer levels of features that are still being developed.",
            ),
        ),
    ),
)
