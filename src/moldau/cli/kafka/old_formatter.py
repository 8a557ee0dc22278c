"""Records of `__consumer_offsets` as the formatters of Kafka 1.1 print them: a line of text each.

Scripts that read the output of `kafka-simple-consumer-shell` expect these lines. Today's formatters
have the same class names and print JSON: `internal_formatter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.cli.frame import client
from moldau.cli.kafka.internal_formatter import NUMBER_SIZE, leading_number
from moldau.cli.kafka.record_formatter import Formatter, make_formatter
from moldau.coordination.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
)
from moldau.protocol.compiler import decoder

M = TypeVar("M")

OFFSET_TYPES: Final = (0, 1)
GROUP_TYPE: Final = 2


def make_old_formatter(class_name: str, properties: Mapping[str, str]) -> Formatter:
    """Return the formatter that Kafka 1.1 knew by the name of a class."""
    lines = LINES.get(re.split(r"[.$]", class_name)[-1])
    return make_formatter(class_name, properties) if lines is None else _Formatter(lines)


class _Formatter:
    """Prints the records of one kind, and passes over all others."""

    def __init__(self, line_of: Callable[[bytes, bytes | None], str | None]) -> None:
        self._line_of = line_of

    def __call__(self, record: client.Record[bytes | None, bytes | None]) -> bytes:
        if record.key is None:
            return b""
        try:
            line = self._line_of(record.key, record.value)
        except ProtocolError as error:
            raise ValueError(f"could not be read: {error}") from error
        return b"" if line is None else f"{line}\n".encode()


def offset_line(key: bytes, value: bytes | None) -> str | None:
    """Return the line of a committed offset; None if the record is none."""
    if leading_number(key) not in OFFSET_TYPES:
        return None
    about = _read(OffsetKey, 0, key)
    place = f"[{about.group},{about.topic},{about.partition}]"
    if value is None:
        return f"{place}::NULL"
    said = _read(CommittedOffset, leading_number(value), value)
    return (
        f"{place}::[OffsetMetadata[{said.offset},{said.metadata or 'NO_METADATA'}],"
        f"CommitTime {said.commit_timestamp},ExpirationTime {said.expire_timestamp}]"
    )


def group_line(key: bytes, value: bytes | None) -> str | None:
    """Return the line of a group; None if the record is none."""
    if leading_number(key) != GROUP_TYPE:
        return None
    group = _read(GroupKey, 0, key).group
    if value is None:
        return f"{group}::NULL"
    said = _read(GroupValue, leading_number(value), value)
    members = ", ".join(f"{one.member_id} -> {_member(one, said.protocol)}" for one in said.members)
    protocol_type = f"Some({said.protocol_type})" if said.protocol_type else "None"
    return (
        f"{group}::GroupMetadata(groupId={group}, generation={said.generation},"
        f" protocolType={protocol_type}, currentState={'Stable' if members else 'Empty'},"
        f" members=Map({members}))"
    )


def _member(member: MemberValue, protocol: str | None) -> str:
    rebalance_timeout = member.rebalance_timeout
    if rebalance_timeout < 0:
        rebalance_timeout = member.session_timeout
    return (
        f"MemberMetadata(memberId={member.member_id}, clientId={member.client_id},"
        f" clientHost={member.client_host}, sessionTimeoutMs={member.session_timeout},"
        f" rebalanceTimeoutMs={rebalance_timeout}, supportedProtocols=List({protocol}), )"
    )


LINES: Final[Mapping[str, Callable[[bytes, bytes | None], str | None]]] = {
    "OffsetsMessageFormatter": offset_line,
    "GroupMetadataMessageFormatter": group_line,
}
"""Formatters of 1.1 by the last part of their names -> the line of a record."""


def _read(declared: type[M], version: int, content: bytes) -> M:
    if version not in declared.VERSIONS:  # type: ignore[attr-defined]
        raise CorruptRecords(f"a {declared.__name__} in version {version}")
    message, _ = decoder(declared, version)(memoryview(content), NUMBER_SIZE)
    return message
