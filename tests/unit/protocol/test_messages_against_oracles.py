"""Declared messages against other implementations: the same versions, fields and bytes.

kio knows most APIs in the versions Kafka 4 takes; kafka-python's older classes know many versions
before that. What Kafka itself makes of each message is compared in `test_golden_bytes`, except for
versions newer than its reference, which stand here as digests.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import pkgutil
import types
import typing
from datetime import timedelta
from typing import Any, NamedTuple

import kafka.protocol.old
import pytest
from kafka.protocol.old.api import Request, Response
from kio.schema.index import schema_name_map
from kio.serial import entity_writer

from kits import message_oracles as oracles
from moldau.base.files import Buffer
from moldau.protocol.compiler import decode, encode
from moldau.protocol.fields import Field, Kind, Versions
from moldau.protocol.messages import API_MESSAGES
from moldau.protocol.messages.metadata_records import METADATA_RECORDS

APIS = {
    0: ("Produce", "0-13", "9+"),
    1: ("Fetch", "0-18", "12+"),
    2: ("ListOffsets", "0-11", "6+"),
    3: ("Metadata", "0-13", "9+"),
    4: ("LeaderAndIsr", "0-7", "4+"),
    5: ("StopReplica", "0-4", "2+"),
    6: ("UpdateMetadata", "0-8", "6+"),
    7: ("ControlledShutdown", "0-3", "3+"),
    8: ("OffsetCommit", "0-10", "8+"),
    9: ("OffsetFetch", "0-10", "6+"),
    10: ("FindCoordinator", "0-6", "3+"),
    11: ("JoinGroup", "0-9", "6+"),
    12: ("Heartbeat", "0-4", "4+"),
    13: ("LeaveGroup", "0-5", "4+"),
    14: ("SyncGroup", "0-5", "4+"),
    15: ("DescribeGroups", "0-6", "5+"),
    16: ("ListGroups", "0-5", "3+"),
    17: ("SaslHandshake", "0-1", "none"),
    18: ("ApiVersions", "0-5", "3+"),
    19: ("CreateTopics", "0-7", "5+"),
    20: ("DeleteTopics", "0-6", "4+"),
    21: ("DeleteRecords", "0-2", "2+"),
    22: ("InitProducerId", "0-6", "2+"),
    23: ("OffsetForLeaderEpoch", "0-4", "4+"),
    24: ("AddPartitionsToTxn", "0-5", "3+"),
    25: ("AddOffsetsToTxn", "0-4", "3+"),
    26: ("EndTxn", "0-5", "3+"),
    27: ("WriteTxnMarkers", "0-2", "1+"),
    28: ("TxnOffsetCommit", "0-6", "3+"),
    29: ("DescribeAcls", "0-3", "2+"),
    30: ("CreateAcls", "0-3", "2+"),
    31: ("DeleteAcls", "0-3", "2+"),
    32: ("DescribeConfigs", "0-4", "4+"),
    33: ("AlterConfigs", "0-2", "2+"),
    34: ("AlterReplicaLogDirs", "0-2", "2+"),
    35: ("DescribeLogDirs", "0-5", "2+"),
    36: ("SaslAuthenticate", "0-2", "2+"),
    37: ("CreatePartitions", "0-3", "2+"),
    38: ("CreateDelegationToken", "0-3", "2+"),
    39: ("RenewDelegationToken", "0-2", "2+"),
    40: ("ExpireDelegationToken", "0-2", "2+"),
    41: ("DescribeDelegationToken", "0-3", "2+"),
    42: ("DeleteGroups", "0-3", "2+"),
    43: ("ElectLeaders", "0-2", "2+"),
    44: ("IncrementalAlterConfigs", "0-1", "1+"),
    45: ("AlterPartitionReassignments", "0-1", "0+"),
    46: ("ListPartitionReassignments", "0", "0+"),
    47: ("OffsetDelete", "0", "none"),
    48: ("DescribeClientQuotas", "0-1", "1+"),
    49: ("AlterClientQuotas", "0-1", "1+"),
    50: ("DescribeUserScramCredentials", "0", "0+"),
    51: ("AlterUserScramCredentials", "0", "0+"),
    52: ("Vote", "0-2", "0+"),
    53: ("BeginQuorumEpoch", "0-1", "1+"),
    54: ("EndQuorumEpoch", "0-1", "1+"),
    55: ("DescribeQuorum", "0-2", "0+"),
    56: ("AlterPartition", "2-3", "0+"),
    57: ("UpdateFeatures", "0-2", "0+"),
    58: ("Envelope", "0", "0+"),
    59: ("FetchSnapshot", "0-1", "0+"),
    60: ("DescribeCluster", "0-2", "0+"),
    61: ("DescribeProducers", "0", "0+"),
    62: ("BrokerRegistration", "0-4", "0+"),
    63: ("BrokerHeartbeat", "0-2", "0+"),
    64: ("UnregisterBroker", "0", "0+"),
    65: ("DescribeTransactions", "0", "0+"),
    66: ("ListTransactions", "0-2", "0+"),
    67: ("AllocateProducerIds", "0", "0+"),
    68: ("ConsumerGroupHeartbeat", "0-1", "0+"),
    69: ("ConsumerGroupDescribe", "0-1", "0+"),
    70: ("ControllerRegistration", "0", "0+"),
    71: ("GetTelemetrySubscriptions", "0", "0+"),
    72: ("PushTelemetry", "0", "0+"),
    73: ("AssignReplicasToDirs", "0", "0+"),
    74: ("ListConfigResources", "0-1", "0+"),
    75: ("DescribeTopicPartitions", "0", "0+"),
    76: ("ShareGroupHeartbeat", "1", "0+"),
    77: ("ShareGroupDescribe", "1", "0+"),
    78: ("ShareFetch", "1-2", "0+"),
    79: ("ShareAcknowledge", "1-2", "0+"),
    80: ("AddRaftVoter", "0-1", "0+"),
    81: ("RemoveRaftVoter", "0", "0+"),
    82: ("UpdateRaftVoter", "0", "0+"),
    83: ("InitializeShareGroupState", "0", "0+"),
    84: ("ReadShareGroupState", "0", "0+"),
    85: ("WriteShareGroupState", "0-1", "0+"),
    86: ("DeleteShareGroupState", "0", "0+"),
    87: ("ReadShareGroupStateSummary", "0-1", "0+"),
    88: ("StreamsGroupHeartbeat", "0-1", "0+"),
    89: ("StreamsGroupDescribe", "0-1", "0+"),
    90: ("DescribeShareGroupOffsets", "0-1", "0+"),
    91: ("AlterShareGroupOffsets", "0", "0+"),
    92: ("DeleteShareGroupOffsets", "0", "0+"),
    93: ("StreamsGroupTopologyDescriptionUpdate", "0", "0+"),
    94: ("UnregisterController", "0", "0+"),
}
"""Key -> name, versions, flexible versions: Kafka 4.4's, and older ones back to Kafka 1.x."""

