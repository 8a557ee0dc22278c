"""The records of __consumer_offsets: Kafka's bytes for committed offsets and for classic groups.

A key is an int16 record type and the fields of the key. A value is an int16 version and the fields
of the value in that version. A record without a value is a tombstone. Types 0 and 1 hold the offset
of one partition for one group (0 was written before Kafka 0.9), type 2 holds a group. The types
from 3 on belong to the newer group protocols. They raise UnknownRecord, and a load skips them: the
other groups of such a data directory can be served.

Like Kafka's reader, ours ignores bytes after the last field that it knows. Decoding raises
ProtocolError for damaged bytes. Fields have Kafka's names, because tools print them.

This module only encodes and decodes. The meaning of the records is in `offsets` and in the group
machine.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.coordination.groups.snapshot import (
    NO_REBALANCE_TIMEOUT_MS,
    NO_STATE_TIMESTAMP,
    GroupSnapshot,
    MemberSnapshot,
)
from moldau.coordination.outcome import StateRecord, UnknownRecord
from moldau.protocol.compiler import decoder, encode
from moldau.protocol.fields import (
    array,
    bytes_,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)

NO_TIMESTAMP: Final = -1
"""An offset without an expiry time of its own: the group's retention decides."""

_OFFSET: Final = 1
_GROUP: Final = 2
_OFFSET_TYPES: Final = (_OFFSET, 0)
_TYPE_SIZE: Final = 2
_OFFSET_TYPE: Final = _OFFSET.to_bytes(_TYPE_SIZE)
_GROUP_TYPE: Final = _GROUP.to_bytes(_TYPE_SIZE)
_KEY_VERSION: Final = 0


@message(key=_OFFSET, versions="0")
class OffsetKey:
    """The key of the offset of one partition for one group."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(key=_OFFSET, versions="0-4", flexible="4+")
class CommittedOffset:
    """A committed offset and its metadata.

    Version 1 adds an expiry time, which version 2 removes again (KIP-211). Version 3 adds the
    leader epoch (KIP-320), version 4 the topic id (KIP-848).
    """

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=NO_TIMESTAMP)
    topic_id: bytes = uuid("4+", tag=0)


_NEWEST_VERSION: Final = (4).to_bytes(_TYPE_SIZE)
_TEXT_START: Final = _TYPE_SIZE + 8 + 4
"""Where the metadata begins in a value of that version: after offset and leader epoch."""
_EMPTY_TEXT: Final = b"\x01"
_TIME_START: Final = _TEXT_START + len(_EMPTY_TEXT)
_TAGS_START: Final = _TIME_START + 8
"""After the commit time, in a value without metadata."""
_NO_TAGS: Final = b"\x00"
_TAGGED_ID: Final = b"\x01\x00\x10"
"""One tagged field: number 0, 16 bytes, the topic id."""
_TAGGED_ID_SIZE: Final = len(_TAGGED_ID) + 16


@message(key=_GROUP, versions="0")
class GroupKey:
    """The key of a group."""

    group: str = string()


@struct
class MemberValue:
    """One member of a group; both timeouts in milliseconds."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=NO_REBALANCE_TIMEOUT_MS)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


@message(key=_GROUP, versions="0-4", flexible="4+")
class GroupValue:
    """A group, in the last generation that has an assignment.

    Version 1 adds the rebalance timeout, 2 the state's timestamp (KIP-211), 3 static members.
    """

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=NO_STATE_TIMESTAMP)
    members: list[MemberValue] = array(MemberValue)


class RecordForm(NamedTuple):
    """The versions in which values are written."""

    offset_version: int
    group_version: int

    @staticmethod
    def of(inter_broker_protocol: str | None) -> RecordForm:
        """Choose versions that a cluster at this `inter.broker.protocol.version` can read."""
        if inter_broker_protocol is None:
            return CURRENT_FORM
        found = re.match(r"(\d+)\.(\d+)", inter_broker_protocol)
        if found is None:
            raise ValueError(f"not a version of Kafka: {inter_broker_protocol!r}")
        release = int(found[1]), int(found[2])
        return FORM_BEFORE_2_1 if release < (2, 1) else CURRENT_FORM


CURRENT_FORM: Final = RecordForm(4, 3)
"""Written by Kafka 4.3. It can read groups in version 4 but does not write them yet (KIP-915)."""

