"""`kafka-leader-election`: elects the preferred replicas of partitions, or unclean leaders."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import exception_name
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    CommandFailed,
    client_settings,
    cluster_options,
    fitting,
    names_cluster,
    parse,
    what_of,
)
from moldau.cli.operations.connecting import run_with_admin

ABOUT: Final = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections"
    " supported are preferred replicas and unclean replicas."
)
TIMEOUTS: Final = {"default.api.timeout.ms": 30_000, "request.timeout.ms": 15_000}
"""Kafka's command waits this long, unless the file of settings says otherwise."""
TYPES: Final = ("PREFERRED", "UNCLEAN")
CHOICES: Final = ("topic", "all-topic-partitions", "path-to-json-file")
"""What says for which partitions: one of these."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text(
            "election-type", "election type",
            "preferred, where another replica leads than the first one; or unclean, where there is"
            " no leader: acknowledged records may be lost.",
        ),
        text("topic", "topic name", "The topic of one partition."),
        number("partition", "partition id", "The partition of that topic."),
        flag("all-topic-partitions", "All partitions that need an election."),
        text(
            "path-to-json-file", "Path to JSON file",
            'For which partitions: {"partitions": [{"topic": "t", "partition": 1}]}.',
        ),
    ]
)  # fmt: skip

Partitions = list[tuple[str, int]] | None
"""None means all."""


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, ABOUT, console)
    _check(options)
    election_type = _election_type(options)
    partitions = _partitions(options)

    async def elect(admin: client.AsyncAdmin) -> None:
        try:
            results = await admin.elect_leaders(
                partitions, election_type=client.ElectionType[election_type]
            )
        except client.RequestTimedOut:
            raise _failed("Timeout waiting for election results", console) from None
        except client.ClusterAuthorizationFailed:
            raise _failed("Not authorized to perform leader election", console) from None
        _say(results, election_type, console)

    settings = TIMEOUTS | client_settings(options, console)
    run_with_admin(fitting(client.AsyncAdmin, settings), elect)
    return 0


def _failed(message: str, console: Console) -> CommandFailed:
    """Say a failure on standard output too, as Kafka's command does."""
    console.say(message)
    return CommandFailed(message)


def _check(options: Options) -> None:
    """Refuse options that are missing or do not go together, in Kafka's words and order."""
    missing = [] if names_cluster(options) else ["bootstrap-server"]
    missing += [] if options.has("election-type") else ["election-type"]
    if not missing:
        if sum(map(options.has, CHOICES)) != 1:
            raise CommandFailed(
                f"One and only one of the following options is required: {', '.join(CHOICES)}"
            )
        missing = ["partition"] if options.has("topic") and not options.has("partition") else []
    if missing:
        raise CommandFailed(f"Missing required option(s): {', '.join(missing)}")
    if options.has("partition") and not options.has("topic"):
        raise CommandFailed("Option partition is only allowed if topic is used")


def _election_type(options: Options) -> str:
    given = options.text("election-type")
    if given.upper() not in TYPES:
        raise CommandFailed(f"Cannot parse argument '{given}' of option election-type")
    return given.upper()


def _partitions(options: Options) -> Partitions:
    if (file := options.value("path-to-json-file")) is not None:
        return read_partitions(file)
    partition = options.number("partition")
    return None if partition is None else [(options.text("topic"), partition)]


def read_partitions(file: str) -> Partitions:
    """Read for which partitions to elect leaders."""
    try:
        given: Any = json.loads(Path(file).read_text())
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}") from None
    except ValueError:
        raise CommandFailed("Replica election data is empty") from None
    if not isinstance(given, dict) or "partitions" not in given:
        raise CommandFailed('Replica election data is missing "partitions" field')
    if not isinstance(given["partitions"], list):
        raise CommandFailed(f'{file}: "partitions" is no list')
    partitions = []
    for one in given["partitions"]:
        try:
            partitions.append((str(one["topic"]), int(one["partition"])))
        except (KeyError, TypeError, ValueError):
            raise CommandFailed(f"{file}: {one} does not name topic and partition") from None
    twice = [one for one, count in Counter(partitions).items() if count > 1]
    if twice:
        raise CommandFailed(
            f"Replica election data contains duplicate partitions: [{_listed(twice)}]"
        )
    return partitions


def _say(
    results: client.Results[client.TopicPartition, None], election_type: str, console: Console
) -> None:
    """Say what became of each partition; CommandFailed if a leader could not be elected."""
    failed = {
        partition: error
        for partition, error in results.errors.items()
        if not isinstance(error, client.ElectionNotNeeded)
    }
    unchanged = results.errors.keys() - failed.keys()
    if results.ok:
        console.say(
            f"Successfully completed leader election ({election_type}) for partitions"
            f" {_listed(sorted(results.ok))}"
        )
    if unchanged:
        console.say(f"Valid replica already elected for partitions {_listed(sorted(unchanged))}")
    for partition, error in failed.items():
        console.say(
            f"Error completing leader election ({election_type}) for partition: {partition}:"
            f" {exception_name(error)}: {what_of(error)}"
        )
    if failed:
        raise CommandFailed(f"{len(failed)} replica(s) could not be elected")


def _listed(partitions: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
