"""The APIs: which messages belong to a key, and which headers go before them.

An API is loaded when its key is first met, and only then is the module with its messages imported,
so whoever merely names this module pays for none of the ninety-five. The versions known here are
those declared; which of them a broker offers is the server's decision.

Headers are written by hand, because they are read before anything is known and have quirks of
their own: the client id is a classic string even in the flexible header (KIP-482), and the answer
to ApiVersions never has the flexible header, since the client that reads it cannot know yet which
version the broker chose (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from importlib import import_module
from typing import Any

from moldau.base.checks import invariant
from moldau.base.errors import ProtocolError
from moldau.base.limits import ELEMENTS_PER_PRODUCE, ELEMENTS_PER_REQUEST
from moldau.base.network import Part
from moldau.base.tuples import NamedTuple
from moldau.protocol.compiler import (
    decode_in_slices,
    decoder,
    encode_in_slices,
    encoder,
    short_encoder,
)
from moldau.protocol.fields import FOREVER, NEVER, Versions
from moldau.protocol.framing import PRODUCE_KEY
from moldau.protocol.messages import API_MESSAGES
from moldau.protocol.wire import TEXT_BYTES_MAX, EncodeError, parts_size, skip_tags

API_VERSIONS_KEY = 18
CONTROLLED_SHUTDOWN_KEY = 7

NO_VERSION = FOREVER + 1
"""Above every version the wire can carry."""


class Api(NamedTuple):
    """One request and its response, in all versions."""

    key: int
    name: str
    request: type[Any]
    response: type[Any]
    versions: Versions
    """The declared versions, of the request and of the response alike."""
    tagged_request_from: int
    """The first version whose request has the flexible header; NO_VERSION if none has."""
    tagged_response_from: int
    """The first version whose response has the flexible header; NO_VERSION if none has."""
    elements_max: int
    """How many elements a request may have in all its arrays."""

    def request_header_version(self, version: int) -> int:
        """0 (no client id: only the first ControlledShutdown), 1, or 2 with tagged fields."""
        if version >= self.tagged_request_from:
            return 2
        return 0 if self.key == CONTROLLED_SHUTDOWN_KEY and version == 0 else 1

    def response_header_version(self, version: int) -> int:
        """0, or 1 with tagged fields."""
        return int(version >= self.tagged_response_from)


class RequestHeader(NamedTuple):
    """What stands before every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int
    """Where the request itself begins in the frame."""


_loaded: dict[int, Api] = {}
_read_start = struct.Struct(">hhih").unpack_from
_read_correlation_id = struct.Struct(">i").unpack_from
_write_request_v0 = struct.Struct(">ihhi").pack
_write_request_v1 = struct.Struct(">ihhih").pack
_write_response_v0 = struct.Struct(">ii").pack
_write_response_v1 = struct.Struct(">iix").pack


def find_api(key: int) -> Api:
    """The API with this key; ProtocolError if the protocol has none."""
    found = _loaded.get(key)
    if found is None:
        if key not in API_MESSAGES:
            raise ProtocolError(f"there is no API with key {key}")
        found = _loaded[key] = _load(key)
    return found


def api_of(message: Any) -> Api:
    """The API that a request or response, or its class, belongs to."""
    declared = message if isinstance(message, type) else type(message)
    found = find_api(declared.KEY)  # type: ignore[attr-defined]
    invariant(declared in (found.request, found.response), f"{declared.__name__} belongs to no API")
    return found


def apis() -> Iterator[Api]:
    """All APIs by key; this imports every message."""
    return map(find_api, sorted(API_MESSAGES))


def _load(key: int) -> Api:
    module_name, name = API_MESSAGES[key]
    module = import_module(f"moldau.protocol.messages.{module_name}")
    request, response = getattr(module, f"{name}Request"), getattr(module, f"{name}Response")
    flexible = request.FLEXIBLE
    tagged_from = NO_VERSION if flexible == NEVER else flexible.first
    return Api(
        key,
        name,
        request,
        response,
        request.VERSIONS,
        tagged_request_from=tagged_from,
        tagged_response_from=NO_VERSION if key == API_VERSIONS_KEY else tagged_from,
        elements_max=ELEMENTS_PER_PRODUCE if key == PRODUCE_KEY else ELEMENTS_PER_REQUEST,
    )


