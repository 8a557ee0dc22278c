"""`kafka-log-dirs`: what lies in the log directories of brokers, as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import exception_name
from moldau.cli.kafka.options import OptionParser, flag, text
from moldau.cli.kafka.running import (
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    with_admin,
)

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        flag("describe", "Show log directories."),
        text("topic-list", "Topic list", "Topics, with commas; all if left out.", default=""),
        text("broker-list", "Broker list", "Ids of brokers; all if left out.", default=""),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool helps to query log directory usage on the specified brokers."
    options = parse(PARSER, arguments, about, console)
    require_cluster(options)
    options.require("describe")
    topics = {one for one in options.text("topic-list").split(",") if one}
    try:
        wanted = [int(one) for one in options.text("broker-list").split(",") if one]
    except ValueError:
        raise CommandFailed(f"{options.text('broker-list')} is not a list of brokers") from None

    async def describe(admin: client.AsyncAdmin) -> None:
        known = [broker.broker_id for broker in (await admin.describe_cluster()).brokers]
        absent = [str(one) for one in wanted if one not in known]
        if absent:
            raise CommandFailed(
                f"ERROR: The given brokers do not exist from --broker-list: {','.join(absent)}."
                f" Current existent brokers: {','.join(map(str, known))}"
            )
        asked = sorted(set(wanted)) or known
        console.say("Querying brokers for log directories information")
        found = (await admin.describe_log_dirs(asked)).or_raise()
        listed = ",".join(map(str, asked))
        console.say(f"Received log directory information from brokers {listed}")
        shown = [
            {"broker": broker, "logDirs": _log_dirs(found[broker], topics)} for broker in asked
        ]
        text_of_all = json.dumps(_ordered({"version": 1, "brokers": shown}), separators=(",", ":"))
        console.say(text_of_all)

    return with_admin(options, console, describe)


def _log_dirs(found: Sequence[client.LogDirDescription], topics: set[str]) -> list[dict[str, Any]]:
    by_path = {one.path: one for one in found}
    shown = []
    for path in client.texts_in_hash_order(by_path):
        one = by_path[path]
        kept = [place for place in one.replicas if not topics or place.topic in topics]
        partitions = [
            {
                "partition": str(place),
                "size": one.replicas[place].size,
                "offsetLag": one.replicas[place].offset_lag,
                "isFuture": one.replicas[place].is_future,
            }
            for place in client.partitions_in_hash_order(kept)
        ]
        error = exception_name(one.error) if one.error is not None else None
        shown.append({"logDir": path, "error": error, "partitions": partitions})
    return shown


def _ordered(value: Any) -> Any:
    """Put the names of objects into the order in which Kafka's command writes them."""
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in client.texts_in_hash_order(value.keys())}
    return [_ordered(one) for one in value] if isinstance(value, list) else value
