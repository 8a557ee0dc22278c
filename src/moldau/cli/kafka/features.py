"""`kafka-features`: shows the features of the cluster, and sets them to other levels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.feature_releases import (
    METADATA_VERSION,
    level_name,
    levels_of_release,
    metadata_level_of,
)
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    BOOTSTRAP_CONTROLLER,
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    what_of,
    with_admin,
)

ABOUT: Final = "This tool manages feature flags in Kafka: describe, upgrade, downgrade or disable."
CHANGES: Final = ("upgrade", "downgrade", "disable")
ABSENT: Final = ("version-mapping", "feature-dependencies")
OPTIONS_OF: Final = {
    "node-id": ("describe",),
    "metadata": ("upgrade", "downgrade"),
    "release-version": ("upgrade", "downgrade"),
    "feature": CHANGES,
    "unsafe": ("downgrade", "disable"),
    "dry-run": CHANGES,
}
"""The options that not every action has."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        BOOTSTRAP_CONTROLLER,
        number("node-id", "node id", "The broker to ask.", former=("n",)),
        text("metadata", "release", "Deprecated: the level of metadata.version, such as 4.0-IV3."),
        text("release-version", "release", "Set all features to those of a release, such as 4.3."),
        text("feature", "feature=level", "A feature and its level; to disable, its name alone."),
        flag("unsafe", "Go down even if metadata may be lost."),
        flag("dry-run", "Say what would happen, and do not do it."),
    ]
)

_SHORT: Final = re.compile(r"[+-]?[0-9]{1,5}")
_SHORT_MAX: Final = 32_767


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, ABOUT, console)
    action = options.words[0] if options.words else ""
    if action in ABSENT:
        raise CommandFailed(f"Moldau does not have this yet: {action} of features")
    if action not in ("describe", *CHANGES):
        raise options.error(f"invalid choice: '{action}'" if action else "too few arguments")
    for name, actions in OPTIONS_OF.items():
        if options.has(name) and action not in actions:
            raise options.error(f"unrecognized arguments: '--{name}'")
    require_cluster(options)
    return (
        _describe(options, console) if action == "describe" else _change(action, options, console)
    )


def _describe(options: Options, console: Console) -> int:
    async def describe(admin: client.AsyncAdmin) -> None:
        found = await admin.describe_features(broker_id=options.number("node-id"))
        epoch = "-" if found.finalized_epoch is None else found.finalized_epoch
        for name, span in sorted(found.supported.items()):
            level = found.finalized[name].last if name in found.finalized else 0
            console.say(
                f"Feature: {name:<40}  SupportedMinVersion: {level_name(name, span.first):<15} "
                f" SupportedMaxVersion: {level_name(name, span.last):<15} "
                f" FinalizedVersionLevel: {level_name(name, level):<15}  Epoch: {epoch}"
            )

    return with_admin(options, console, describe)


def _change(action: str, options: Options, console: Console) -> int:
    levels = _disabled(options) if action == "disable" else _wanted(action, options, console)
    if not levels:
        raise CommandFailed(f"You must specify at least one feature to {action}")
    is_dry = options.has("dry-run")

    async def change(admin: client.AsyncAdmin) -> None:
        kinds = client.UpgradeType
        kind = kinds.UNSAFE_DOWNGRADE if options.has("unsafe") else kinds.SAFE_DOWNGRADE
        results = await admin.update_features(
            levels,
            upgrade_type=kinds.UPGRADE if action == "upgrade" else kind,
            validate_only=is_dry,
        )
        for name in sorted(levels):
            target = "" if action == "disable" else f" to {levels[name]}"
            if name in results.errors:
                could = "Can not" if is_dry else "Could not"
                console.say(f"{could} {action} {name}{target}. {what_of(results.errors[name])}")
            else:
                done = "can be" if is_dry else "was"
                console.say(f"{name} {done} {action}d{target}.")
        if results.errors:
            raise CommandFailed(f"{len(results.errors)} out of {len(levels)} operation(s) failed.")

    return with_admin(options, console, change)


def _disabled(options: Options) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name in options.values("feature"):
        _add(levels, name, 0)
    return levels


def _wanted(action: str, options: Options, console: Console) -> dict[str, int]:
    release = options.value("release-version")
    if release is not None:
        if options.has("metadata") or options.has("feature"):
            raise CommandFailed("Can not specify `release-version` with other feature flags.")
        all_levels = levels_of_release(metadata_level_of(release))
        # Nothing is upgraded to level 0.
        return {name: level for name, level in all_levels.items() if level or action != "upgrade"}
    levels: dict[str, int] = {}
    metadata = options.value("metadata")
    if metadata is not None:
        console.say(" `metadata` flag is deprecated and may be removed in a future release.")
        _add(levels, METADATA_VERSION, metadata_level_of(metadata))
    for given in options.values("feature"):
        _add(levels, *_name_and_level(given))
    return levels


def _add(levels: dict[str, int], name: str, level: int) -> None:
    if name in levels:
        raise CommandFailed(f"Feature {name} was specified more than once.")
    levels[name] = level


def _name_and_level(given: str) -> tuple[str, int]:
    name, equals, level = (part.strip() for part in given.partition("="))
    if not equals:
        raise CommandFailed(f"Can't parse feature=level string {given}: equals sign not found.")
    if not _SHORT.fullmatch(level) or abs(int(level)) > _SHORT_MAX:
        raise CommandFailed(
            f"Can't parse feature=level string {given}: unable to parse {level} as a short."
        )
    return name, int(level)
