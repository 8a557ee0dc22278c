"""Values of control records: what brokers and the quorum write into a log between the data.

A control batch holds a record whose key is two int16, version 0 and a type: 0 abort, 1 commit,
2 leader change, 3 snapshot header, 4 snapshot footer, 5 KRaft version, 6 voters. Consumers never
see these records. Except for the transaction marker, a value starts with its own version as a
field, and the message is written in that version.
"""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    struct_field,
    uint16,
    uuid,
)


@message(versions="0")
class ControlRecordKey:
    """The type in a control record's key; the version comes before it, as for any key."""

    type: int = int16()


@message(versions="0")
class EndTxnMarker:
    """The value of an abort or commit marker; an int16 version comes before it (KIP-98)."""

    coordinator_epoch: int = int32()


@struct
class LeaderChangeVoter:
    """One voter of the quorum at the time of an election."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    """The first record of a leader's epoch (KIP-595); version 1 adds directory ids (KIP-853)."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    """The first record of a snapshot (KIP-630)."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


@message(versions="0", flexible="0+")
class SnapshotFooterRecord:
    """The last record of a snapshot; a snapshot without one was cut off (KIP-630)."""

    version: int = int16()


@message(versions="0", flexible="0+")
class KRaftVersionRecord:
    """The `kraft.version` in force from here on; 1 lets the voters change (KIP-853)."""

    version: int = int16()
    kraft_version: int = int16()


@struct
class VoterEndpoint:
    """One listener of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class VoterVersionFeature:
    """The range of `kraft.version` a voter can run at."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


@struct
class Voter:
    """One member of the voter set; id and directory id together name a replica."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    kraft_version_feature: VoterVersionFeature = struct_field(VoterVersionFeature)


@message(versions="0", flexible="0+")
class VotersRecord:
    """The quorum's voter set in force from here on, before it is committed (KIP-853)."""

    version: int = int16()
    voters: list[Voter] = array(Voter)
