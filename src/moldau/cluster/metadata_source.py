"""The port to the node that leads the metadata: what a node that copies its log may ask.

Implementations send the requests to the leader, as far as they know it, and look for another one
when it does not answer. An answer belongs to the request that it is returned for. They give up
after a time of their own, which is longer than the wait that a fetch names. They know nothing of
what the records mean.
"""

from __future__ import annotations

from typing import Protocol

from moldau.base.errors import MoldauError
from moldau.protocol.messages.data import FetchRequest, FetchResponse
from moldau.protocol.messages.raft import FetchSnapshotRequest, FetchSnapshotResponse


class SourceUnavailable(MoldauError):  # noqa: N818 - it names the state
    """No usable answer came; the same may be asked again after a while."""


class MetadataSource(Protocol):
    """The leader's log, over whatever way there is."""

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Fetch batches; records of the answer are bytes. SourceUnavailable if none came."""
        ...

    async def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Fetch a piece of a snapshot; SourceUnavailable if none came."""
        ...

    async def close(self) -> None:
        """Give connections back; nothing is asked any more."""
        ...
