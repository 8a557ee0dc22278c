"""`kafka-metadata-quorum`: shows the quorum of the metadata, and adds and removes its voters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from moldau.base.clock import SystemClock
from moldau.base.ids import uuid_text
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import as_java_says
from moldau.cli.kafka.options import OptionParser, Options, flag, number, text
from moldau.cli.kafka.running import (
    BOOTSTRAP_CONTROLLER,
    CommandFailed,
    client_settings,
    cluster_options,
    parse,
    read_properties,
    require_cluster,
)
from moldau.cli.kafka.text_tables import tabbed_table
from moldau.cli.operations.connecting import has_setting, run_with_admin
from moldau.cli.operations.new_voter import parse_directory_id, read_new_voter

ABOUT: Final = "This tool describes kraft metadata quorum status."
OPTIONS_OF: Final = {
    "describe": ("status", "replication", "human-readable"),
    "add-controller": ("dry-run",),
    "remove-controller": ("controller-id", "controller-directory-id", "dry-run"),
}
"""The options that each action has beside those of the cluster."""
TITLES: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        BOOTSTRAP_CONTROLLER,
        flag("status", "Describe: the quorum in short."),
        flag("replication", "Describe: how far each node is."),
        flag("human-readable", "Times as they are from now; with --replication."),
        number("controller-id", "id", "The controller to remove.", former=("i",)),
        text(
            "controller-directory-id", "id",
            "The id of the directory that holds its metadata.", former=("d",),
        ),
        flag("dry-run", "Say what would be done, and do not do it."),
    ]
)  # fmt: skip


def main(arguments: Iterable[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse(PARSER, list(arguments), ABOUT, console)
    action = options.words[0] if options.words else ""
    if action not in OPTIONS_OF:
        raise options.error(f"invalid choice: '{action}'" if action else "too few arguments")
    if len(options.words) > 1:
        raise options.error(f"unrecognized arguments: '{options.words[1]}'")
    for name in {name for names in OPTIONS_OF.values() for name in names}:
        if options.has(name) and name not in OPTIONS_OF[action]:
            raise options.error(f"unrecognized arguments: '--{name}'")
    require_cluster(options)
    {"describe": _describe, "add-controller": _add, "remove-controller": _remove}[action](
        options, console
    )
    return 0


def _with_admin(
    options: Options, console: Console, work: Callable[[client.AsyncAdmin], Awaitable[None]]
) -> None:
    """Have work done; the file of settings may be that of a controller, with many others."""
    given = client_settings(options, console)
    settings = {name: one for name, one in given.items() if has_setting(client.AsyncAdmin, name)}
    try:
        run_with_admin(settings, work)
    except client.BrokerError as error:
        raise CommandFailed(as_java_says(error)) from None


# Describe


def _describe(options: Options, console: Console) -> None:
    wants_status, wants_replication = options.has("status"), options.has("replication")
    is_readable = options.has("human-readable")
    if wants_status and wants_replication:
        raise CommandFailed(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not wants_status and not wants_replication:
        raise CommandFailed(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if wants_status and is_readable:
        raise CommandFailed(
            "The option --human-readable is only supported along with --replication"
        )

    async def describe(admin: client.AsyncAdmin) -> None:
        if wants_replication:
            console.say_all(_replication(await admin.describe_metadata_quorum(), is_readable))
            return
        cluster = await admin.describe_cluster()
        console.say_all(_status(cluster.cluster_id, await admin.describe_metadata_quorum()))

    _with_admin(options, console, describe)


def _status(cluster_id: str | None, quorum: client.MetadataQuorum) -> list[str]:
    leader = _leader(quorum)
    last = min(quorum.voters, key=_end_offset)
    return [
        f"ClusterId:              {cluster_id}",
        f"LeaderId:               {quorum.leader_id}",
        f"LeaderEpoch:            {quorum.leader_epoch}",
        f"HighWatermark:          {quorum.high_watermark}",
        f"MaxFollowerLag:         {_end_offset(leader) - _end_offset(last)}",
        f"MaxFollowerLagTimeMs:   {_behind_ms(leader, last)}",
        f"CurrentVoters:          {_listed(quorum.voters)}",
        f"CurrentObservers:       {_listed(quorum.observers)}",
    ]


def _leader(quorum: client.MetadataQuorum) -> client.QuorumReplica:
    if quorum.leader is None:
        raise CommandFailed(
            f"Node {quorum.leader_id} leads, and is being removed from the voters: try again"
        )
    return quorum.leader


def _end_offset(replica: client.QuorumReplica) -> int:
    return _number(replica.log_end_offset)


def _number(known: int | None) -> int:
    return -1 if known is None else known


def _behind_ms(leader: client.QuorumReplica, last: client.QuorumReplica) -> int:
    if last is leader:
        return 0
    if leader.last_caught_up_ms is None or last.last_caught_up_ms is None:
        return -1
    return leader.last_caught_up_ms - last.last_caught_up_ms


def _listed(replicas: Iterable[client.QuorumReplica]) -> str:
    return f"[{', '.join(map(_node, replicas))}]"


def _node(replica: client.QuorumReplica) -> str:
    parts = [f'"id": {replica.node_id}']
    if replica.directory_id is not None:
        parts.append(f'"directoryId": "{uuid_text(replica.directory_id)}"')
    if replica.endpoints:
        endpoints = ", ".join(f'"{one}"' for one in replica.endpoints)
        parts.append(f'"endpoints": [{endpoints}]')
    return f"{{{', '.join(parts)}}}"


def _replication(quorum: client.MetadataQuorum, is_readable: bool) -> list[str]:
    leader = _leader(quorum)
    followers = [one for one in quorum.voters if one is not leader]
    groups = (("Leader", [leader]), ("Follower", followers), ("Observer", quorum.observers))
    rows = [
        [
            str(one.node_id),
            uuid_text(one.directory_id or bytes(16)),
            str(_end_offset(one)),
            str(_end_offset(leader) - _end_offset(one)),
            _time(one.last_fetch_ms, "last fetch", is_readable),
            _time(one.last_caught_up_ms, "last caught up", is_readable),
            status,
        ]
        for status, group in groups
        for one in group
    ]
    return tabbed_table(TITLES, rows)


def _time(time_ms: int | None, what: str, is_readable: bool) -> str:
    if time_ms is None or not is_readable:
        return str(_number(time_ms))
    now_ms = SystemClock().wall_ms()
    if not 0 < time_ms <= now_ms:
        raise CommandFailed(
            "Error while computing relative time, possible drift in system clock.\n"
            f"Current timestamp is {now_ms}, {what} timestamp is {time_ms}"
        )
    return f"{now_ms - time_ms} ms ago"


# Other voters


def _add(options: Options, console: Console) -> None:
    file = options.value("command-config")
    if file is None:
        raise CommandFailed(
            "You must supply the configuration file of the controller you are adding when using"
            " add-controller."
        )
    voter = read_new_voter(read_properties(file))
    if not options.has("dry-run"):
        _with_admin(options, console, lambda admin: admin.add_raft_voter(*voter))
    console.say(
        f"{'DRY RUN of adding' if options.has('dry-run') else 'Added'} controller {voter.node_id}"
        f" with directory id {uuid_text(voter.directory_id)}"
        f" and endpoints: {', '.join(map(str, voter.endpoints))}"
    )


def _remove(options: Options, console: Console) -> None:
    options.require("controller-directory-id", "controller-id")
    node_id, given = options.number("controller-id"), options.text("controller-directory-id")
    assert node_id is not None  # it is required
    if node_id < 0:
        raise CommandFailed(f"Invalid negative --controller-id: {node_id}")
    try:
        directory_id = parse_directory_id(given)
    except ValueError as error:
        raise CommandFailed(f"Failed to parse --controller-directory-id: {error}") from None
    if not options.has("dry-run"):
        _with_admin(options, console, lambda admin: admin.remove_raft_voter(node_id, directory_id))
    # Kafka's command, too, says this with two spaces.
    console.say(
        f"{'DRY RUN of removing' if options.has('dry-run') else 'Removed'}  KRaft controller"
        f" {node_id} with directory id {uuid_text(directory_id)}"
    )