RECORDS = {
    0: "0-4", 1: "0", 2: "0", 3: "0-2", 4: "0", 5: "0-2", 7: "0", 8: "0", 9: "0", 10: "0",
    11: "0", 12: "0", 14: "0", 15: "0", 17: "0-3", 18: "0", 19: "0", 20: "0", 21: "0", 22: "0",
    23: "0", 24: "0", 25: "0", 26: "0", 27: "0", 28: "0", 29: "0",
}  # fmt: skip
"""Metadata record key -> versions."""

DIGESTS_OF_KAFKA_4_4 = {
    ("ApiVersionsRequest", 5): "467247cb2f9af373e4b1df986613bd4557af21fb51450493d7da67a8456b0436",
    ("ApiVersionsResponse", 5): "67477a56d5e290f3a15a323222a69cf4c00f1b54149efa94dc956f067da1e8f7",
    (
        "TxnOffsetCommitRequest",
        6,
    ): "713fdb89be7a4f96233c15aaade608d7d02f3c694311ce3c892189b34af6f903",
    (
        "TxnOffsetCommitResponse",
        6,
    ): "4879b77515d798b3265b9ef74b74f1bd1186b2014aeaf080cdebfefddccf17a1",
    ("DeleteGroupsRequest", 3): "e58bbf84109cc609650e7a7694cfa6dfefc58d790dd8b2c4269ca8c5d0d70db9",
    ("DeleteGroupsResponse", 3): "6338c6344e6dc81fcdefc172f0b009225d3e7359b1b1e0a18ff0e49d15ed0940",
    (
        "StreamsGroupHeartbeatRequest",
        1,
    ): "66527a40345d87efeb4afd3a10ac12993865f6df18275d0a3f70f59edf394524",
    (
        "StreamsGroupHeartbeatResponse",
        1,
    ): "1a9013a9a003aa1babe2a8eac776871361284d696f320ee347c681141334ce6c",
    (
        "StreamsGroupDescribeRequest",
        1,
    ): "88ce5486ca85e4c4f70bb8481dc8104cbb938a7978fbf6ea3ca7f022001187ca",
    (
        "StreamsGroupDescribeResponse",
        1,
    ): "b97a21ec0990f5cb6dea82dbe3a7161ee3f8138c147ea1d179af94e544726d57",
    (
        "StreamsGroupTopologyDescriptionUpdateRequest",
        0,
    ): "ccc6d74e0f6d4de5353b4c9ca5a61d97daaf864b01566306f8bd0d0fd48f9eff",
    (
        "StreamsGroupTopologyDescriptionUpdateResponse",
        0,
    ): "5b0119cf6c1316f6b46e61811a7d1704e27d80d84722bae4be414e0e99df9cad",
    (
        "UnregisterControllerRequest",
        0,
    ): "e3d640d59ee7f3678a2af6295122921194b25a52e34badcb793c7fdb13c3de15",
    (
        "UnregisterControllerResponse",
        0,
    ): "5b0119cf6c1316f6b46e61811a7d1704e27d80d84722bae4be414e0e99df9cad",
}
"""SHA-256 of what Kafka 4.4.0 encodes from `message_oracles.filled`."""

