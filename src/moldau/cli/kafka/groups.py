"""`kafka-groups`: lists groups of every type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionError, OptionParser, Options, flag, text
from moldau.cli.kafka.running import (
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    what_of,
    with_admin,
)
from moldau.cli.kafka.text_tables import Column, table

TYPES: Final = ("classic", "consumer", "share", "streams")
NARROWEST: Final = 20
KINDS: Final = ("consumer", "share", "streams")

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        flag("list", "List groups."),
        text("group-type", "type", f"Only of this type: {', '.join(TYPES)}."),
        text("protocol", "protocol", "Only of this protocol type."),
        flag("consumer", "Only groups of consumers, classic ones too."),
        flag("share", "Only share groups."),
        flag("streams", "Only streams groups."),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, "This tool helps to list groups of all types.", console)
    if not options.has("list"):
        raise options.error("Command must include exactly one action: --list.")
    require_cluster(options)
    if (kind := options.value("group-type")) is not None and kind.lower() not in TYPES:
        raise CommandFailed("--group-type must be a valid group type.")
    for name in KINDS:
        others = [one for one in KINDS if one != name]
        options.exclude(name, *others, "group-type", "protocol")

    async def show(admin: client.AsyncAdmin) -> None:
        groups = [one for one in await admin.list_groups() if _is_wanted(one, options)]
        console.say_all(_lines(groups))

    try:
        return with_admin(options, console, show)
    except OptionError:
        raise
    except MoldauError as error:
        console.say(f"Error while executing groups command : {what_of(error)}")
        return 1


def _is_wanted(group: client.GroupListing, options: Options) -> bool:
    kind, protocol = options.value("group-type"), options.value("protocol")
    if kind is not None and group.type != kind.lower():
        return False
    if protocol is not None and group.protocol_type != protocol:
        return False
    if options.has("consumer"):
        return group.protocol_type in ("consumer", "") or group.type == "consumer"
    return all(group.type == name for name in ("share", "streams") if options.has(name))


def _lines(groups: Sequence[client.GroupListing]) -> list[str]:
    found = {group.group_id: group for group in groups}
    rows = [
        (group_id, (found[group_id].type or "").capitalize(), found[group_id].protocol_type)
        for group_id in client.texts_in_hash_order(found)
    ]
    width = max([NARROWEST, *(len(cell) for row in rows for cell in row)])
    columns = [Column(title, width) for title in ("GROUP", "TYPE", "PROTOCOL")]
    titles, *lines = table(columns, rows)
    return [titles, *(f"{line} " for line in lines)]
