"""`kafka-features describe`: the features of the cluster and their levels in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, number
from moldau.cli.kafka.running import (
    BOOTSTRAP_CONTROLLER,
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    with_admin,
)

ABOUT: Final = "This tool manages feature flags in Kafka: describe."
METADATA_VERSION: Final = "metadata.version"
FIRST_LEVEL: Final = 7
RELEASES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0",
    "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
)  # fmt: skip
"""What Kafka 4.3 calls the levels of metadata.version, from the first that it knows."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        BOOTSTRAP_CONTROLLER,
        number("node-id", "node id", "The broker to ask.", former=("n",)),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, ABOUT, console)
    action = options.words[0] if options.words else ""
    if action in ("upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies"):
        raise CommandFailed(f"Moldau does not have this yet: {action} of features")
    if action != "describe":
        raise options.error(f"invalid choice: '{action}'" if action else "too few arguments")
    require_cluster(options)

    async def describe(admin: client.AsyncAdmin) -> None:
        found = await admin.describe_features(broker_id=options.number("node-id"))
        epoch = "-" if found.finalized_epoch is None else found.finalized_epoch
        for name, span in sorted(found.supported.items()):
            level = found.finalized[name].last if name in found.finalized else 0
            console.say(
                f"Feature: {name:<40}  SupportedMinVersion: {_level(name, span.first):<15} "
                f" SupportedMaxVersion: {_level(name, span.last):<15} "
                f" FinalizedVersionLevel: {_level(name, level):<15}  Epoch: {epoch}"
            )

    return with_admin(options, console, describe)


def _level(feature: str, level: int) -> str:
    if feature != METADATA_VERSION:
        return str(level)
    place = level - FIRST_LEVEL
    return RELEASES[place] if 0 <= place < len(RELEASES) else f"UNKNOWN {level}"
