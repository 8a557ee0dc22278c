"""`kafka-delete-records`: cuts off the beginning of partitions, as a JSON file says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import as_java_says
from moldau.cli.kafka.options import OptionParser, text
from moldau.cli.kafka.running import (
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    with_admin,
)

VERSION: Final = 1
PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text(
            "offset-json-file", "Offset json file path",
            'Where partitions shall begin: {"version": 1, "partitions":'
            ' [{"topic": "t", "partition": 1, "offset": 5}]}.',
        ),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = (
        "This tool helps to delete records of the given partitions down to the specified offset."
    )
    options = parse(PARSER, arguments, about, console)
    require_cluster(options)
    options.require("offset-json-file")
    wanted = read_offsets(options.text("offset-json-file"))

    async def delete(admin: client.AsyncAdmin) -> None:
        from moldau.engine.partitions import as_partitions  # noqa: PLC0415 - not for the help

        console.say("Executing records delete operation")
        results = await admin.delete_records(wanted)
        console.say("Records delete operation completed:")
        for partition in as_partitions(wanted):
            if partition in results.ok:
                console.say(f"partition: {partition}\tlow_watermark: {results.ok[partition]}")
            else:
                said = as_java_says(results.errors[partition])
                console.say(f"partition: {partition}\terror: {said}")

    return with_admin(options, console, delete)


def read_offsets(file: str) -> dict[tuple[str, int], int]:
    """Read which partition shall begin where."""
    try:
        given: Any = json.loads(Path(file).read_text())
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}") from None
    except ValueError:
        raise CommandFailed("The input string is not a valid JSON") from None
    if not isinstance(given, dict) or "partitions" not in given:
        raise CommandFailed("Missing partitions field")
    if given.get("version", VERSION) != VERSION:
        raise CommandFailed(f"Not supported version field value {given['version']}")
    offsets: dict[tuple[str, int], int] = {}
    twice = []
    for one in given["partitions"]:
        try:
            place = (str(one["topic"]), int(one["partition"]))
            twice += [f"{place[0]}-{place[1]}"] if place in offsets else []
            offsets[place] = int(one["offset"])
        except (KeyError, TypeError, ValueError):
            raise CommandFailed(
                f"{file}: {one} does not name topic, partition and offset"
            ) from None
    if twice:
        listed = ",".join(twice)
        raise CommandFailed(f"Offset json file contains duplicate topic partitions: {listed}")
    return offsets
