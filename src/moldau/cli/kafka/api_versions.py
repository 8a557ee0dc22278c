"""`kafka-broker-api-versions`: which versions of each request every broker takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.base.errors import ProtocolError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import as_java_says
from moldau.cli.kafka.options import OptionParser
from moldau.cli.kafka.running import (
    BOOTSTRAP_CONTROLLER,
    cluster_options,
    parse,
    require_cluster,
    with_admin,
)

FOR_CLIENTS: Final = (
    range(4), range(8, 52), (55, 57, 60, 61, 64, 65, 66, 68, 69, 71, 72), range(74, 82),
    range(83, 93),
)  # fmt: skip
"""Keys of the requests that clients send; a broker that serves one of them not is told of."""

PARSER: Final = OptionParser([*cluster_options(), BOOTSTRAP_CONTROLLER])


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = "This tool helps to retrieve broker version information."
    options = parse(PARSER, arguments, about, console)
    require_cluster(options)
    return with_admin(options, console, lambda admin: say_versions(admin, console))


async def say_versions(admin: client.AsyncAdmin, console: Console) -> None:
    """Print the versions of every broker."""
    brokers = (await admin.describe_cluster()).brokers
    found = await admin.describe_api_versions([broker.broker_id for broker in brokers])
    for broker in brokers:
        error = found.errors.get(broker.broker_id)
        told = _told(found[broker.broker_id]) if error is None else f"ERROR: {as_java_says(error)}"
        console.say(f"{_node(broker)} -> {told}")


def _node(broker: client.BrokerDescription) -> str:
    rack = "null" if broker.rack is None else broker.rack
    return (
        f"{broker.host}:{broker.port} (id: {broker.broker_id} rack: {rack}"
        f" isFenced: {str(broker.is_fenced).lower()})"
    )


def _told(served: Mapping[int, client.ApiRange]) -> str:
    every = sorted({*served, *(key for keys in FOR_CLIENTS for key in keys)})
    lines = [_line(key, served.get(key)) for key in every]
    return "(\n\t" + ",\n\t".join(lines) + "\n)"


def _line(key: int, served: client.ApiRange | None) -> str:
    from moldau.protocol.registry import find_api  # noqa: PLC0415 - as above

    try:
        own = find_api(key)
    except ProtocolError:
        return f"UNKNOWN({key}): {_span(served)}"
    name = f"{own.name}({key}): {_span(served)}"
    if served is None:
        return name
    if own.versions.last < served.first:
        return f"{name} [unusable: node too new]"
    if served.last < own.versions.first:
        return f"{name} [unusable: node too old]"
    return f"{name} [usable: {min(own.versions.last, served.last)}]"


def _span(served: client.ApiRange | None) -> str:
    if served is None:
        return "UNSUPPORTED"
    return f"{served.first}" if served.first == served.last else f"{served.first} to {served.last}"
