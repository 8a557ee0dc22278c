"""Asks a node that is to become a voter which levels of `kraft.version` it supports (KIP-853).

It is asked once, at the address at which the other voters will look for it. So a voter that nobody
could reach, or that does not know voters in the log, is not added in the first place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from moldau import __version__
from moldau.base.network import Address
from moldau.cluster.features import KRAFT_FEATURE
from moldau.cluster.raft.voters import VoterEndpoint
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ClientError
from moldau.engine.handshake import SOFTWARE_NAME
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse

PROBE_TIMEOUT_MS: Final = 2_000
"""A node that runs answers within milliseconds; who asks for the change can try again."""


class VoterProbe:
    """Connects to nodes that are to be voters, each time anew."""

    def __init__(self, listener: str, ports: ClientPorts, *, client_id: str) -> None:
        """`listener` names the listener through which the voters talk to each other."""
        self._listener = listener
        self._ports = ports
        self._settings = ConnectionSettings(
            client_id=client_id, request_timeout_ms=PROBE_TIMEOUT_MS
        )

    async def __call__(self, endpoints: Sequence[VoterEndpoint]) -> tuple[int, int]:
        """Return the lowest and the highest level; ApiError says why they are not known."""
        address = self._address(endpoints)
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_MS / 1000):
                return await self._ask(address)
        except TimeoutError:
            raise _unreachable(address, "no answer in time") from None
        except ClientError as error:
            raise _unreachable(address, error.what) from error
        except (OSError, ValueError, OverflowError) as error:
            # Also a name or a port that no address can have.
            raise _unreachable(address, str(error)) from error

    def _address(self, endpoints: Sequence[VoterEndpoint]) -> Address:
        for one in endpoints:
            if one.listener == self._listener:
                return Address(one.host, one.port)
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The new voter names no address for the listener {self._listener}, through which the"
            " voters reach each other.",
        )

    async def _ask(self, address: Address) -> tuple[int, int]:
        connection = await ClientConnection.open(self._ports.network, address, self._settings)
        try:
            request = ApiVersionsRequest(SOFTWARE_NAME, __version__)
            return _kraft_versions(await connection.call(request))
        finally:
            connection.close()


def _kraft_versions(answer: ApiVersionsResponse) -> tuple[int, int]:
    """Read the levels of an answer. A node that names none knows the first level alone."""
    for feature in answer.supported_features:
        if feature.name == KRAFT_FEATURE:
            return feature.min_version, feature.max_version
    return 0, 0


def _unreachable(address: Address, why: str) -> ApiError:
    text = f"The new voter cannot be reached at {address}: {why}."
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, text)
