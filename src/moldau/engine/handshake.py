"""The first words on a connection: which versions the broker speaks; later, who we are.

Brokers have answered ApiVersions since 0.10. One that does not know the version it was asked in
answers in version 0 with UNSUPPORTED_VERSION, and since 2.4 names those it knows (KIP-511); it is
asked again in one of them. From version 5 the request says which broker it is meant for, so that an
address which has passed to another broker is noticed before anything is sent there (KIP-1242).

TLS comes before all this, in the network port; SASL comes after it, here.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moldau import __version__
from moldau.base.tuples import NamedTuple
from moldau.engine.broker_errors import broker_error
from moldau.engine.errors import CorruptAnswer
from moldau.protocol.errors import ErrorCode
from moldau.protocol.fields import Versions
from moldau.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.registry import API_VERSIONS_KEY, api_of

SOFTWARE_NAME = "moldau"

_read_error = struct.Struct(">4xh").unpack_from


class Expected(NamedTuple):
    """Whom a connection is made to, as far as that is known."""

    broker_id: int = -1
    cluster_id: str | None = None


async def agree_on_versions(
    send: Callable[[Any, int], Awaitable[Any]], expected: Expected, ceiling: int | None = None
) -> dict[int, Versions]:
    """Ask a broker which versions of which APIs it speaks.

    A BrokerError says why it will not talk to us, REBOOTSTRAP_REQUIRED that it is not the one that
    was expected. Cancelled, the connection is of no use any more.
    """
    request = ApiVersionsRequest(
        SOFTWARE_NAME, __version__, expected.cluster_id, expected.broker_id
    )
    version = api_of(ApiVersionsRequest).versions.last
    if ceiling is not None:
        version = min(version, ceiling)
    answer: ApiVersionsResponse = await send(request, version)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
        answer = await send(request, _newest_offered(answer, version))
    if answer.error_code != ErrorCode.NONE:
        raise broker_error(answer.error_code)
    if not answer.api_keys:
        raise CorruptAnswer("the broker reports no supported API")
    return {one.api_key: Versions(one.min_version, one.max_version) for one in answer.api_keys}


def _newest_offered(answer: ApiVersionsResponse, refused: int) -> int:
    for one in answer.api_keys:
        if one.api_key == API_VERSIONS_KEY:
            return max(0, min(one.max_version, refused - 1))
    return 0


def version_of_hello(version: int, frame: memoryview) -> int:
    """Tell in which version a frame answers ApiVersions: a refusal is always in version 0."""
    if len(frame) < 6 or _read_error(frame, 0)[0] != ErrorCode.UNSUPPORTED_VERSION:
        return version
    return 0


def usable_versions(
    offered: Mapping[int, Versions], ceilings: Mapping[int, int]
) -> dict[int, Versions]:
    """Return the offered versions without those above our own ceilings."""
    usable = dict(offered)
    for key, ceiling in ceilings.items():
        if key in usable:
            usable[key] = Versions(usable[key].first, min(usable[key].last, ceiling))
    return usable
