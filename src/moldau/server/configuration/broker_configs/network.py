"""Configs of listeners, connections and requests."""

from __future__ import annotations

import re
from typing import Final

from moldau.server.configuration.definition import (
    ConfigDefinition,
    Value,
    at_least,
    boolean,
    cluster_wide,
    integer,
    internal,
    long,
    names,
    one_of,
    split_list,
    string,
    without_effect,
)

INT_MAX: Final = 2**31 - 1
ONE_LOOP: Final = "one event loop does the work of these threads and queues"
NO_RATE: Final = "connections are limited in number, not in rate"
OTHER_TIMEOUTS: Final = (
    "brokers wait for each other by controller.socket.timeout.ms and replica.socket.timeout.ms"
)
NO_EARLY: Final = "listeners open together: there is no authoriser to wait for"
NO_UNSTABLE: Final = "nothing unstable is offered"

HOST_LIMIT: Final = re.compile(r"(?P<host>\[[^\[\],]+\]|[^\[\],]+):(?P<count>[0-9]{1,9})")
"""HOST:COUNT, with an IPv6 address in brackets."""


def _host_limits(value: Value) -> str | None:
    assert isinstance(value, str)
    for entry in split_list(value):
        if not HOST_LIMIT.fullmatch(entry):
            return f"{entry!r} is not HOST:COUNT"
    return None


NETWORK: tuple[ConfigDefinition, ...] = (
    names(
        "listeners",
        ("PLAINTEXT://:9092",),
        "Addresses to listen on: NAME://HOST:PORT, with commas; no host means every interface.",
    ),
    names(
        "advertised.listeners",
        None,
        "Addresses that clients are told, where they differ from listeners.",
    ),
    string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name: NAME:PROTOCOL, with commas.",
    ),
    string("inter.broker.listener.name", None, "The listener brokers use among themselves."),
    string(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "The protocol brokers use among themselves where no listener is named for it.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    integer(
        "socket.listen.backlog.size",
        50,
        "Connections the system keeps waiting until they are accepted.",
        at_least(1),
    ),
    integer(
        "socket.receive.buffer.bytes",
        102_400,
        "The receive buffer of a socket; -1 leaves it to the system.",
    ),
    integer(
        "socket.send.buffer.bytes",
        -1,  # Kafka: 102400, which takes six times the `sendfile` calls for a fetch (ADR 0019)
        "The send buffer of a socket; -1 leaves it to the system.",
    ),
    integer(
        "socket.request.max.bytes", 104_857_600, "The largest request that is read.", at_least(1)
    ),
    long(
        "connections.max.idle.ms",
        600_000,
        "How long a connection may be silent before it is closed.",
    ),
    *cluster_wide(
        integer(
            "max.connections", INT_MAX, "How many connections there may be at once.", at_least(0)
        ),
        integer(
            "max.connections.per.ip",
            INT_MAX,
            "How many connections one address may have at once.",
            at_least(0),
        ),
        string(
            "max.connections.per.ip.overrides",
            "",
            "Other limits for single addresses: HOST:COUNT, with commas.",
            _host_limits,
        ),
    ),
    integer("fetch.max.bytes", 57_671_680, "The most a fetch is answered with.", at_least(1_024)),
    integer(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        "How many fetch sessions are kept.",
        at_least(0),
    ),
    integer(
        "max.request.partition.size.limit",
        2_000,
        "The most partitions one DescribeTopicPartitions answer holds.",
        at_least(1),
    ),
    names(
        "config.providers",
        (),
        "Names of the places that values may refer to, such as env, file and dir.",
    ),
    long(
        "queued.max.request.bytes",
        256 * 1024 * 1024,
        "Bytes that requests and answers may take in memory, all connections together; beyond "
        "that, connections that need more are not read. -1 means without limit.",
    ),
    *without_effect(
        ONE_LOOP,
        *cluster_wide(
            integer(
                "num.network.threads",
                3,
                "Threads that read requests and write answers.",
                at_least(1),
            ),
            integer("num.io.threads", 8, "Threads that handle requests.", at_least(1)),
            integer("background.threads", 10, "Threads for chores.", at_least(1)),
        ),
        integer(
            "queued.max.requests",
            500,
            "Requests that may wait before the network threads stop reading.",
            at_least(1),
        ),
        integer(
            "fetch.purgatory.purge.interval.requests",
            1_000,
            "After how many requests finished fetches are swept out.",
        ),
        integer(
            "producer.purgatory.purge.interval.requests",
            1_000,
            "After how many requests finished produces are swept out.",
        ),
        integer(
            "delete.records.purgatory.purge.interval.requests",
            1,
            "After how many requests finished deletions of records are swept out.",
        ),
        integer(
            "share.fetch.purgatory.purge.interval.requests",
            1_000,
            "After how many requests finished share fetches are swept out.",
        ),
    ),
    *without_effect(
        NO_RATE,
        *cluster_wide(
            integer(
                "max.connection.creation.rate",
                INT_MAX,
                "How many connections are accepted per second.",
                at_least(0),
            ),
        ),
    ),
    *without_effect(
        OTHER_TIMEOUTS,
        long(
            "socket.connection.setup.timeout.ms",
            10_000,
            "How long opening a connection may take at first.",
        ),
        long(
            "socket.connection.setup.timeout.max.ms",
            30_000,
            "How long opening a connection may take after repeated failures.",
        ),
        integer(
            "request.timeout.ms",
            30_000,
            "How long this broker waits for the answer to a request of its own.",
        ),
    ),
    *without_effect(
        NO_EARLY,
        names("early.start.listeners", None, "Listeners to open before the authoriser is ready."),
    ),
    *without_effect(
        NO_UNSTABLE,
        *internal(
            boolean(
                "unstable.api.versions.enable",
                False,
                "Offer versions of requests that are still being developed.",
            ),
        ),
    ),
)
