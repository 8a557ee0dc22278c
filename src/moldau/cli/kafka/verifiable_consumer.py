"""`kafka-verifiable-consumer`: reads a topic as a member of a group, and tells all that happens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import Any, Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    client_settings,
    cluster_options,
    fitting,
    require_cluster,
    what_of,
)
from moldau.cli.kafka.verifiable import AT_ONCE, Events, Stop, parse_or_help, start

ABOUT: Final = (
    "This tool consumes messages from a specific topic and emits consumer events (e.g. group"
    " rebalances, received messages, and offsets committed) as JSON objects to STDOUT."
)
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"
POLL_MS: Final = 200
"""How long a signal may wait to be noticed while nothing comes."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic", "TOPIC", "The topic."),
        text("group-id", "GROUP_ID", "The group."),
        text("group-instance-id", "GROUP_INSTANCE_ID", "Be a static member by this name."),
        text("group-protocol", "GROUP_PROTOCOL", "How the group is run.", default="classic"),
        text("group-remote-assignor", "GROUP_REMOTE_ASSIGNOR",
             "Who divides partitions in the protocol consumer."),
        number("max-messages", "MAX-MESSAGES", "How many to read; -1 for no end.", default=-1),
        number("session-timeout", "TIMEOUT_MS", "How long a member may be silent."),
        flag("verbose", "Tell of every record."),
        flag("enable-autocommit", "Commit now and then, not after every poll."),
        text("reset-policy", "", "Where to begin without an offset: earliest, latest, none.",
             default="earliest"),
        text("assignment-strategy", "", "Who divides partitions in the protocol classic.",
             default=RANGE),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse_or_help(PARSER, arguments, ABOUT, console)
    options.require("topic", "group-id")
    require_cluster(options)
    settings = AT_ONCE | client_settings(options, console) | _typed(options)

    consumer: client.Consumer[Any, Any] = client.Consumer(**fitting(client.Consumer, settings))
    events = Events(console)
    with Stop() as stop:
        try:
            _Reading(options, events, stop).run(consumer)
        except MoldauError as error:
            # Kafka's command ends well here too: its readers look at the events.
            console.warn(f"Error during processing, terminating consumer process: {error}")
        finally:
            if stop.came:
                events.tell("shutdown_requested")
            consumer.close()
        events.tell("shutdown_complete")
        if not stop.came:
            # Kafka's command says so of every end, in a hook that comes last where nobody asked.
            events.tell("shutdown_requested")
        return stop.status


def _typed(options: Options) -> dict[str, str]:
    settings = {
        "group.id": options.text("group-id"),
        "group.protocol": options.text("group-protocol").lower(),
        "enable.auto.commit": str(options.has("enable-autocommit")).lower(),
        "auto.offset.reset": options.text("reset-policy"),
        "partition.assignment.strategy": options.text("assignment-strategy"),
    }
    if (silence_ms := options.value("session-timeout")) is not None:
        settings["session.timeout.ms"] = silence_ms
    if (instance := options.value("group-instance-id")) is not None:
        settings["group.instance.id"] = instance
    return settings


class _Reading:
    """Polls, tells and commits until it is enough; told of rebalances as well."""

    def __init__(self, options: Options, events: Events, stop: Stop) -> None:
        self._topic = options.text("topic")
        given = options.number("max-messages")
        self._left = None if given is None or given < 0 else given
        self._is_verbose = options.has("verbose")
        self._commits = not options.has("enable-autocommit")
        self._events = events
        self._stop = stop

    def run(self, consumer: client.Consumer[Any, Any]) -> None:
        self._events.tell("startup_complete")
        start(consumer, self._stop)
        if self._stop.came:
            return
        consumer.subscribe([self._topic], listener=self)
        while not self._stop.came and self._events.is_read and self._left != 0:
            records = consumer.poll(timeout_ms=POLL_MS, max_records=self._left)
            if records:
                self._take(consumer, records)

    def on_partitions_assigned(self, partitions: AbstractSet[client.TopicPartition]) -> None:
        """Tell what has come."""
        self._events.tell("partitions_assigned", partitions=_named(partitions))

    def on_partitions_revoked(self, partitions: AbstractSet[client.TopicPartition]) -> None:
        """Tell what goes."""
        self._events.tell("partitions_revoked", partitions=_named(partitions))

    def _take(
        self, consumer: client.Consumer[Any, Any], records: list[client.Record[Any, Any]]
    ) -> None:
        summaries: list[dict[str, Any]] = []
        offsets: dict[tuple[str, int], int] = {}
        for place, alike in groupby(sorted(records, key=_place), key=_place):
            found = list(alike)
            offsets[place] = found[-1].offset + 1
            summaries.append(
                {
                    **_partition(place),
                    "count": len(found),
                    "minOffset": found[0].offset,
                    "maxOffset": found[-1].offset,
                }
            )
            if self._is_verbose:
                self._tell_each(found)
        self._events.tell("records_consumed", count=len(records), partitions=summaries)
        if self._left is not None:
            self._left -= len(records)
        if self._commits:
            self._commit(consumer, offsets)

    def _tell_each(self, records: Iterable[client.Record[Any, Any]]) -> None:
        for record in records:
            self._events.tell(
                "record_data",
                key=_text(record.key),
                value=_text(record.value),
                **_partition(_place(record)),
                offset=record.offset,
            )

    def _commit(
        self, consumer: client.Consumer[Any, Any], offsets: dict[tuple[str, int], int]
    ) -> None:
        told = [{**_partition(place), "offset": offset} for place, offset in offsets.items()]
        try:
            consumer.commit(offsets)
        except client.FencedInstanceId:
            raise
        except client.ClientError as error:
            what = what_of(error)
            self._events.tell("offsets_committed", offsets=told, error=what, success=False)
        else:
            self._events.tell("offsets_committed", offsets=told, success=True)


def _place(record: client.Record[Any, Any]) -> tuple[str, int]:
    return record.topic, record.partition


def _partition(place: tuple[str, int]) -> dict[str, Any]:
    topic, partition = place
    return {"topic": topic, "partition": partition}


def _named(partitions: Iterable[client.TopicPartition]) -> list[dict[str, Any]]:
    return [_partition(one) for one in sorted(partitions)]


def _text(part: bytes | None) -> str | None:
    return None if part is None else part.decode(errors="replace")
