"""The state of KRaft's quorum, for a quorum of one.

`quorum-state` says who leads in which leader epoch; the log itself repeats it, as a LeaderChange
record at the start of each epoch, and names the voters. For the voter, starting on a folder means
winning an election in which nobody else votes: the epoch is raised, written to `quorum-state`,
then stated in the log. A folder whose voters are not just this node is one of several that vote
together, and continuing it alone would fork that cluster's metadata: it is refused.

Pure, except for the two functions that read and write the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from moldau.base.errors import ConfigError, CorruptRecords, ProtocolError, StorageError
from moldau.base.files import Files, read_whole, write_atomically
from moldau.base.ids import LeaderEpoch
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    VotersRecord,
)
from moldau.records.control import ControlType, control_type
from moldau.records.record import Record

QUORUM_STATE: Final = "quorum-state"

_ZERO_UUID: Final = "A" * 22


@dataclass(slots=True)
class Quorum:
    """The voters, from the control records."""

    kraft_version: int = 0
    """0: the settings name the voters. 1: records of the log name them (KIP-853)."""
    voters: frozenset[int] | None = None
    control: dict[ControlType, bytes] = field(default_factory=dict)
    """The newest control records. Each snapshot must contain them."""

    def learn(self, record: Record) -> None:
        """Take a control record of the log."""
        kind = control_type(record.key)
        if kind is not None:
            self.learn_value(kind, record.value or b"")

    def learn_value(self, kind: ControlType, value: bytes) -> None:
        """Take the value of a control record of the log or a snapshot."""
        try:
            self._learn(kind, value)
        except ProtocolError as error:
            raise CorruptRecords(f"a control record of type {kind.name} is damaged") from error

    def _learn(self, kind: ControlType, value: bytes) -> None:
        version = int.from_bytes(value[:2], "big", signed=True)
        match kind:
            case ControlType.LEADER_CHANGE if not self.kraft_version:
                voters = decode(LeaderChangeMessage, min(version, 1), value).voters
                self.voters = frozenset(voter.voter_id for voter in voters)
            case ControlType.KRAFT_VERSION:
                self.kraft_version = decode(KRaftVersionRecord, 0, value).kraft_version
                self.control[kind] = value
            case ControlType.KRAFT_VOTERS:
                named = decode(VotersRecord, 0, value).voters
                self.voters = frozenset(voter.voter_id for voter in named)
                self.control[kind] = value
            case _:
                pass

    def check_alone(self, node_id: int, folder: str) -> None:
        """Raise ConfigError unless this node is the only voter."""
        if self.voters is not None and self.voters != {node_id}:
            voters = ", ".join(map(str, sorted(self.voters)))
            raise ConfigError(
                f"{folder} belongs to a quorum of the nodes {voters}; a broker with the embedded"
                f" store continues only a folder on which node {node_id} votes alone"
            )


def leader_change(node_id: int) -> bytes:
    """Return the record that begins a leader epoch."""
    voter = [LeaderChangeVoter(voter_id=node_id)]
    message = LeaderChangeMessage(leader_id=node_id, voters=voter, granting_voters=voter)
    return encode(message, 0)


def read_leader_epoch(files: Files, folder: str) -> LeaderEpoch:
    """Return the newest leader epoch in `quorum-state`; 0 if there is no file."""
    path = f"{folder}/{QUORUM_STATE}"
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return LeaderEpoch(0)
    try:
        epoch = json.loads(content)["leaderEpoch"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StorageError(path, "is not a JSON object with a leaderEpoch") from error
    if type(epoch) is not int or epoch < 0:
        raise StorageError(path, f"has leaderEpoch {epoch!r}")
    return LeaderEpoch(epoch)


def write_quorum_state(
    files: Files,
    folder: str,
    leader_id: int,
    epoch: LeaderEpoch,
    voters: Collection[int],
    kraft_version: int,
) -> None:
    """State durably who leads in this epoch, in the form of the quorum's version.

    The voters are those of the settings; from version 1 on the log names them.
    """
    state: dict[str, object]
    if kraft_version:
        state = {
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": -1,
            "votedDirectoryId": _ZERO_UUID,
            "data_version": 1,
        }
    else:
        state = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in sorted(voters)],
            "data_version": 0,
        }
    text = json.dumps(state, separators=(",", ":"))
    write_atomically(files, f"{folder}/{QUORUM_STATE}", text.encode())
