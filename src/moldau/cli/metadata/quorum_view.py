"""Who leads and who votes: what control records and `quorum-state` say of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from moldau.base.files import Files, read_whole
from moldau.base.ids import uuid_text
from moldau.cli.metadata.folder import Node, entry_name
from moldau.cluster.kraft.control_records import voters_of
from moldau.cluster.kraft.quorum_file import read_quorum_state
from moldau.cluster.quorum import QUORUM_STATE
from moldau.cluster.raft.voters import NO_DIRECTORY, NO_NODE, Voter
from moldau.protocol.compiler import decode
from moldau.protocol.messages.control_records import KRaftVersionRecord, LeaderChangeMessage
from moldau.records.control import ControlType


@dataclass(slots=True)
class QuorumView:
    """What is known of the quorum. Newer records replace what older ones have said."""

    kraft_version: int = 0
    leader: int | None = None
    epoch: int = 0
    voted: int | None = None
    voters: dict[int, Node] = field(default_factory=dict)

    def learn(self, kind: ControlType, value: bytes, epoch: int) -> None:
        """Take a control record; ProtocolError if it is damaged."""
        match kind:
            case ControlType.LEADER_CHANGE:
                version = max(0, min(int.from_bytes(value[:2], "big", signed=True), 1))
                change = decode(LeaderChangeMessage, version, value)
                self.leader, self.epoch = change.leader_id, epoch
                if not self.kraft_version:
                    self._learn_static(voter.voter_id for voter in change.voters)
            case ControlType.KRAFT_VERSION:
                self.kraft_version = decode(KRaftVersionRecord, 0, value).kraft_version
            case ControlType.KRAFT_VOTERS:
                self.voters = {voter.key.node: _voter(voter) for voter in voters_of(value).voters}
            case _:
                pass

    def learn_file(self, files: Files, folder: str) -> None:
        """Take what `quorum-state` says; StorageError if it is damaged."""
        state = read_quorum_state(files, folder)
        if state.epoch >= self.epoch:
            self.epoch = state.epoch
            self.leader = None if state.leader == NO_NODE else state.leader
            self.voted = None if state.voted is None else state.voted.node
        if not self.kraft_version and not self.voters:
            self._learn_static(_voters_of_settings(files, f"{folder}/{QUORUM_STATE}"))

    def _learn_static(self, voters: Iterable[int]) -> None:
        """Take voters of which the log knows nothing but their ids."""
        self.voters = {voter: {} for voter in voters}

    def folder(self) -> Node:
        """Return it as a folder of the tree."""
        return {
            "leader": self.leader,
            "epoch": self.epoch,
            "voted": self.voted,
            "kraft-version": self.kraft_version,
            "voters": {str(voter): about for voter, about in sorted(self.voters.items())},
        }


def _voter(voter: Voter) -> Node:
    directory = voter.key.directory
    return {
        "directory": None if directory == NO_DIRECTORY else uuid_text(directory),
        "endpoints": {
            entry_name(endpoint.listener): {"host": endpoint.host, "port": endpoint.port}
            for endpoint in voter.endpoints
        },
        "kraft-versions": list(voter.kraft_versions),
    }


def _voters_of_settings(files: Files, path: str) -> list[int]:
    """Return the voters that a file repeats, which was found to be sound otherwise."""
    if not files.exists(path):
        return []
    voters = json.loads(read_whole(files, path)).get("currentVoters")
    named = voters if isinstance(voters, list) else []
    ids = [one.get("voterId") for one in named if isinstance(one, dict)]
    return [one for one in ids if type(one) is int]
