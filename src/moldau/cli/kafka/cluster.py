"""`kafka-cluster`: the cluster's id, endpoints and API versions; removes brokers for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import as_java_says
from moldau.cli.kafka.options import OptionParser, flag, number
from moldau.cli.kafka.running import (
    BOOTSTRAP_CONTROLLER,
    CommandFailed,
    cluster_options,
    parse,
    require_cluster,
    with_admin,
)
from moldau.cli.kafka.text_tables import Column, table

ABOUT: Final = "The Kafka cluster tool: cluster-id, unregister, list-endpoints or api-versions."
NO_RACK_WIDTH: Final = 10

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        BOOTSTRAP_CONTROLLER,
        flag("include-fenced-brokers", "List fenced brokers too."),
        number("id", "ID", "The id of the broker to unregister.", former=("i",)),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, ABOUT, console)
    if not options.words:
        raise options.error("too few arguments")
    action = options.words[0]
    if action == "unregister-controller":
        raise CommandFailed(f"Moldau does not have this yet: {action}")
    if action not in ("cluster-id", "unregister", "list-endpoints", "api-versions"):
        raise options.error(f"invalid choice: '{action}'")
    require_cluster(options)
    broker_id = options.number("id")
    if action == "unregister" and broker_id is None:
        raise options.error("argument --id/-i is required")

    async def work(admin: client.AsyncAdmin) -> None:
        if action == "cluster-id":
            await _say_id(admin, console)
        elif action == "list-endpoints":
            fenced = options.has("include-fenced-brokers")
            await _say_endpoints(admin, console, include_fenced=fenced)
        elif broker_id is not None and action == "unregister":
            await _unregister(admin, console, broker_id)
        else:
            from moldau.cli.kafka.api_versions import say_versions  # noqa: PLC0415 - alone

            await say_versions(admin, console)

    return with_admin(options, console, work)


async def _say_id(admin: client.AsyncAdmin, console: Console) -> None:
    cluster_id = (await admin.describe_cluster()).cluster_id
    if cluster_id is None:
        console.say("No cluster ID found. The Kafka version is probably too old.")
    else:
        console.say(f"Cluster ID: {cluster_id}")


async def _unregister(admin: client.AsyncAdmin, console: Console, broker_id: int) -> None:
    try:
        await admin.unregister_broker(broker_id)
    except client.UnsupportedVersion:
        # Kafka's command, too, ends with status 0 then.
        console.say("The target cluster does not support the broker unregistration API.")
    except client.BrokerError as error:
        raise CommandFailed(as_java_says(error)) from None
    else:
        console.say(f"Broker {broker_id} is no longer registered.")


async def _say_endpoints(
    admin: client.AsyncAdmin, console: Console, *, include_fenced: bool
) -> None:
    brokers = (await admin.describe_cluster(include_fenced=include_fenced)).brokers
    racks = [len(broker.rack) for broker in brokers if broker.rack]
    columns = (
        Column("ID", 10),
        Column("HOST", 0, grows=True),
        Column("PORT", 10),
        Column("RACK", max(racks, default=NO_RACK_WIDTH)),
        Column("STATE", 10),
        Column("ENDPOINT_TYPE"),
    )
    rows = [
        (
            broker.broker_id,
            broker.host,
            broker.port,
            broker.rack or "null",
            "fenced" if broker.is_fenced else "unfenced",
            "broker",
        )
        for broker in brokers
    ]
    console.say_all(table(columns, rows))