def decode_header(view: memoryview) -> RequestHeader:
    """Read the header of the request in this frame, in whatever version it has.

    The version of the request may be one we do not know: the client id is still read, so that the
    refusal can say who api.
    """
    try:
        key, version, correlation_id, length = _read_start(view, 0)
        known = _loaded.get(key) or find_api(key)
        if version == 0 and key == CONTROLLED_SHUTDOWN_KEY:
            return RequestHeader(key, version, correlation_id, None, 8)
        end = 10
        client_id = None
        if length >= 0:
            end += length
            client_id = _client_id(view, end)
        elif length != -1:
            raise ProtocolError(f"the client id has length {length}")
        if version >= known.tagged_request_from:
            end = skip_tags(view, end + 1, view[end])
    except (struct.error, IndexError):
        raise _cut_short(view) from None
    if end > len(view):
        raise _cut_short(view)
    return tuple.__new__(RequestHeader, (key, version, correlation_id, client_id, end))


def _client_id(view: memoryview, end: int) -> str:
    if end > len(view):
        raise _cut_short(view)
    # A name for people: Kafka's brokers take one that is not UTF-8, so clients send it.
    return bytes(view[10:end]).decode(errors="replace")


def _cut_short(view: memoryview) -> ProtocolError:
    return ProtocolError(f"a frame of {len(view)} bytes ends in its header")


def decode_request(header: RequestHeader, view: memoryview) -> Any:
    """Decode the request behind its header. Bytes after it are ignored, as Kafka does."""
    request = find_api(header.api_key).request
    return decoder(request, header.api_version)(view, header.end)[0]


def decode_request_in_slices(header: RequestHeader, view: memoryview) -> Generator[None, None, Any]:
    """Decode a large request, whose view need not outlive the first yield.

    One with more elements than its API allows is refused with ProtocolError.
    """
    api = find_api(header.api_key)
    return decode_in_slices(api.request, header.api_version, view, header.end, api.elements_max)


def encode_request(
    api: Api, version: int, correlation_id: int, client_id: str | None, message: Any
) -> list[Part]:
    """Encode a request with its header and size, ready to send."""
    parts = encoder(api.request, version)(message)
    size = parts_size(parts)
    header_version = api.request_header_version(version)
    if header_version == 0:
        head = _write_request_v0(8 + size, api.key, version, correlation_id)
    else:
        name = b"" if client_id is None else client_id.encode()
        if len(name) > TEXT_BYTES_MAX:
            raise EncodeError(f"a client id of {len(name)} bytes is longer than {TEXT_BYTES_MAX}")
        tags = b"\0" if header_version == 2 else b""
        size += 10 + len(name) + len(tags)
        length = -1 if client_id is None else len(name)
        head = _write_request_v1(size, api.key, version, correlation_id, length) + name + tags
    return _headed(head, parts)


def encode_response(api: Api, version: int, correlation_id: int, message: Any) -> list[Part]:
    """Encode a response with its header and size, ready to send."""
    return _framed_response(api, version, correlation_id, encoder(api.response, version)(message))


def encode_short_response(
    api: Api, version: int, correlation_id: int, message: Any
) -> list[Part] | None:
    """Encode a response, or return None if it has too many elements to be encoded in one go."""
    parts = short_encoder(api.response, version)(message)
    return None if parts is None else _framed_response(api, version, correlation_id, parts)


def encode_response_in_slices(
    api: Api, version: int, correlation_id: int, message: Any
) -> Generator[None, None, list[Part]]:
    """Encode a response of any size, with its header and size, in slices."""
    parts = yield from encode_in_slices(message, version)
    return _framed_response(api, version, correlation_id, parts)


def _framed_response(api: Api, version: int, correlation_id: int, parts: list[Part]) -> list[Part]:
    size = parts_size(parts)
    if version >= api.tagged_response_from:
        return _headed(_write_response_v1(size + 5, correlation_id), parts)
    return _headed(_write_response_v0(size + 4, correlation_id), parts)


def _headed(head: bytes, parts: list[Part]) -> list[Part]:
    """Put the head before the parts. The first of them is always bytes: an encoder's own text."""
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = head + first
    return parts


def response_correlation_id(view: memoryview) -> int:
    """Read which request this frame answers, before its API and version are looked up."""
    if len(view) < 4:
        raise _cut_short(view)
    (correlation_id,) = _read_correlation_id(view, 0)
    return int(correlation_id)


def decode_response(api: Api, version: int, view: memoryview) -> Any:
    """Decode the response in this frame; bytes after it are refused."""
    response_correlation_id(view)
    position = 4
    if version >= api.tagged_response_from:
        try:
            position = skip_tags(view, 5, view[4])
        except IndexError:
            raise _cut_short(view) from None
    message, end = decoder(api.response, version)(view, position)
    if end != len(view):
        left = len(view) - end
        raise ProtocolError(f"{api.name} response v{version} is followed by {left} bytes")
    return message