KIO_KINDS = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
"""Kinds that kio puts a Python type over; it drops the unit from the names of times."""


class Shape(NamedTuple):
    """One field in one version, in words both sides can be put into."""

    name: str
    kind: str
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any
    fields: tuple[Shape, ...]


EMPTY = "empty"
"""The default of arrays. Structs and arrays of structs have none in kio, so all count as empty."""

ZEROS = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "records": None}
"""What a field is by default where nothing else is said; 0 for the other kinds."""

RENAMED_SINCE_KIO = {
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "acceptable_recovery_lag_legacy",
}


def squeezed(name: str) -> str:
    """A name without what the two sides spell differently: `k_raft`, `enable2_pc`, units."""
    return name.replace("_", "").removesuffix("ms")


def our_shape(struct: type[Any], version: int) -> tuple[Shape, ...]:
    return tuple(our_field(field, version) for field in oracles.fields_of(struct, version))


def our_field(field: Field, version: int) -> Shape:
    inner = field.element or field
    kind = inner.kind.value
    return Shape(
        squeezed(field.name),
        kind,
        field.kind is Kind.ARRAY,
        version in field.nullable and kind not in UNKNOWN_NULLABILITY,
        field.tag if version in field.tagged else None,
        EMPTY if kind == "struct" else our_default(field),
        our_shape(inner.struct, version) if inner.struct else (),
    )


def our_default(field: Field) -> Any:
    if field.kind is Kind.UUID:
        assert field.default == bytes(16)
        return 0
    return EMPTY if callable(field.default) else field.default


UNKNOWN_NULLABILITY = {"uuid"}
"""kio calls every uuid optional, for the zero one."""


def kio_shape(entity: type[Any]) -> tuple[Shape, ...]:
    hints = typing.get_type_hints(entity)
    return tuple(
        kio_field(
            RENAMED_SINCE_KIO.get((entity.__name__, field.name), field.name),
            field,
            hints[field.name],
        )
        for field in dataclasses.fields(entity)
    )


def kio_field(name: str, field: dataclasses.Field[Any], hint: Any) -> Shape:
    plain = oracles.without_none(hint)
    is_array = typing.get_origin(plain) is tuple
    element = typing.get_args(plain)[0] if is_array else plain
    declared = field.metadata.get("kafka_type", "struct")
    kind = KIO_KINDS.get(declared, declared)
    return Shape(
        squeezed(name),
        kind,
        is_array,
        plain is not hint and kind not in UNKNOWN_NULLABILITY and declared != "datetime_i64",
        field.metadata.get("tag"),
        EMPTY if kind == "struct" else kio_default(field, declared, kind, is_array=is_array),
        kio_shape(element) if kind == "struct" else (),
    )


