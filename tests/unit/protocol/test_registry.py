"""APIs by key, and headers against bytes derived by hand and two other implementations."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from kafka.protocol.metadata import ApiVersionsRequest as KafkaPythonApiVersionsRequest
from kafka.protocol.metadata import MetadataRequest as KafkaPythonMetadataRequest
from kio.index import api_key_map as kio_api_keys
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer

from moldau.base.errors import InvariantViolated, ProtocolError
from moldau.base.files import FileRegion
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.protocol.messages.metadata_records import TopicRecord
from moldau.protocol.messages.replication import ControlledShutdownRequest
from moldau.protocol.registry import (
    RequestHeader,
    api_of,
    apis,
    decode_header,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    find_api,
    response_correlation_id,
)
from moldau.protocol.wire import EncodeError, parts_size

FETCH, METADATA, SHUTDOWN, API_VERSIONS = (find_api(key) for key in (1, 3, 7, 18))


def joined(parts) -> bytes:
    return b"".join(parts)


def test_every_key_of_the_protocol_has_its_two_messages():
    found = list(apis())
    assert [api.key for api in found] == list(range(95))
    for api in found:
        assert api.request.__name__ == f"{api.name}Request"
        assert api.response.__name__ == f"{api.name}Response"
        assert api.request.KEY == api.response.KEY == api.key
        assert api.request.VERSIONS == api.response.VERSIONS == api.versions
        assert api.request.FLEXIBLE == api.response.FLEXIBLE


def test_an_api_is_loaded_once():
    assert find_api(3) is METADATA


def test_an_api_is_found_by_its_messages_and_a_stored_record_has_none():
    assert api_of(MetadataRequest) is METADATA
    assert api_of(MetadataResponse()) is METADATA
    with pytest.raises(InvariantViolated, match="TopicRecord belongs to no API"):
        api_of(TopicRecord)


@pytest.mark.parametrize("key", [-1, 95, 32767])
def test_an_unknown_key_is_refused(key):
    with pytest.raises(ProtocolError, match=f"no API with key {key}"):
        find_api(key)


@pytest.mark.process
def test_naming_the_registry_imports_no_messages():
    script = (
        "import sys, moldau.protocol.registry;"
        "print([n for n in sys.modules if n.startswith('moldau.protocol.messages.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_header_versions_agree_with_kio_for_every_api_and_version():
    compared = 0
    for key in kio_api_keys:
        api = find_api(key)
        for version in api.versions:
            try:
                request = load_request_schema(key, version)
                response = load_response_schema(key, version)
            except Exception:  # noqa: BLE001 - kio has not every version; the count tells
                continue
            assert api.request_header_version(version) == request.__header_schema__.__version__
            assert api.response_header_version(version) == response.__header_schema__.__version__
            compared += 1
    assert compared > 200


HEADERS = [
    pytest.param(3, 1, 7, "me", "0003 0001 00000007 0002 6d65", id="v1"),
    pytest.param(3, 1, 7, None, "0003 0001 00000007 ffff", id="v1-null"),
    pytest.param(3, 1, 7, "", "0003 0001 00000007 0000", id="v1-empty"),
    pytest.param(3, 9, 7, "me", "0003 0009 00000007 0002 6d65 00", id="v2"),
    pytest.param(3, 9, -1, None, "0003 0009 ffffffff ffff 00", id="v2-null"),
    pytest.param(3, 9, 7, "é", "0003 0009 00000007 0002 c3a9 02 0001aa 8001 00", id="v2-tags"),
    pytest.param(18, 99, 7, "me", "0012 0063 00000007 0002 6d65 00", id="version-too-new"),
    pytest.param(7, 0, 7, None, "0007 0000 00000007", id="v0"),
    pytest.param(7, 1, 7, "me", "0007 0001 00000007 0002 6d65", id="shutdown-v1"),
]


@pytest.mark.parametrize(("key", "version", "correlation_id", "client_id", "data"), HEADERS)
def test_a_header_is_read_in_its_version(key, version, correlation_id, client_id, data):
    header = bytes.fromhex(data)
    expected = RequestHeader(key, version, correlation_id, client_id, len(header))
    body = b"body"
    decoded = decode_header(memoryview(header + body))
    assert decoded == expected
    assert decoded.client_id == client_id


@pytest.mark.parametrize(("key", "version", "correlation_id", "client_id", "data"), HEADERS[:-2])
def test_a_header_cut_short_is_refused(key, version, correlation_id, client_id, data):
    header = bytes.fromhex(data)
    for size in range(len(header)):
        with pytest.raises(ProtocolError, match=f"a frame of {size} bytes ends in its header"):
            decode_header(memoryview(header[:size]))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("0003 0001 00000007 fffe", "client id has length -2"),
        ("03e7 0001 00000007 ffff", "no API with key 999"),
        ("0003 0009 00000007 ffff ffffffffffff", "varint is longer"),
        ("0003 0009 00000007 ffff 01 00 7f", "ends in its header"),
    ],
)
def test_a_malformed_header_is_refused(data, complaint):
    with pytest.raises(ProtocolError, match=complaint):
        decode_header(memoryview(bytes.fromhex(data)))


@pytest.mark.parametrize(
    ("api", "version", "message", "frame"),
    [
        (METADATA, 1, MetadataRequest(None), "00000010 0003 0001 00000007 0002 6d65 ffffffff"),
        (
            METADATA,
            9,
            MetadataRequest([MetadataRequestTopic(name="t")]),
            "00000015 0003 0009 00000007 0002 6d65 00 02 02 74 00 01 00 00 00",
        ),
        (SHUTDOWN, 0, ControlledShutdownRequest(5), "0000000c 0007 0000 00000007 00000005"),
    ],
)
def test_a_request_is_framed_behind_its_header(api, version, message, frame):
    parts = encode_request(api, version, 7, "me", message)
    assert joined(parts).hex() == frame.replace(" ", "")
    view = memoryview(joined(parts))[4:]
    assert decode_request(decode_header(view), view) == message


def test_bytes_after_a_request_are_ignored():
    view = memoryview(
        joined(encode_request(METADATA, 1, 7, "me", MetadataRequest(None)))[4:] + b"?"
    )
    assert decode_request(decode_header(view), view) == MetadataRequest(None)


def test_a_client_id_longer_than_its_length_can_say_is_refused():
    with pytest.raises(EncodeError, match="client id of 32768 bytes"):
        encode_request(METADATA, 1, 7, "x" * 32768, MetadataRequest(None))


def test_requests_equal_those_of_kafka_python():
    ours = encode_request(API_VERSIONS, 3, 7, "me", ApiVersionsRequest("moldau", "1.0"))
    theirs = KafkaPythonApiVersionsRequest(
        version=3, client_software_name="moldau", client_software_version="1.0"
    )
    theirs.with_header(correlation_id=7, client_id="me")
    assert joined(ours) == bytes(theirs.encode(header=True, framed=True))
    ours = encode_request(METADATA, 1, 8, "me", MetadataRequest([MetadataRequestTopic(name="t")]))
    theirs = KafkaPythonMetadataRequest(
        version=1, topics=[KafkaPythonMetadataRequest.MetadataRequestTopic(name="t")]
    )
    theirs.with_header(correlation_id=8, client_id="me")
    assert joined(ours) == bytes(theirs.encode(header=True, framed=True))


@pytest.mark.parametrize(("key", "version"), [(3, 1), (3, 12), (18, 0), (18, 3), (17, 1)])
def test_request_headers_equal_those_of_kio(key, version):
    schema = load_request_schema(key, version).__header_schema__
    theirs = io.BytesIO()
    entity_writer(schema)(
        theirs,
        schema(request_api_key=key, request_api_version=version, correlation_id=7, client_id="me"),
    )
    api = find_api(key)
    ours = joined(encode_request(api, version, 7, "me", api.request()))[4:]
    assert ours.startswith(theirs.getvalue())
    assert decode_header(memoryview(ours)).end == len(theirs.getvalue())


@pytest.mark.parametrize(
    ("api", "version", "message", "header"),
    [
        (METADATA, 1, MetadataResponse(), "00000007"),
        (METADATA, 9, MetadataResponse(), "00000007 00"),
        (API_VERSIONS, 0, ApiVersionsResponse(), "00000007"),
        (API_VERSIONS, 3, ApiVersionsResponse(), "00000007"),
    ],
)
def test_a_response_is_framed_behind_its_header(api, version, message, header):
    frame = joined(encode_response(api, version, 7, message))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    view = memoryview(frame)[4:]
    assert view.tobytes().startswith(bytes.fromhex(header))
    assert response_correlation_id(view) == 7
    assert decode_response(api, version, view) == message
    for size in range(len(view)):
        with pytest.raises(ProtocolError):
            decode_response(api, version, view[:size])
    with pytest.raises(ProtocolError, match="followed by 1 bytes"):
        decode_response(api, version, memoryview(view.tobytes() + b"?"))


def test_unknown_tags_in_a_response_header_are_skipped():
    body = joined(encode_response(METADATA, 9, 7, MetadataResponse()))[9:]
    view = memoryview(bytes.fromhex("00000007 01 05 02 abcd") + body)
    assert decode_response(METADATA, 9, view) == MetadataResponse()


def test_the_size_of_a_response_counts_regions_that_are_not_read():
    region = FileRegion(None, 0, 5000)
    answer = FetchResponse(
        responses=[
            FetchableTopicResponse("t", partitions=[FetchablePartitionResponse(records=[region])])
        ]
    )
    parts = encode_response(FETCH, 12, 7, answer)
    assert parts[1] is region
    assert int.from_bytes(parts[0][:4], "big") == parts_size(parts) - 4


def test_a_client_id_that_is_not_utf_8_is_read_as_kafka_reads_it():
    header = decode_header(memoryview(bytes.fromhex("00030001 00000007 0002 c328")))
    assert header.client_id == "\N{REPLACEMENT CHARACTER}("