FORM_BEFORE_2_1: Final = RecordForm(1, 1)
"""Readable for the formatters of Kafka 0.10.1 to 2.0."""

_EXPIRING_VERSION: Final = 1


def offset_record(form: RecordForm, key: OffsetKey, committed: CommittedOffset) -> StateRecord:
    """Return the record of a committed offset. Only version 1 can hold an expiry time."""
    expires = committed.expire_timestamp != NO_TIMESTAMP
    version = _EXPIRING_VERSION if expires else form.offset_version
    return StateRecord(_OFFSET_TYPE + encode(key, _KEY_VERSION), _value(version, committed))


def offset_tombstone(key: OffsetKey) -> StateRecord:
    """Return the record that deletes an offset."""
    return StateRecord(_OFFSET_TYPE + encode(key, _KEY_VERSION), None)


def group_record(form: RecordForm, group_id: str, group: GroupSnapshot | None) -> StateRecord:
    """Return the record of a group; without a snapshot, its tombstone."""
    key = _GROUP_TYPE + encode(GroupKey(group_id), _KEY_VERSION)
    if group is None:
        return StateRecord(key, None)
    value = GroupValue(
        group.protocol_type,
        group.generation,
        group.protocol,
        group.leader,
        group.state_timestamp,
        [
            MemberValue(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.subscription,
                member.assignment,
            )
            for member in group.members
        ],
    )
    return StateRecord(key, _value(form.group_version, value))


def decode_key(key: bytes) -> OffsetKey | GroupKey:
    """Read a key; UnknownRecord for a type that we do not know."""
    record_type = _number(key)
    if record_type in _OFFSET_TYPES:
        return decoder(OffsetKey, _KEY_VERSION)(memoryview(key), _TYPE_SIZE)[0]
    if record_type == _GROUP:
        return decoder(GroupKey, _KEY_VERSION)(memoryview(key), _TYPE_SIZE)[0]
    raise UnknownRecord(f"a record of type {record_type}")


def check_offset(value: bytes) -> None:
    """Raise the exception of `decode_offset`, in a tenth of its time for the usual value.

    A log holds a hundred thousand offsets, and most are replaced before anybody reads them. For a
    value as we and Kafka 4.3 write it, without metadata, it is enough to check its shape.
    """
    if value[:_TYPE_SIZE] == _NEWEST_VERSION and value[_TEXT_START:_TIME_START] == _EMPTY_TEXT:
        tags = value[_TAGS_START:]
        if tags == _NO_TAGS or (tags[:3] == _TAGGED_ID and len(tags) == _TAGGED_ID_SIZE):
            return
    decode_offset(value)


def decode_offset(value: bytes) -> CommittedOffset:
    """Read a committed offset."""
    version = _version(value, CommittedOffset)
    return decoder(CommittedOffset, version)(memoryview(value), _TYPE_SIZE)[0]


def decode_group(value: bytes) -> GroupSnapshot:
    """Read a group. A group with two equal member or instance ids is damaged.

    This check must be as strict as the invariants of `Roster.add`, so that no record reaches them.
    """
    version = _version(value, GroupValue)
    group = decoder(GroupValue, version)(memoryview(value), _TYPE_SIZE)[0]
    ids = [member.member_id for member in group.members]
    instances = [
        one.group_instance_id for one in group.members if one.group_instance_id is not None
    ]
    if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
        raise CorruptRecords("a group of the offsets topic has two members of one id")
    return GroupSnapshot(
        group.protocol_type,
        group.generation,
        group.protocol,
        group.leader,
        group.current_state_timestamp,
        tuple(
            MemberSnapshot(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout,
                member.session_timeout,
                member.subscription,
                member.assignment,
            )
            for member in group.members
        ),
    )


def _value(version: int, fields: object) -> bytes:
    return version.to_bytes(_TYPE_SIZE) + encode(fields, version)


def _number(data: bytes) -> int:
    """Read the int16 at the start of a key or a value."""
    if len(data) < _TYPE_SIZE:
        raise CorruptRecords(f"a record of the offsets topic has a part of {len(data)} bytes")
    return int.from_bytes(data[:_TYPE_SIZE], signed=True)


def _version(value: bytes, declared: Any) -> int:
    version = _number(value)
    if version not in declared.VERSIONS:
        raise UnknownRecord(f"a value of type {declared.KEY} in version {version}")
    return version
