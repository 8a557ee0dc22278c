"""`quorum-state`: what a node has promised, in the file and the form of Kafka's.

Version 0 goes with voters that the settings name, and repeats them; version 1 goes with voters that
the log names, and knows the directory of the one that was voted for (KIP-853). A node that cannot
read its promises must not vote: so a damaged file is an error, and never taken for a missing one.
"""

from __future__ import annotations

import json
from typing import Any, Final

from moldau.base.errors import StorageError
from moldau.base.files import Files, read_whole, write_atomically
from moldau.base.ids import LeaderEpoch, uuid_bytes, uuid_text
from moldau.cluster.quorum import QUORUM_STATE
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.voters import NO_DIRECTORY, NO_NODE, NodeId, ReplicaKey, VoterSet

_BYTES_MAX: Final = 64 << 10
"""Kafka's has some hundred bytes, and twenty for each voter."""

_INT32_MAX: Final = 2**31 - 1

_DATA_VERSIONS: Final = (0, 1)


def read_quorum_state(files: Files, folder: str) -> QuorumState:
    """Return what a node has promised, nothing without a file; StorageError if it is damaged."""
    path = f"{folder}/{QUORUM_STATE}"
    try:
        size = files.size(path)
        if size > _BYTES_MAX:
            raise StorageError(path, f"has {size} bytes, more than {_BYTES_MAX}")
        content = read_whole(files, path)
    except FileNotFoundError:
        return QuorumState()
    try:
        return _quorum_state(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise StorageError(path, f"does not say what this node has promised: {error}") from error


def _quorum_state(state: object) -> QuorumState:
    """Check every field; ValueError says what is wrong."""
    if not isinstance(state, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - of a file, not of a caller
    version = _integer(state, "data_version", 0)
    if version not in _DATA_VERSIONS:
        raise ValueError(f"data_version {version} is not known")
    epoch = LeaderEpoch(_integer(state, "leaderEpoch", 0))
    leader = NodeId(_integer(state, "leaderId", NO_NODE))
    voted = NodeId(_integer(state, "votedId", NO_NODE))
    directory = _directory(state) if version else NO_DIRECTORY
    return QuorumState(epoch, leader, None if voted == NO_NODE else ReplicaKey(voted, directory))


def _integer(state: dict[str, Any], name: str, lowest: int) -> int:
    value = state.get(name)
    # `type` and not `isinstance`: JSON's true is an int in Python.
    if type(value) is not int or not lowest <= value <= _INT32_MAX:
        raise ValueError(f"{name} is {_shown(value)}")
    return value


def _directory(state: dict[str, Any]) -> bytes:
    text = state.get("votedDirectoryId")
    if not isinstance(text, str):
        raise ValueError(f"votedDirectoryId is {_shown(text)}")  # noqa: TRY004 - of a file
    try:
        directory = uuid_bytes(text)
    except ValueError:
        directory = b""
    # Base64 is read leniently, with characters left out; another text is damage all the same.
    if uuid_text(directory) != text or not directory:
        raise ValueError(f"votedDirectoryId is {_shown(text)}")
    return directory


def _shown(value: object) -> str:
    """Write a value for a message of one line, which shows enough of it."""
    return json.dumps(value)[:40]


def write_quorum_state(
    files: Files, folder: str, quorum: QuorumState, voters: VoterSet, kraft_version: int
) -> None:
    """Make a promise durable, in the form of the quorum's version; may block."""
    state = _dynamic_form(quorum) if kraft_version else _static_form(quorum, voters)
    text = json.dumps(state, separators=(",", ":"))
    write_atomically(files, f"{folder}/{QUORUM_STATE}", text.encode())


def _dynamic_form(quorum: QuorumState) -> dict[str, object]:
    voted = quorum.voted
    return {
        "leaderId": quorum.leader,
        "leaderEpoch": quorum.epoch,
        "votedId": NO_NODE if voted is None else voted.node,
        "votedDirectoryId": uuid_text(NO_DIRECTORY if voted is None else voted.directory),
        "data_version": 1,
    }


def _static_form(quorum: QuorumState, voters: VoterSet) -> dict[str, object]:
    nodes = sorted(key.node for key in voters.keys)
    return {
        "clusterId": "",
        "leaderId": quorum.leader,
        "leaderEpoch": quorum.epoch,
        "votedId": NO_NODE if quorum.voted is None else quorum.voted.node,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": node} for node in nodes],
        "data_version": 0,
    }
