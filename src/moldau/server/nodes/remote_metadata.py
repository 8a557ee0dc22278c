"""Fetches the metadata log from the controller: the `MetadataSource` of an observer."""

from __future__ import annotations

from typing import Any

from moldau.cluster.metadata_source import SourceUnavailable
from moldau.engine.errors import ClientError
from moldau.protocol.messages.data import FetchRequest, FetchResponse
from moldau.protocol.messages.raft import FetchSnapshotRequest, FetchSnapshotResponse
from moldau.server.nodes.controller_channel import ControllerChannel


class RemoteMetadata:
    """The metadata log of whoever is the controller."""

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Send a fetch; SourceUnavailable if there is no answer."""
        answer: FetchResponse = await self._call(request)
        return answer

    async def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Ask for a piece of a snapshot; SourceUnavailable if there is no answer."""
        answer: FetchSnapshotResponse = await self._call(request)
        return answer

    async def _call(self, request: Any) -> Any:
        try:
            return await self._channel.call(request)
        except ClientError as error:
            raise SourceUnavailable(str(error)) from error

    async def close(self) -> None:
        """End the connection."""
        await self._channel.close()
