"""What control records of the log and its snapshots say of the quorum. Pure.

A LeaderChange record begins each leader epoch, and names the voters. From `kraft.version` 1 on,
records of their own do. A folder whose voters are not just this node is one of several that vote
together. Continuing it alone would fork the metadata of that cluster, so it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from moldau.base.errors import ConfigError, CorruptRecords, ProtocolError
from moldau.protocol.compiler import decode
from moldau.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from moldau.records.control import ControlType, control_type
from moldau.records.record import Record

QUORUM_STATE: Final = "quorum-state"


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
                f"{folder} belongs to a quorum of the nodes {voters}, but by its settings node"
                f" {node_id} votes alone: controller.quorum.voters or"
                " controller.quorum.bootstrap.servers has to name them all"
            )