def kio_default(field: dataclasses.Field[Any], declared: str, kind: str, *, is_array: bool) -> Any:
    if field.default is dataclasses.MISSING:
        return ZEROS.get(kind, 0)
    if field.default == ():
        return EMPTY
    match declared:
        case "timedelta_i32" | "timedelta_i64":
            return field.default // timedelta(milliseconds=1)
        case "datetime_i64":
            return -1 if field.default is None else field.default
        case "error_code":
            return field.default.value
        case "uuid" if not is_array:
            return 0
        case _:
            return field.default


def in_kio(messages: tuple[type[Any], ...]) -> list[tuple[type[Any], int, type[Any]]]:
    """What kio has of these messages: the message, a version, kio's class."""
    return [
        (message, version, theirs)
        for message in messages
        for version in message.VERSIONS
        if (theirs := oracles.kio_class(message, version)) is not None
    ]


def old_classes() -> dict[tuple[str, int], type[Any]]:
    """kafka-python's older classes by message name and version."""
    modules = pkgutil.iter_modules(kafka.protocol.old.__path__, "kafka.protocol.old.")
    found = {}
    for module in modules:
        for name, value in vars(importlib.import_module(module.name)).items():
            base, _, version = name.rpartition("_v")
            if base and isinstance(value, type) and issubclass(value, (Request, Response)):
                found[base, int(version)] = value
    return found


OLD_CLASSES = old_classes()
# Its partitions are one int32 there; Kafka 3.9 has always read an array.
del OLD_CLASSES["DescribeLogDirsRequest", 0]
KEYS = sorted(APIS)


def test_every_api_of_kafka_is_indexed_under_its_name():
    assert sorted(API_MESSAGES) == list(range(95)) == KEYS
    assert {key: name for key, (_, name) in API_MESSAGES.items()} == {
        key: name for key, (name, _, _) in APIS.items()
    }


@pytest.mark.parametrize("key", KEYS)
def test_an_api_has_the_versions_of_the_public_protocol(key):
    _, versions, flexible = APIS[key]
    for message in oracles.request_and_response(key):
        assert key == message.KEY
        assert Versions.parse(versions) == message.VERSIONS
        flexible_from = Versions.parse(flexible)
        for version in message.VERSIONS:
            assert (version in message.FLEXIBLE) == (version in flexible_from)


def test_metadata_records_have_their_keys_and_versions():
    declared = {key: message.VERSIONS for key, message in METADATA_RECORDS.items()}
    assert declared == {key: Versions.parse(versions) for key, versions in RECORDS.items()}
    assert all(key == message.KEY for key, message in METADATA_RECORDS.items())
    assert all(0 in message.FLEXIBLE for message in METADATA_RECORDS.values())


def test_kio_knows_no_version_that_is_not_declared():
    declared = {
        theirs.__module__
        for message, version in oracles.all_versions()
        if (theirs := oracles.kio_class(message, version)) is not None
    }
    known = {
        path.partition(":")[0]
        for versions in schema_name_map.values()
        for entities in versions.values()
        for path in entities.values()
        if path.endswith(("Request", "Response"))
    }
    assert not known - declared


@pytest.mark.parametrize("key", KEYS)
def test_fields_are_those_of_kio(key):
    for message, version, theirs in in_kio(oracles.request_and_response(key)):
        assert our_shape(message, version) == kio_shape(theirs), f"version {version}"


@pytest.mark.parametrize("key", KEYS)
def test_encoding_makes_the_bytes_of_kio(key):
    compare_bytes_with_kio(oracles.request_and_response(key))


def test_control_records_have_fields_and_bytes_of_kio():
    pairs = in_kio(oracles.CONTROL_RECORDS)
    assert {message for message, _, _ in pairs} == set(oracles.CONTROL_RECORDS)
    for message, version, theirs in pairs:
        assert our_shape(message, version) == kio_shape(theirs), message.__name__
    compare_bytes_with_kio(oracles.CONTROL_RECORDS)


