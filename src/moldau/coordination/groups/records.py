"""The records of __consumer_offsets: Kafka's bytes for committed offsets and for classic groups.

A key is an int16 record type and the fields of the key; a value is an int16 version and the fields
of the value in that version; a record without a value is a tombstone. Types 0 and 1 hold the
offset of one partition for one group (0 was written before Kafka 0.9), type 2 holds a group. The
types from 3 on belong to the newer group protocols: they raise UnknownRecord, and whoever loads a
log passes over them, so that a folder which holds such groups can still be served.

Like Kafka's reader, ours does not mind bytes behind the last field it knows.

What reads raises ProtocolError for bytes that are damaged. Fields have Kafka's names, under which
tools show them.

This module knows forms only. What the records mean is in `offsets` and in the group machine.
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
"""An offset without a time of its own at which it expires: the group's retention decides."""

_OFFSET: Final = 1
_GROUP: Final = 2
_OFFSET_TYPES: Final = (_OFFSET, 0)
_TYPE_SIZE: Final = 2
_OFFSET_TYPE: Final = _OFFSET.to_bytes(_TYPE_SIZE)
_GROUP_TYPE: Final = _GROUP.to_bytes(_TYPE_SIZE)
_KEY_VERSION: Final = 0


@message(key=_OFFSET, versions="0")
class OffsetKey:
    """Which offset: that of one partition for one group."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(key=_OFFSET, versions="0-4", flexible="4+")
class CommittedOffset:
    """An offset a group has reached, and what was kept with it.

    Version 1 adds a time to expire at, which 2 takes away again (KIP-211); 3 adds the leader epoch
    (KIP-320), 4 the id of the topic (KIP-848).
    """

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=NO_TIMESTAMP)
    topic_id: bytes = uuid("4+", tag=0)


_NEWEST_VERSION: Final = (4).to_bytes(_TYPE_SIZE)
_TEXT_START: Final = _TYPE_SIZE + 8 + 4
"""Where the metadata begins in a value of that version: behind offset and leader epoch."""
_EMPTY_TEXT: Final = b"\x01"
_TIME_START: Final = _TEXT_START + len(_EMPTY_TEXT)
_TAGS_START: Final = _TIME_START + 8
"""Behind the time of the commit, where there is no metadata."""
_NO_TAGS: Final = b"\x00"
_TAGGED_ID: Final = b"\x01\x00\x10"
"""One tagged field, it is field 0, it has 16 bytes: the id of the topic."""
_TAGGED_ID_SIZE: Final = len(_TAGGED_ID) + 16


@message(key=_GROUP, versions="0")
class GroupKey:
    """Which group."""

    group: str = string()


@struct
class MemberValue:
    """One member of a group; both time-outs in milliseconds."""

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
    """A group, in the generation whose assignment stands.

    Version 1 adds the rebalance time-out, 2 the state's time (KIP-211), 3 static members.
    """

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=NO_STATE_TIMESTAMP)
    members: list[MemberValue] = array(MemberValue)


class RecordForm(NamedTuple):
    """In which versions values are written."""

    offset_version: int
    group_version: int

    @staticmethod
    def of(inter_broker_protocol: str | None) -> RecordForm:
        """Choose what the tools of a cluster at this `inter.broker.protocol.version` can read."""
        if inter_broker_protocol is None:
            return CURRENT_FORM
        found = re.match(r"(\d+)\.(\d+)", inter_broker_protocol)
        if found is None:
            raise ValueError(f"not a version of Kafka: {inter_broker_protocol!r}")
        release = int(found[1]), int(found[2])
        return FORM_BEFORE_2_1 if release < (2, 1) else CURRENT_FORM


CURRENT_FORM: Final = RecordForm(4, 3)
"""What Kafka 4.3 writes. It can read groups in version 4 but does not write them yet (KIP-915)."""

FORM_BEFORE_2_1: Final = RecordForm(1, 1)
"""What the formatters of Kafka 0.10.1 to 2.0 can read."""

_EXPIRING_VERSION: Final = 1


def offset_record(form: RecordForm, key: OffsetKey, committed: CommittedOffset) -> StateRecord:
    """Write a committed offset. Only version 1 can say when one expires by itself."""
    expires = committed.expire_timestamp != NO_TIMESTAMP
    version = _EXPIRING_VERSION if expires else form.offset_version
    return StateRecord(_OFFSET_TYPE + encode(key, _KEY_VERSION), _value(version, committed))


def offset_tombstone(key: OffsetKey) -> StateRecord:
    """Write that an offset is gone."""
    return StateRecord(_OFFSET_TYPE + encode(key, _KEY_VERSION), None)


def group_record(form: RecordForm, group_id: str, group: GroupSnapshot | None) -> StateRecord:
    """Write a group, or that it is gone."""
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
    """Read what a record is about; UnknownRecord if its type is not ours."""
    record_type = _number(key)
    if record_type in _OFFSET_TYPES:
        return decoder(OffsetKey, _KEY_VERSION)(memoryview(key), _TYPE_SIZE)[0]
    if record_type == _GROUP:
        return decoder(GroupKey, _KEY_VERSION)(memoryview(key), _TYPE_SIZE)[0]
    raise UnknownRecord(f"a record of type {record_type}")


def check_offset(value: bytes) -> None:
    """Raise what `decode_offset` would raise, in a tenth of its time for the usual value.

    A log holds a hundred thousand offsets, and most are replaced before anybody reads them. So only
    the shape of a value is looked at where that tells that it is whole: the form that we and Kafka
    4.3 write, without metadata.
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
    """Read a group; one that names a member or an instance twice is damaged."""
    version = _version(value, GroupValue)
    group = decoder(GroupValue, version)(memoryview(value), _TYPE_SIZE)[0]
    ids = [member.member_id for member in group.members]
    instances = [one.group_instance_id for one in group.members if one.group_instance_id]
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
    """Read the number a key or a value begins with."""
    if len(data) < _TYPE_SIZE:
        raise CorruptRecords(f"a record of the offsets topic has a part of {len(data)} bytes")
    return int.from_bytes(data[:_TYPE_SIZE], signed=True)


def _version(value: bytes, declared: Any) -> int:
    version = _number(value)
    if version not in declared.VERSIONS:
        raise UnknownRecord(f"a value of type {declared.KEY} in version {version}")
    return version
