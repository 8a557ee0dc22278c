"""`kafka-consumer-groups`: lists and describes groups, moves and deletes their offsets.

What goes wrong with brokers is a line `Error: ...` on standard output and no bad exit status: so it
is in Kafka, and scripts look at the line. Only a wrong command line ends with 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.group_tables import describe_groups
from moldau.cli.kafka.java_words import as_java_says, text_of
from moldau.cli.kafka.offset_reset import SCENARIOS, reset_offsets
from moldau.cli.kafka.options import Option, OptionError, OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    CommandFailed,
    client_settings,
    cluster_options,
    fitting,
    names_cluster,
    parse,
)
from moldau.cli.kafka.selection import named_partitions
from moldau.cli.kafka.text_tables import Column, table
from moldau.cli.operations.connecting import run_with_admin

ACTIONS: Final = (
    "list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex",
)  # fmt: skip
STATES: Final = {
    state.lower(): state
    for state in (
        "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning",
        "Reconciling",
    )
}  # fmt: skip
TYPES: Final = ("Classic", "Consumer")
NARROWEST: Final = 15
LIST_MARGIN: Final = 10
"""Of the column of groups: beyond the longest name."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("group", "consumer group", "The group; may be repeated."),
        flag("all-groups", "Every group there is."),
        text("topic", "topic", "A topic, or partitions of one: t, t:0,1; may be repeated."),
        flag("all-topics", "Every topic the group has offsets for."),
        flag("list", "List groups."),
        flag("describe", "Show offsets and lag, members or the state of groups."),
        flag("delete", "Delete groups with their offsets."),
        flag("reset-offsets", "Move the offsets of groups without members."),
        flag("delete-offsets", "Forget offsets of a group."),
        number("timeout", "timeout (ms)", "How long brokers may take.", default=30_000),
        flag("dry-run", "Show what --reset-offsets would do."),
        flag("execute", "Do what --reset-offsets shows."),
        flag("export", "Print what --reset-offsets shows as CSV."),
        number("to-offset", "offset", "Move to this offset."),
        text("from-file", "path to CSV file", "Move as the file says."),
        text("to-datetime", "datetime", "Move to the first record since 2026-01-31T12:00:00."),
        text("by-duration", "duration", "Move back by a time, as P1DT2H."),
        flag("to-earliest", "Move to the first record."),
        flag("to-latest", "Move behind the last record."),
        flag("to-current", "Stay; where there is no offset, move behind the last record."),
        number("shift-by", "number-of-offsets", "Move by so many records, back if negative."),
        flag("members", "Describe members."),
        flag("verbose", "Describe more of it."),
        flag("offsets", "Describe offsets; so it is without --members and --state."),
        Option("state", "Describe states; with --list, show states, or only those named.", "",
               argument_optional=True),
        Option("type", "With --list, show types, or only those named.", "",
               argument_optional=True),
        text("validate-regex", "regex", "Tell whether a regular expression is one."),
        flag("new-consumer", "Taken and not heeded: there is no other since 2.0."),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool helps to list, describe, delete and manage the offsets of consumer groups."
    options = parse(PARSER, arguments, about, console)
    _check(options, console)
    if options.has("validate-regex"):
        return _validate(options.text("validate-regex"), console)
    settings = client_settings(options, console)
    settings["default_api_timeout_ms"] = options.number("timeout")
    try:
        run_with_admin(
            fitting(client.AsyncAdmin, settings), lambda admin: _act(admin, options, console)
        )
    except CommandFailed as error:
        raise options.error(str(error)) from None
    except OptionError:
        raise
    except MoldauError as error:
        console.say(
            failure(f"Executing consumer group command failed due to {as_java_says(error)}")
        )
    return 0


def failure(what: str) -> str:
    """Return the lines that tell of a failure."""
    return f"\nError: {what}"


def _check(options: Options, console: Console) -> None:
    if not options.has("validate-regex") and not names_cluster(options):
        options.require("bootstrap-server")
    for name, needed in {
        "members": ("describe",), "verbose": ("describe",), "offsets": ("describe",),
        "state": ("describe", "list"), "type": ("list",),
    }.items():  # fmt: skip
        if options.has(name) and not any(map(options.has, needed)):
            raise options.error(
                f"Option(s) [{name}] are unavailable given other options on the command line"
            )
    _check_scopes(options)
    if options.has("reset-offsets"):
        _check_reset(options, console)
    options.exclude("group", "all-groups", "list")
    options.exclude("topic", "list", "describe")
    if sum(map(options.has, ACTIONS)) != 1:
        listed = ", ".join(f"--{action}" for action in ACTIONS)
        raise options.error(f"Command must include exactly one action: {listed}")


