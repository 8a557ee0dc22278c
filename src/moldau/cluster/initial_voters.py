"""The first voters of a quorum whose log names its voters (KIP-853): as a text, and in a folder.

Such a quorum needs its voters before it has elected anybody. So the format tool writes them into a
snapshot of offset 0 and epoch 0, in which there is nothing else, and into the folders of all nodes.
A later snapshot, or a record of the log, has the voters of its own time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from moldau.base.errors import ConfigError, CorruptRecords, StorageError
from moldau.base.files import Files
from moldau.base.ids import uuid_bytes, uuid_text
from moldau.base.network import Address
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.kraft.control_records import snapshot_control, voters_of
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.cluster.snapshots import PART_SUFFIX, SnapshotId, SnapshotWriter, read_snapshot
from moldau.records.control import ControlType

INITIAL_VOTERS: Final = SnapshotId(0, 0).name
INITIAL_FILES: Final = frozenset((INITIAL_VOTERS, INITIAL_VOTERS + PART_SUFFIX))
"""What the metadata folder of a node holds that was formatted, and has not run yet."""

VOTERS_MAX: Final = 50
"""As many as fit into one record with the longest names; a quorum has three or five."""
NODE_ID_MAX: Final = 2**31 - 1
RESERVED_DIRECTORIES: Final = 100
"""Ids of directories below this number mean something else: unassigned, lost, migrating."""

_VOTER = re.compile(
    r"(?P<node>[0-9]{1,10})@(?:\[(?P<bracketed>[0-9A-Fa-f:.%a-z]{2,60})\]|(?P<host>[^\[\]:/,@\s]{1,255}))"
    r":(?P<port>[0-9]{1,5}):(?P<directory>[A-Za-z0-9_-]{22})"
)


def parse_initial_voters(text: str, listener: str) -> VoterSet:
    """Read `ID@HOST:PORT:DIRECTORY_ID,...`; ConfigError says which entry is wrong.

    `listener` is the name of the listener that the addresses are those of.
    """
    voters = VoterSet()
    for entry in filter(None, (part.strip() for part in text.split(","))):
        voter = _voter(entry, listener)
        if voters.has_node(voter.key.node):
            raise ConfigError(f"node {voter.key.node} is named twice")
        voters = voters.with_voter(voter)
    if not 0 < len(voters) <= VOTERS_MAX:
        raise ConfigError(f"{len(voters)} voters are named; there may be 1 to {VOTERS_MAX}")
    return voters


def voter_texts(voters: VoterSet) -> Iterator[str]:
    """Write each voter as `parse_initial_voters` reads it."""
    for voter in voters.voters:
        directory = uuid_text(voter.key.directory)
        for endpoint in voter.endpoints[:1]:
            yield f"{voter.key.node}@{Address(endpoint.host, endpoint.port)}:{directory}"


def write_initial_voters(files: Files, directory: str, voters: VoterSet, now_ms: int) -> None:
    """Write the snapshot into a metadata directory, whose metadata folder is there already."""
    path = f"{directory}/{METADATA_FOLDER}/{INITIAL_VOTERS}"
    writer = SnapshotWriter(files, path, now_ms, now_ms)
    writer.append_control(snapshot_control(voters))
    writer.finish()


def read_initial_voters(files: Files, directory: str) -> VoterSet | None:
    """Read the voters that a metadata directory was formatted with.

    None if it has no such snapshot, or not any more; StorageError if that is damaged.
    """
    path = f"{directory}/{METADATA_FOLDER}/{INITIAL_VOTERS}"
    if not files.exists(path):
        return None
    try:
        for kind, value in read_snapshot(files, path).control:
            if kind is ControlType.KRAFT_VOTERS:
                return voters_of(value)
    except CorruptRecords as error:
        raise StorageError(path, f"is damaged: {error}") from error
    return None


def _voter(entry: str, listener: str) -> Voter:
    matched = _VOTER.fullmatch(entry)
    if matched is None:
        raise ConfigError(f"{entry!r} is not of the form ID@HOST:PORT:DIRECTORY_ID")
    node, port, directory = int(matched["node"]), int(matched["port"]), matched["directory"]
    if node > NODE_ID_MAX or not 0 < port < 65536:
        raise ConfigError(f"{entry!r} is not of the form ID@HOST:PORT:DIRECTORY_ID")
    directory_id = uuid_bytes(directory)
    if int.from_bytes(directory_id, "big") < RESERVED_DIRECTORIES:
        raise ConfigError(f"{entry!r}: {directory} is no id that a directory can have")
    endpoint = VoterEndpoint(listener, matched["bracketed"] or matched["host"], port)
    return Voter(ReplicaKey(NodeId(node), directory_id), (endpoint,))
