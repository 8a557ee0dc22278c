"""Every declared message against the bytes Apache Kafka itself makes of the same values.

The values and bytes in `tests/golden/messages.jsonl.gz` come from Kafka's generated classes,
filled by rule (`tests/golden/GoldenBytes.java`; `python -m tests.golden.generate` makes them
again). What is not declared is not asked for; what is declared must be there.
"""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import moldau.protocol.messages
from moldau.protocol.compiler import decode, encode
from moldau.protocol.fields import Field, Kind

GOLDEN = Path(__file__).parents[2] / "golden" / "messages.jsonl.gz"

WITHOUT_REFERENCE = {
    "ControlRecordKey",  # Kafka writes these two int16 by hand
    # Newer than Kafka 4.3.1:
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "UnregisterControllerRecord",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
}

RENAMED = {
    ("TxnOffsetCommitRequest", "generationId"): "generation_id_or_member_epoch",
    ("StreamsGroupHeartbeatResponse", "acceptableRecoveryLag"): "acceptable_recovery_lag_legacy",
}
"""Fields that Kafka has renamed since 4.3.1, and what they are called now."""


def declared() -> dict[str, Any]:
    modules = pkgutil.iter_modules(moldau.protocol.messages.__path__, "moldau.protocol.messages.")
    return {
        name: value
        for module in modules
        for name, value in vars(importlib.import_module(module.name)).items()
        if isinstance(value, type) and hasattr(value, "VERSIONS")
    }


def golden() -> dict[str, list[dict[str, Any]]]:
    rows = defaultdict(list)
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            rows[row["message"]].append(row)
    return rows


DECLARED = declared()
ROWS = golden()
COMMON = sorted(DECLARED.keys() & ROWS.keys())


def build(cls: Any, values: dict[str, Any]) -> Any:
    """Make a message from Kafka's field names; a name we do not have is an error."""
    fields = {squeezed(field.name): field for field in cls.FIELDS}
    named = {
        fields[squeezed(RENAMED.get((cls.__name__, name), name))]: value
        for name, value in values.items()
    }
    return cls(**{field.name: convert(field, value) for field, value in named.items()})


def squeezed(name: str) -> str:
    return name.replace("_", "").lower()


def convert(field: Field, value: Any) -> Any:
    if value is None:
        return None
    match field.kind:
        case Kind.BYTES | Kind.RECORDS | Kind.UUID:
            return bytes.fromhex(value)
        case Kind.STRUCT:
            return build(field.struct, value)
        case Kind.ARRAY:
            assert field.element is not None
            return [convert(field.element, each) for each in value]
        case _:
            return value


def known_rows(name: str) -> list[dict[str, Any]]:
    return [row for row in ROWS[name] if row["version"] in DECLARED[name].VERSIONS]


@pytest.mark.parametrize("name", COMMON)
def test_encoding_makes_kafkas_bytes(name):
    for row in known_rows(name):
        message = build(DECLARED[name], row["values"])
        where = f"version {row['version']}, {row['variant']}"
        assert encode(message, row["version"]).hex() == row["bytes"], where


@pytest.mark.parametrize("name", COMMON)
def test_decoding_kafkas_bytes_gives_the_values(name):
    for row in known_rows(name):
        message = build(DECLARED[name], row["values"])
        decoded = decode(DECLARED[name], row["version"], bytes.fromhex(row["bytes"]))
        assert decoded == message, f"version {row['version']}, {row['variant']}"


def test_every_declared_version_has_kafkas_bytes():
    """Only versions newer than the reference may be without them."""
    missing = []
    for name, cls in DECLARED.items():
        versions = {row["version"] for row in ROWS.get(name, ())}
        if not versions and name not in WITHOUT_REFERENCE:
            missing.append(name)
        missing += [
            f"{name} v{version}"
            for version in cls.VERSIONS
            if version not in versions and version < max(versions, default=0)
        ]
    assert not missing
