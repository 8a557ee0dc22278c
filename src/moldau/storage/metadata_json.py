"""Records of the metadata log as JSON, as Kafka's tools print them.

The value of a metadata record starts with three varints: frame version, record type and message
version. The message follows. This module does not read files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from struct import Struct
from typing import Any

from moldau.base.errors import ProtocolError
from moldau.protocol.compiler import decode
from moldau.protocol.json_form import as_json, json_text
from moldau.protocol.messages import control_records, metadata_records
from moldau.protocol.wire import read_uvarint
from moldau.records.control import ControlType

FRAME_VERSION = 1

_MESSAGE_VERSION = Struct(">h")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")

_CONTROL_RECORDS: Mapping[int, tuple[str, type[Any]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", control_records.LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", control_records.SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", control_records.SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", control_records.KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", control_records.VotersRecord),
}
"""By type: the label that Kafka's tool prints, with its spelling, and the message class."""

_METADATA_RECORDS: Mapping[int, type[Any]] = {
    declared.KEY: declared
    for declared in vars(metadata_records).values()
    if getattr(declared, "KEY", None) is not None
}


def metadata_record_text(value: bytes | None) -> str:
    """Format the value of a metadata record as JSON; ProtocolError if it is invalid."""
    if value is None:
        raise ProtocolError("a metadata record has a value")
    key, version, position = _frame(value)
    declared = _METADATA_RECORDS.get(key)
    if declared is None:
        raise ProtocolError(f"no metadata record has type {key}")
    message = _decoded(declared, version, value[position:])
    name = _WORD.sub("_", declared.__name__).upper()
    return json_text({"type": name, "version": version, "data": as_json(message, version)})


def control_record_text(kind: int, value: bytes | None) -> str | None:
    """Format a control record of the metadata log; None for any other control type."""
    if kind not in _CONTROL_RECORDS:
        return None
    if value is None or len(value) < _MESSAGE_VERSION.size:
        raise ProtocolError("a control record's value begins with its version")
    label, declared = _CONTROL_RECORDS[kind]
    (version,) = _MESSAGE_VERSION.unpack_from(value)
    return f"{label} {json_text(as_json(_decoded(declared, version, value), version))}"


def _frame(value: bytes) -> tuple[int, int, int]:
    """Return the record type, the message version and the position of the message."""
    try:
        frame_version, position = read_uvarint(value, 0)
        key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise ProtocolError(f"{len(value)} bytes are no metadata record") from None
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"frame version {frame_version} is not known, only {FRAME_VERSION} is")
    return key, version, position


def _decoded(declared: type[Any], version: int, content: bytes) -> Any:
    if version not in declared.VERSIONS:
        raise ProtocolError(f"{declared.__name__} has no version {version}")
    return decode(declared, version, content)
