"""`kafka-storage`: gives log directories their identity, shows it, draws ids.

A broker here formats a fresh directory by itself when it starts, unless it is one of several
controllers. To format beforehand, as Kafka asks for, is to choose the cluster's id and the first
voters; the files are those Kafka's command writes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.base.clock import system_random
from moldau.base.errors import StorageError
from moldau.base.ids import random_uuid, uuid_text
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.initial_controllers import QUORUM_OPTIONS, initial_voters
from moldau.cli.kafka.options import OptionParser, Options, flag, text
from moldau.cli.kafka.running import CommandFailed, parse

if TYPE_CHECKING:
    from moldau.cluster.raft.voters import VoterSet
    from moldau.server.configuration.settings import BrokerSettings
    from moldau.storage.checkpoints import MetaProperties

ABOUT: Final = "The Kafka storage tool: format, info or random-uuid."
LEVEL: Final = "4.3-IV0"

PARSER: Final = OptionParser(
    [
        text("config", "CONFIG", "The broker's properties file.", former=("c",)),
        text("cluster-id", "CLUSTER_ID", "The id of the cluster.", former=("t",)),
        flag("ignore-formatted", "Pass over directories that are formatted.", former=("g",)),
        *QUORUM_OPTIONS,
        text("release-version", "VERSION", "Taken if it is the newest there is.", former=("r",)),
    ]
)


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, arguments, ABOUT, console)
    action = options.words[0] if options.words else ""
    if action == "random-uuid":
        console.say(uuid_text(random_uuid(system_random())))
        return 0
    if action not in ("format", "info"):
        raise options.error(f"invalid choice: '{action}'" if action else "too few arguments")
    options.require("config")
    if action == "info":
        return _info(_load(options), console)
    options.require("cluster-id")
    _format(_load(options), options, console)
    return 0


def _load(options: Options) -> BrokerSettings:
    from moldau.cli.broker_options import load_settings  # noqa: PLC0415 - ids need no broker

    file = options.text("config")
    try:
        return load_settings(Path(file).read_text(encoding="utf-8"), {})
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}") from None


def _found(settings: BrokerSettings) -> dict[str, MetaProperties | None]:
    """Return every directory with its identity, that of the metadata first."""
    from moldau.storage.checkpoints import read_meta_properties  # noqa: PLC0415 - as above
    from moldau.storage.disk import Disk  # noqa: PLC0415 - as above

    paths = dict.fromkeys([_metadata_directory(settings), *settings.log_dirs])
    return {path: read_meta_properties(Disk(), path) for path in paths}


def _metadata_directory(settings: BrokerSettings) -> str:
    return settings.metadata_log_dir or settings.log_dirs[0]


def _format(settings: BrokerSettings, options: Options, console: Console) -> None:
    if (release := options.value("release-version")) is not None and not LEVEL.startswith(release):
        raise CommandFailed(f"Moldau formats for {LEVEL} alone, not for {release}")
    voters = initial_voters(settings, options)
    found = _found(settings)
    formatted = [path for path, identity in found.items() if identity is not None]
    if formatted and not options.has("ignore-formatted"):
        raise CommandFailed(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore"
            " this directory and format the others."
        )
    format_directories(settings, options.text("cluster-id"), voters)
    if len(formatted) == len(found):
        console.say("All of the log directories are already formatted.")
    for path in found:
        if path not in formatted:
            kind = _kind_of(path, settings, voters)
            console.say(f"Formatting {kind} directory {path} with metadata.version {LEVEL}.")


def format_directories(
    settings: BrokerSettings, cluster_id: str, voters: VoterSet | None = None
) -> None:
    """Format the directories that are new; ConfigError if one belongs to another cluster."""
    from moldau.cluster.formatting import identify_directories  # noqa: PLC0415 - as above
    from moldau.storage.disk import Disk  # noqa: PLC0415 - as above

    identify_directories(
        Disk(),
        settings.log_dirs,
        _metadata_directory(settings),
        settings.node_id,
        system_random(),
        int(time.time() * 1000),
        cluster_id,
        voters=voters,
    )


def _kind_of(path: str, settings: BrokerSettings, voters: VoterSet | None) -> str:
    """Return what a directory is for, in the words of Kafka's command."""
    if path != _metadata_directory(settings):
        return "data"
    if voters is None:
        return "metadata"
    is_voter = settings.node_id in {key.node for key in voters.keys}
    return "dynamic metadata voter" if is_voter else "dynamic metadata"


def _info(settings: BrokerSettings, console: Console) -> int:
    found = _found(settings)
    there = [path for path in found if Path(path).is_dir()]
    identities = [identity for identity in found.values() if identity is not None]
    problems = [f"{path} does not exist" for path in found if path not in there]
    problems += [f"{path} is not formatted." for path in there if found[path] is None]
    if len({identity.cluster_id for identity in identities}) > 1:
        problems.append("Mismatched cluster IDs between storage directories.")
    voters = _voters_of(_metadata_directory(settings), problems)
    _say_list("Found log directory:", "Found log directories:", there, console)
    if identities:
        console.say(f"Found metadata: {{{_identity(identities[0])}}}\n")
    _say_list("Found first voter:", "Found first voters:", voters, console)
    _say_list("Found problem:", "Found problems:", problems, console)
    return 1 if problems else 0


def _voters_of(directory: str, problems: list[str]) -> list[str]:
    """Return the voters that a directory was formatted with; none where the settings name them."""
    from moldau.cluster.initial_voters import (  # noqa: PLC0415 - as above
        read_initial_voters,
        voter_texts,
    )
    from moldau.storage.disk import Disk  # noqa: PLC0415 - as above

    try:
        voters = read_initial_voters(Disk(), directory)
    except StorageError as error:
        problems.append(str(error))
        return []
    return [] if voters is None else list(voter_texts(voters))


def _say_list(one: str, several: str, items: Sequence[str], console: Console) -> None:
    if items:
        console.say(one if len(items) == 1 else several)
        for item in items:
            console.say(f"  {item}")
        console.say()


def _identity(told: MetaProperties) -> str:
    values = {
        "cluster.id": told.cluster_id,
        "directory.id": uuid_text(told.directory_id) if told.directory_id else None,
        told.node_id_key: told.node_id,
        "version": told.version,
        **told.others,
    }
    known = sorted((name, value) for name, value in values.items() if value is not None)
    return ", ".join(f"{name}={value}" for name, value in known)
