"""Configs of groups of every kind, of their offsets and of the share coordinator's state."""

from __future__ import annotations

from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    at_least,
    between,
    cluster_wide,
    integer,
    internal,
    list_of,
    long,
    names,
    one_of_any_case,
    short,
    string,
    without_effect,
)

INT_MAX: Final = 2**31 - 1
ONLY_CLASSIC: Final = "only the classic group protocol is part of this version"

GROUPS: tuple[ConfigDefinition, ...] = (
    integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long a new group waits for more members before its first rebalance.",
    ),
    integer(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session timeout a member may ask for.",
    ),
    integer(
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session timeout a member may ask for.",
    ),
    integer("group.max.size", INT_MAX, "The most members of a group.", at_least(1)),
    integer(
        "offset.metadata.max.bytes",
        4_096,
        "The longest note a member may leave with a committed offset.",
    ),
    integer(
        "offsets.commit.timeout.ms",
        5_000,
        "How long a commit waits for the replicas of the offsets topic.",
        at_least(1),
    ),
    integer(
        "offsets.load.buffer.size",
        5_242_880,
        "How much of the offsets topic is read at once when it is loaded.",
        at_least(1),
    ),
    integer(
        "offsets.retention.minutes",
        10_080,
        "How long the offsets of an empty group are kept.",
        at_least(1),
    ),
    long(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often old offsets are looked for.",
        at_least(1),
    ),
    integer("offsets.topic.compression.codec", 0, "The codec of the offsets topic, as a number."),
    integer("offsets.topic.num.partitions", 50, "Partitions of the offsets topic.", at_least(1)),
    short("offsets.topic.replication.factor", 3, "Replicas of the offsets topic.", at_least(1)),
    integer(
        "offsets.topic.segment.bytes",
        104_857_600,
        "The segment size of the offsets topic.",
        at_least(1),
    ),
    *without_effect(
        ONLY_CLASSIC,
        names(
            "group.coordinator.rebalance.protocols",
            ("classic", "consumer", "streams"),
            "The group protocols to offer.",
            list_of("classic", "consumer", "share", "streams"),
        ),
        integer("group.coordinator.threads", 4, "Threads of the group coordinator.", at_least(1)),
        integer(
            "group.coordinator.background.threads",
            2,
            "Threads for the group coordinator's chores.",
            at_least(1),
        ),
        integer(
            "group.coordinator.append.linger.ms",
            -1,
            "How long the group coordinator gathers writes; -1 lets it choose.",
            at_least(-1),
        ),
        names(
            "group.consumer.assignors",
            ("uniform", "range"),
            "Assignors of the consumer protocol, the default first.",
        ),
        string(
            "group.consumer.migration.policy",
            "bidirectional",
            "Which ways a group may change between the classic and the consumer protocol.",
            one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        ),
        integer(
            "group.consumer.max.size", INT_MAX, "The most members of a consumer group.", at_least(1)
        ),
        integer(
            "group.consumer.session.timeout.ms",
            45_000,
            "How long a silent member stays in a consumer group.",
            at_least(1),
        ),
        integer(
            "group.consumer.min.session.timeout.ms",
            45_000,
            "The lower bound of a consumer group's session timeout.",
            at_least(1),
        ),
        integer(
            "group.consumer.max.session.timeout.ms",
            60_000,
            "The upper bound of a consumer group's session timeout.",
            at_least(1),
        ),
        integer(
            "group.consumer.heartbeat.interval.ms",
            5_000,
            "How often members of a consumer group report.",
            at_least(1),
        ),
        integer(
            "group.consumer.min.heartbeat.interval.ms",
            5_000,
            "The lower bound of a consumer group's heartbeat interval.",
            at_least(1),
        ),
        integer(
            "group.consumer.max.heartbeat.interval.ms",
            15_000,
            "The upper bound of a consumer group's heartbeat interval.",
            at_least(1),
        ),
        integer(
            "group.consumer.min.assignment.interval.ms",
            0,
            "The lower bound of a consumer group's assignment interval.",
            at_least(0),
        ),
        integer(
            "group.consumer.max.assignment.interval.ms",
            15_000,
            "The upper bound of a consumer group's assignment interval.",
            at_least(0),
        ),
        names("group.share.assignors", ("simple",), "Assignors of share groups."),
        integer(
            "group.share.max.size", 200, "The most members of a share group.", between(1, 1_000)
        ),
        integer(
            "group.share.max.share.sessions",
            2_000,
            "The most share sessions of a broker.",
            at_least(1),
        ),
        integer(
            "group.share.session.timeout.ms",
            45_000,
            "How long a silent member stays in a share group.",
            at_least(1),
        ),
        integer(
            "group.share.min.session.timeout.ms",
            45_000,
            "The lower bound of a share group's session timeout.",
            at_least(1),
        ),
        integer(
            "group.share.max.session.timeout.ms",
            60_000,
            "The upper bound of a share group's session timeout.",
            at_least(1),
        ),
        integer(
            "group.share.heartbeat.interval.ms",
            5_000,
            "How often members of a share group report.",
            at_least(1),
        ),
        integer(
            "group.share.min.heartbeat.interval.ms",
            5_000,
            "The lower bound of a share group's heartbeat interval.",
            at_least(1),
        ),
        integer(
            "group.share.max.heartbeat.interval.ms",
            15_000,
            "The upper bound of a share group's heartbeat interval.",
            at_least(1),
        ),
        integer(
            "group.share.min.assignment.interval.ms",
            0,
            "The lower bound of a share group's assignment interval.",
            at_least(0),
        ),
        integer(
            "group.share.max.assignment.interval.ms",
            15_000,
            "The upper bound of a share group's assignment interval.",
            at_least(0),
        ),
        integer(
            "group.share.delivery.count.limit",
            5,
            "How often a record is delivered to a share group before it is given up.",
            between(2, 10),
        ),
        integer(
            "group.share.min.delivery.count.limit",
            2,
            "The lower bound of a share group's delivery count.",
            between(2, 5),
        ),
        integer(
            "group.share.max.delivery.count.limit",
            10,
            "The upper bound of a share group's delivery count.",
            between(5, 25),
        ),
        integer(
            "group.share.partition.max.record.locks",
            2_000,
            "The most records of a partition a share group holds at once.",
            between(100, 10_000),
        ),
        integer(
            "group.share.min.partition.max.record.locks",
            100,
            "The lower bound of a share group's record locks.",
            between(100, 2_000),
        ),
        integer(
            "group.share.max.partition.max.record.locks",
            4_000,
            "The upper bound of a share group's record locks.",
            between(2_000, 10_000),
        ),
        integer(
            "group.share.record.lock.duration.ms",
            30_000,
            "How long a record is held for a member of a share group.",
            between(1_000, 3_600_000),
        ),
        integer(
            "group.share.min.record.lock.duration.ms",
            15_000,
            "The lower bound of a share group's lock duration.",
            between(1_000, 30_000),
        ),
        integer(
            "group.share.max.record.lock.duration.ms",
            60_000,
            "The upper bound of a share group's lock duration.",
            between(30_000, 3_600_000),
        ),
        integer(
            "group.streams.max.size", INT_MAX, "The most members of a streams group.", at_least(1)
        ),
        integer(
            "group.streams.initial.rebalance.delay.ms",
            3_000,
            "How long a new streams group waits for more members.",
            at_least(0),
        ),
        integer(
            "group.streams.num.standby.replicas",
            0,
            "Standby copies of each task of a streams group.",
            at_least(0),
        ),
        integer(
            "group.streams.max.standby.replicas",
            2,
            "The upper bound of a streams group's standby copies.",
            at_least(0),
        ),
        integer(
            "group.streams.session.timeout.ms",
            45_000,
            "How long a silent member stays in a streams group.",
            at_least(1),
        ),
        integer(
            "group.streams.min.session.timeout.ms",
            45_000,
            "The lower bound of a streams group's session timeout.",
            at_least(1),
        ),
        integer(
            "group.streams.max.session.timeout.ms",
            60_000,
            "The upper bound of a streams group's session timeout.",
            at_least(1),
        ),
        integer(
            "group.streams.heartbeat.interval.ms",
            5_000,
            "How often members of a streams group report.",
            at_least(1),
        ),
        integer(
            "group.streams.min.heartbeat.interval.ms",
            5_000,
            "The lower bound of a streams group's heartbeat interval.",
            at_least(1),
        ),
        integer(
            "group.streams.max.heartbeat.interval.ms",
            15_000,
            "The upper bound of a streams group's heartbeat interval.",
            at_least(1),
        ),
        integer(
            "group.streams.min.assignment.interval.ms",
            0,
            "The lower bound of a streams group's assignment interval.",
            at_least(0),
        ),
        integer(
            "group.streams.max.assignment.interval.ms",
            15_000,
            "The upper bound of a streams group's assignment interval.",
            at_least(0),
        ),
        integer(
            "share.coordinator.append.linger.ms",
            -1,
            "How long the share coordinator gathers writes; -1 lets it choose.",
            at_least(-1),
        ),
        integer(
            "share.coordinator.load.buffer.size",
            5_242_880,
            "How much of the share state topic is read at once when it is loaded.",
            at_least(1),
        ),
        integer(
            "share.coordinator.snapshot.update.records.per.snapshot",
            500,
            "Updates of share state between two snapshots.",
            between(0, 500),
        ),
        integer(
            "share.coordinator.state.topic.compression.codec",
            0,
            "The codec of the share state topic, as a number.",
        ),
        short(
            "share.coordinator.state.topic.min.isr",
            2,
            "In-sync replicas a write to the share state topic needs.",
            at_least(1),
        ),
        integer(
            "share.coordinator.state.topic.num.partitions",
            50,
            "Partitions of the share state topic.",
            at_least(1),
        ),
        short(
            "share.coordinator.state.topic.replication.factor",
            3,
            "Replicas of the share state topic.",
            at_least(1),
        ),
        integer(
            "share.coordinator.state.topic.segment.bytes",
            104_857_600,
            "The segment size of the share state topic.",
            at_least(1),
        ),
        integer("share.coordinator.threads", 1, "Threads of the share coordinator.", at_least(1)),
        integer(
            "share.coordinator.write.timeout.ms",
            5_000,
            "How long a write to the share state topic waits for its replicas.",
            at_least(1),
        ),
        *cluster_wide(
            integer(
                "group.coordinator.cached.buffer.max.bytes",
                1_048_588,
                "The largest buffer the group coordinator keeps for reuse.",
                at_least(524_288),
            ),
            integer(
                "group.consumer.assignment.interval.ms",
                1_000,
                "The shortest time between two assignments of a consumer group.",
                at_least(0),
            ),
            integer(
                "group.share.assignment.interval.ms",
                1_000,
                "The shortest time between two assignments of a share group.",
                at_least(0),
            ),
            integer(
                "group.streams.assignment.interval.ms",
                1_000,
                "The shortest time between two assignments of a streams group.",
                at_least(0),
            ),
            integer(
                "share.coordinator.cached.buffer.max.bytes",
                1_048_588,
                "The largest buffer the share coordinator keeps for reuse.",
                at_least(524_288),
            ),
        ),
        *internal(
            integer(
                "group.consumer.regex.refresh.interval.ms",
                600_000,
                "How often subscriptions by pattern are resolved again.",
                at_least(10_000),
            ),
            string(
                "group.share.persister.class.name",
                "org.apache.kafka.server.share.persister.DefaultStatePersister",
                "The Java class that keeps the state of share groups.",
            ),
            integer(
                "group.share.initialize.retry.interval.ms",
                30_000,
                "How long after a failure a share group's state is set up again.",
                at_least(1),
            ),
            integer(
                "share.coordinator.cold.partition.snapshot.interval.ms",
                300_000,
                "How often idle share partitions are written as snapshots.",
                at_least(1),
            ),
            integer(
                "share.coordinator.state.topic.prune.interval.ms",
                300_000,
                "How often share state that is no longer needed is removed.",
                at_least(1),
            ),
        ),
    ),
)