def _check_scopes(options: Options) -> None:
    scoped = options.has("group") or options.has("all-groups")
    for action in ("describe", "delete"):
        if options.has(action) and not scoped:
            raise options.error(
                f"Option [{action}] takes one of these options: [group], [all-groups]"
            )
    if options.has("describe"):
        if sum(map(options.has, ("members", "offsets", "state"))) > 1:
            raise options.error(
                "Option [describe] takes at most one of these options:"
                " [members], [offsets], [state]"
            )
        if options.value("state"):
            raise options.error("Option [describe] does not take a value for [state]")
    if options.has("delete") and options.has("topic"):
        raise options.error(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise options.error("Option [delete-offsets] takes the following options: [group], [topic]")


def _check_reset(options: Options, console: Console) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise options.error("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        console.warn(
            "WARN: No action will be performed as the --execute option is missing. Add --dry-run"
            " to say that this is what you want: Kafka 5.0 will ask for one of the two."
        )
    if not options.has("group") and not options.has("all-groups"):
        raise options.error(
            "Option [reset-offsets] takes one of these options: [group], [all-groups]"
        )
    for scenario in SCENARIOS:
        options.exclude(scenario, *(one for one in SCENARIOS if one != scenario))


def _validate(regex: str, console: Console) -> int:
    try:
        re.compile(regex)
    except re.error as error:
        console.say(f"The regular expression `{regex}` is invalid: {error.msg}.")
    else:
        console.say(f"The regular expression `{regex}` is valid.")
    return 0


async def _act(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    if options.has("list"):
        await _list(admin, options, console)
    elif options.has("describe"):
        await describe_groups(admin, await chosen_groups(admin, options), options, console)
    elif options.has("delete"):
        await _delete(admin, options, console)
    elif options.has("reset-offsets"):
        await reset_offsets(admin, await chosen_groups(admin, options), options, console)
    else:
        await _delete_offsets(admin, options, console)


async def chosen_groups(admin: client.AsyncAdmin, options: Options) -> list[str]:
    """Return the groups that a command line means."""
    if options.has("all-groups"):
        return [group.group_id for group in await _consumer_groups(admin)]
    return options.values("group")


async def _consumer_groups(admin: client.AsyncAdmin) -> list[client.GroupListing]:
    """List groups of consumers, and those that only keep offsets."""
    found = {
        group.group_id: group
        for group in await admin.list_groups()
        if group.protocol_type in ("", "consumer") and group.type in (None, "classic", "consumer")
    }
    return [found[group_id] for group_id in client.texts_in_hash_order(found)]


# Listing


async def _list(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    states = _named(options, "state", STATES)
    types = _named(options, "type", {one.lower(): one for one in TYPES})
    groups = await _consumer_groups(admin)
    if not options.has("state") and not options.has("type"):
        for group in groups:
            console.say(group.group_id)
        return
    shown = [
        group
        for group in groups
        if (not types or (group.type or "").capitalize() in types)
        and (not states or group.state in states)
    ]
    width = max([NARROWEST, *(len(group.group_id) for group in shown)]) + LIST_MARGIN
    columns, cells = [Column("GROUP", width)], [[group.group_id for group in shown]]
    if options.has("type"):
        columns.append(Column("TYPE", 20))
        cells.append([(group.type or "unknown").capitalize() for group in shown])
    if options.has("state"):
        columns.append(Column("STATE", 20))
        cells.append([group.state or "Unknown" for group in shown])
    console.say_all(table(columns, list(zip(*cells, strict=True))))


def _named(options: Options, option: str, choices: dict[str, str]) -> set[str]:
    """Return what an option with a list names; nothing if it only says to show the column."""
    given = options.value(option) or ""
    names = {one.strip().lower() for one in given.split(",") if given}
    if names <= choices.keys():
        return {choices[name] for name in names}
    what = "state list" if option == "state" else "types list"
    raise CommandFailed(
        f"Invalid {what} '{given}'. Valid {option}s are: {', '.join(choices.values())}"
    )


# Deleting


async def _delete(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    results = await admin.delete_groups(await chosen_groups(admin, options))
    deleted = ", ".join(f"'{group}'" for group in results.ok)
    if not results.errors:
        console.say(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    console.say(failure("Deletion of some consumer groups failed:"))
    for group in client.texts_in_hash_order(results.errors):
        error = results.errors[group]
        console.say(f"* Group '{group}' could not be deleted due to: {as_java_says(error)}")
    if deleted:
        console.say(f"\nThese consumer groups were deleted successfully: {deleted}")


async def _delete_offsets(admin: client.AsyncAdmin, options: Options, console: Console) -> None:
    group = options.text("group")
    partitions, missing = await named_partitions(admin, options.values("topic"))
    outcome: dict[client.TopicPartition, client.ClientError | None] = dict(missing)
    worst: client.ClientError | None = next(iter(missing.values()), None)
    try:
        results = await admin.delete_group_offsets(group, partitions)
    except client.ClientError as error:
        worst = error
        outcome |= dict.fromkeys(partitions, error)
    else:
        outcome |= {partition: results.errors.get(partition) for partition in partitions}
        worst = next(iter(results.errors.values()), None)
    _say_outcome(group, worst, outcome, console)


def _say_outcome(
    group: str,
    worst: client.ClientError | None,
    outcome: dict[client.TopicPartition, client.ClientError | None],
    console: Console,
) -> None:
    of_partitions = (
        client.GroupSubscribedToTopic,
        client.TopicAuthorizationFailed,
        client.UnknownTopicOrPartition,
    )
    if worst is None:
        console.say(f"Request succeeded for deleting offsets from group {group}.")
    elif isinstance(worst, of_partitions):
        console.say(failure("Encountered some partition-level error, see the follow-up details."))
    else:
        console.say(failure(text_of(worst)))
    rows = [
        (
            partition.topic,
            partition.partition if partition.partition >= 0 else None,
            "Successful" if error is None else f"Error: {as_java_says(error)}",
        )
        for partition, error in sorted(outcome.items(), key=lambda one: str(one[0]))
    ]
    columns = (Column("TOPIC", grows=True), Column("PARTITION", 10), Column("STATUS"))
    console.say_all(["", *table(columns, rows)])
