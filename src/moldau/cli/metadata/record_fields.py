"""One record of the metadata, as its type and fields under Kafka's names.

The fields are those that `moldau log dump --cluster-metadata-decoder` prints. Secrets are hidden: a
tree is made to be shown around.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from moldau.base.errors import ProtocolError
from moldau.cli.frame.profiles import HIDDEN, shown
from moldau.protocol.wire import uvarint
from moldau.records.control import ControlType
from moldau.storage.metadata_json import FRAME_VERSION, control_record_text, metadata_record_text

UNREADABLE: Final = "UNREADABLE"
"""The type of a record that no declaration fits."""

_SECRETS: Final = {
    "USER_SCRAM_CREDENTIAL_RECORD": ("salt", "storedKey", "serverKey"),
}


class RecordFields(NamedTuple):
    """What a record says."""

    type: str
    version: int | None
    fields: dict[str, Any]


def metadata_fields(value: bytes | None) -> RecordFields:
    """Read the value of a metadata record; one that cannot be read says why."""
    try:
        read = json.loads(metadata_record_text(value))
    except ProtocolError as error:
        return _unreadable(value, str(error))
    return RecordFields(read["type"], read["version"], _shown(read["type"], read["data"]))


def framed_fields(key: int, version: int, body: bytes) -> RecordFields:
    """Read a record whose frame was read already."""
    return metadata_fields(uvarint(FRAME_VERSION) + uvarint(key) + uvarint(version) + body)


def control_fields(kind: ControlType | None, value: bytes | None) -> RecordFields:
    """Read a control record; None is a type of the future."""
    if kind is None:
        return _unreadable(value, "a control record of a type that is not known")
    try:
        text = control_record_text(kind, value)
    except ProtocolError as error:
        return _unreadable(value, str(error))
    if text is None:
        return _unreadable(value, f"a {kind.name} record has no place in a metadata log")
    fields = json.loads(text.partition(" ")[2])
    return RecordFields(kind.name, fields.pop("version", None), fields)


def _unreadable(value: bytes | None, reason: str) -> RecordFields:
    return RecordFields(UNREADABLE, None, {"reason": reason, "bytes": len(value or b"")})


def _shown(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    if kind == "CONFIG_RECORD" and fields["value"] is not None:
        return fields | {"value": shown({fields["name"]: fields["value"]})[fields["name"]]}
    return fields | dict.fromkeys(_SECRETS.get(kind, ()), HIDDEN)
