"""Who leads and who votes, as control records of the metadata log, and back. Pure.

A leader begins its epoch with a batch of LEADER_CHANGE. Where the log does not name the voters yet,
KRAFT_VERSION and KRAFT_VOTERS stand behind it in the same batch (KIP-853), so that no log has one
without the others. A snapshot states the last two again.

What is read here has come from another node or from a disk. So the size and the count of records
are looked at before any of them is.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final

from moldau.base.checks import invariant
from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.base.files import Buffer
from moldau.base.ids import LeaderEpoch, Offset
from moldau.cluster.raft.voters import (
    KRAFT_VERSION,
    VOTERS_BYTES_MAX,
    NodeId,
    ReplicaKey,
    Voter,
    VoterEndpoint,
    VoterSet,
)
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages import control_records as stored
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import ControlType, control_type
from moldau.records.record import read_records

if TYPE_CHECKING:
    from moldau.cluster.raft.requests import LeaderChange, VotersChange


CONTROL_RECORDS_MAX: Final = 8
"""In one batch of the metadata log. Kafka and Moldau write three at most."""

_CONTROL_BATCH_BYTES_MAX: Final = 2 * VOTERS_BYTES_MAX

_LEADER_CHANGE_VERSION: Final = 0
"""Version 1 would add directory ids. Kafka (up to 4.3) does not write it, not even with voters that
the log names, and reads every record as version 0: it would refuse a log with another one."""

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0

ControlRecord = tuple[ControlType, bytes]


def leader_change_batch(
    change: LeaderChange, base_offset: int, epoch: LeaderEpoch, now_ms: int
) -> bytes:
    """Make the batch that begins a leader epoch: of one record, or of three with the voters."""
    message = stored.LeaderChangeMessage(
        version=_LEADER_CHANGE_VERSION,
        leader_id=change.leader,
        voters=[stored.LeaderChangeVoter(key.node) for key in change.voters],
        granting_voters=[stored.LeaderChangeVoter(key.node) for key in change.granting],
    )
    records = [(ControlType.LEADER_CHANGE, encode(message, _LEADER_CHANGE_VERSION))]
    if change.logged_voters is not None:
        records += snapshot_control(change.logged_voters)
    return _batch(records, base_offset, epoch, now_ms)


def voters_batch(change: VotersChange, base_offset: int, epoch: LeaderEpoch, now_ms: int) -> bytes:
    """Make the batch that states another set of voters."""
    voters = change.voters
    records = snapshot_control(voters) if change.states_version else [_voters_record(voters)]
    return _batch(records, base_offset, epoch, now_ms)


def snapshot_control(voters: VoterSet) -> list[ControlRecord]:
    """Return the records that name the voters, for the head of a snapshot."""
    version = stored.KRaftVersionRecord(kraft_version=KRAFT_VERSION)
    return [(ControlType.KRAFT_VERSION, encode(version, 0)), _voters_record(voters)]


def _batch(
    records: Iterable[ControlRecord], base_offset: int, epoch: LeaderEpoch, now_ms: int
) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch, control=True)
    for kind, value in records:
        builder.append(now_ms, _KEY.pack(_KEY_VERSION, kind), value)
    return builder.build()


def _voters_record(voters: VoterSet) -> ControlRecord:
    value = encode(stored.VotersRecord(voters=[_stored_voter(one) for one in voters.voters]), 0)
    invariant(
        len(value) <= VOTERS_BYTES_MAX, f"{len(voters)} voters are named in {len(value)} bytes"
    )
    return ControlType.KRAFT_VOTERS, value


def _stored_voter(voter: Voter) -> stored.Voter:
    endpoints = [stored.VoterEndpoint(*endpoint) for endpoint in voter.endpoints]
    versions = stored.VoterVersionFeature(*voter.kraft_versions)
    return stored.Voter(voter.key.node, voter.key.directory, endpoints, versions)


# Reading


def voters_in(data: Buffer, position: int = 0) -> tuple[VoterSet, Offset] | None:
    """Return the voters that a batch names, and the offset of that record; None if it names none.

    CorruptRecords if a control batch cannot be read. Its checksum is the caller's to check.
    """
    header = parse_header(data, position)
    if not header.control:
        return None
    if header.size > _CONTROL_BATCH_BYTES_MAX or header.count > CONTROL_RECORDS_MAX:
        raise CorruptRecords(
            f"a control batch of {header.count} records in {header.size} bytes is too large"
        )
    named = None
    for record in read_records(data, position, limit=_CONTROL_BATCH_BYTES_MAX):
        if control_type(record.key) is ControlType.KRAFT_VOTERS:
            named = record
    return None if named is None else (voters_of(named.value or b""), Offset(named.offset))


def voters_of(value: bytes) -> VoterSet:
    """Read the value of a KRAFT_VOTERS record; CorruptRecords if it is damaged."""
    if len(value) > VOTERS_BYTES_MAX:
        raise CorruptRecords(f"a KRAFT_VOTERS record has {len(value)} bytes")
    try:
        record = decode(stored.VotersRecord, 0, value)
    except ProtocolError as error:
        raise CorruptRecords(f"a KRAFT_VOTERS record is damaged: {error}") from error
    if record.version != 0:
        raise CorruptRecords(f"a KRAFT_VOTERS record has version {record.version}")
    # Kafka writes them in any order.
    voters = sorted(map(_voter, record.voters), key=lambda voter: voter.key)
    nodes = {voter.key.node for voter in voters}
    if not voters or len(nodes) < len(voters) or min(nodes) < 0:
        raise CorruptRecords("a KRAFT_VOTERS record names no voter, one twice, or one below 0")
    return VoterSet(tuple(voters))


def _voter(voter: stored.Voter) -> Voter:
    feature = voter.kraft_version_feature
    versions = feature.min_supported_version, feature.max_supported_version
    if not 0 <= versions[0] <= versions[1]:
        raise CorruptRecords(f"voter {voter.voter_id} supports no kraft.version: {versions}")
    return Voter(
        ReplicaKey(NodeId(voter.voter_id), voter.voter_directory_id),
        tuple(VoterEndpoint(one.name, one.host, one.port) for one in voter.endpoints),
        versions,
    )