def compare_bytes_with_kio(messages: tuple[type[Any], ...]) -> None:
    for message, version, theirs in in_kio(messages):
        write = entity_writer(theirs)
        for build in (oracles.filled, oracles.bare):
            ours = build(message, version)
            written = kio_bytes(write, oracles.kio_form(ours, version, theirs))
            where = f"{message.__name__} v{version}, {build.__name__}"
            assert encode(ours, version) == written, where
            assert decode(message, version, written) == ours, where


def kio_bytes(write: Any, entity: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("key", KEYS)
def test_encoding_of_old_versions_makes_the_bytes_of_kafka_python(key):
    for message in oracles.request_and_response(key):
        for version in message.VERSIONS:
            theirs = OLD_CLASSES.get((message.__name__, version))
            if theirs is None or oracles.kio_class(message, version) is not None:
                continue
            ours = oracles.filled(message, version)
            written = theirs(*oracles.old_form(ours, version)).encode()
            assert encode(ours, version) == written, f"{message.__name__} v{version}"
            assert decode(message, version, written) == ours, f"{message.__name__} v{version}"


def test_record_carrying_messages_have_an_oracle_in_every_version():
    """Produce and Fetch are worth a second opinion in the oldest versions too."""
    for key in (0, 1):
        for message in oracles.request_and_response(key):
            for version in message.VERSIONS:
                in_old = (message.__name__, version) in OLD_CLASSES
                assert in_old or oracles.kio_class(message, version), f"{message} v{version}"


@pytest.mark.parametrize(("name", "version"), sorted(DIGESTS_OF_KAFKA_4_4))
def test_encoding_of_the_newest_versions_makes_the_bytes_of_kafka_4_4(name, version):
    message = {message.__name__: message for message in oracles.all_messages()}[name]
    encoded = encode(oracles.filled(message, version), version)
    assert hashlib.sha256(encoded).hexdigest() == DIGESTS_OF_KAFKA_4_4[name, version]


def structs_within(struct: type[Any]) -> set[type[Any]]:
    """The class itself and every struct below it."""
    found = {struct}
    for field in struct.FIELDS:
        inner = (field.element or field).struct
        if inner is not None:
            found |= structs_within(inner)
    return found


PYTHON_TYPES: dict[Kind, Any] = {
    Kind.BOOL: bool,
    Kind.FLOAT64: float,
    Kind.UUID: bytes,
    Kind.STRING: str,
    Kind.BYTES: bytes,
}


def python_type(field: Field) -> Any:
    if field.kind is Kind.ARRAY:
        assert field.element is not None
        plain: Any = list[python_type(field.element)]  # type: ignore[misc]
    elif field.kind is Kind.STRUCT:
        plain = field.struct
    else:
        plain = PYTHON_TYPES.get(field.kind, int)
    return plain | None if field.nullable.first <= field.nullable.last else plain


@pytest.mark.parametrize("message", oracles.all_messages(), ids=lambda message: message.__name__)
def test_annotations_say_what_the_declaration_says(message):
    """Declarations are untyped calls to a type checker, so it cannot notice a wrong annotation."""
    for struct in structs_within(message):
        hints = typing.get_type_hints(struct)
        for field in struct.FIELDS:
            if field.kind is Kind.RECORDS:
                assert types.NoneType in typing.get_args(hints[field.name])
                assert set(typing.get_args(Buffer)) <= set(typing.get_args(hints[field.name]))
            else:
                assert hints[field.name] == python_type(field), f"{struct.__name__}.{field.name}"


@pytest.mark.parametrize("message", oracles.all_messages(), ids=lambda message: message.__name__)
def test_tags_are_unique_and_only_in_flexible_versions(message):
    for struct in structs_within(message):
        for version in message.VERSIONS:
            tags = [field.tag for field in struct.FIELDS if version in field.tagged]
            assert len(tags) == len(set(tags))
            assert (
                not tags or version in message.FLEXIBLE or not reachable(message, struct, version)
            )


def reachable(message: type[Any], struct: type[Any], version: int) -> bool:
    """Whether this version of the message has the struct at all."""
    if message is struct:
        return True
    inner = [(field.element or field).struct for field in oracles.fields_of(message, version)]
    return any(reachable(one, struct, version) for one in inner if one is not None)
