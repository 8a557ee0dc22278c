"""Which voters `kafka-storage format` gives to a directory: its options for that, and their rules.

With `controller.quorum.voters` the settings name the voters, and a directory has none. Else the
metadata log names them, and somebody has to say which ones are the first (KIP-853). Whoever formats
a controller has to choose, because each choice but one would be a cluster of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.base.clock import system_random
from moldau.base.errors import ConfigError
from moldau.base.ids import random_uuid, uuid_text
from moldau.base.network import Address
from moldau.cli.kafka.options import Options, flag, text
from moldau.cli.kafka.running import CommandFailed

if TYPE_CHECKING:
    from moldau.cluster.raft.voters import VoterSet
    from moldau.server.configuration.settings import BrokerSettings

STANDALONE: Final = "standalone"
INITIAL: Final = "initial-controllers"
JOINS_LATER: Final = "no-initial-controllers"

QUORUM_OPTIONS: Final = (
    flag(STANDALONE, "The controller is the first voter, the only one so far.", former=("s",)),
    text(
        INITIAL, "ID@HOST:PORT:DIRECTORY_ID,...",
        "The first voters: the same list for all nodes. `random-uuid` draws ids of directories.",
        former=("I",),
    ),
    flag(JOINS_LATER, "The controller joins the voters later.", former=("N",)),
)  # fmt: skip


def initial_voters(settings: BrokerSettings, options: Options) -> VoterSet | None:
    """Return the voters to format with, None for none; refuse what cannot be.

    The words of a refusal are Kafka's where Kafka refuses the same.
    """
    from moldau.cluster.initial_voters import parse_initial_voters  # noqa: PLC0415 - see storage

    options.exclude(STANDALONE, INITIAL, JOINS_LATER)
    options.exclude(INITIAL, JOINS_LATER)
    _refuse_contradiction(settings, options)
    named = options.value(INITIAL) or ""
    if options.has(STANDALONE):
        named = _own_entry(settings)
    elif not options.has(INITIAL):
        return None
    try:
        voters = parse_initial_voters(named, _controller_listener(settings))
    except ConfigError as error:
        raise CommandFailed(f"--{INITIAL}: {error}") from None
    if _is_controller(settings) and all(key.node != settings.node_id for key in voters.keys):
        raise CommandFailed(
            f"--{INITIAL} does not name node {settings.node_id}: format a controller that joins"
            f" the others later with --{JOINS_LATER}"
        )
    return voters


def _refuse_contradiction(settings: BrokerSettings, options: Options) -> None:
    names_voters = options.has(STANDALONE) or options.has(INITIAL)
    if settings.quorum.zookeeper is not None and (names_voters or options.has(JOINS_LATER)):
        raise CommandFailed(
            "The kafka configuration file appears to be for a legacy cluster. Formatting is only"
            " supported for clusters in KRaft mode."
        )
    if settings.quorum.voters and names_voters:
        raise CommandFailed(
            "You cannot specify controller.quorum.voters and format the node with"
            " --initial-controllers or --standalone. If you want to use dynamic quorum, please"
            " remove controller.quorum.voters and specify controller.quorum.bootstrap.servers"
            " instead."
        )
    if options.has(STANDALONE) and not _is_controller(settings):
        raise CommandFailed("You can only use --standalone on a controller.")
    if _has_to_choose(settings) and not (names_voters or options.has(JOINS_LATER)):
        raise CommandFailed(
            "Because controller.quorum.voters is not set on this controller, you must specify one"
            " of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )


def _has_to_choose(settings: BrokerSettings) -> bool:
    """Tell whether the log is to name the voters; a broker that stands alone needs no quorum."""
    has_addresses = bool(settings.values.entries("controller.quorum.bootstrap.servers"))
    return _is_controller(settings) and has_addresses and not settings.quorum.voters


def _is_controller(settings: BrokerSettings) -> bool:
    return "controller" in settings.values.entries("process.roles")


def _controller_listener(settings: BrokerSettings) -> str:
    name = settings.quorum.controller_listener
    if not name:
        raise CommandFailed(
            "controller.listener.names is not set: it names the listener that the addresses of"
            " controllers are those of"
        )
    return name


def _own_entry(settings: BrokerSettings) -> str:
    """Return this node as `--initial-controllers` would name it, with an id that is drawn."""
    name = _controller_listener(settings)
    for endpoint in settings.listeners.controller:
        if endpoint.name == name and endpoint.advertised_port:
            address = Address(endpoint.advertised_host, endpoint.advertised_port)
            return f"{settings.node_id}@{address}:{uuid_text(random_uuid(system_random()))}"
    raise CommandFailed(f"listeners has no {name} with a port: other nodes reach the voter there")
