"""Fetch 12-18 and FetchSnapshot 0-1 of the metadata log, for the listeners of the controller.

On those listeners Fetch means this log and nothing else; the Fetch of topics is another handler, on
other listeners. What is answered is decided in `cluster/metadata_feed.py`. Answers name regions of
files, so they take no memory. A parked fetch is a future: it is cancelled with its connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.cluster.metadata_feed import MetadataFeed
from moldau.protocol.messages.data import FetchRequest, FetchResponse
from moldau.protocol.messages.raft import FetchSnapshotRequest, FetchSnapshotResponse
from moldau.security.operations import AclOperation
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.permissions import on_cluster

METADATA_FETCH_VERSIONS: Final = "12-18"
"""Those that can say where two logs part."""

FETCH_SNAPSHOT_VERSIONS: Final = "0-1"

METADATA_FEED_PERMISSIONS: Final = (on_cluster(AclOperation.CLUSTER_ACTION),)
"""Of both requests on the controller's listeners, as in Kafka."""


class MetadataFeedHandlers:
    """Answers the nodes that copy the metadata log."""

    def __init__(self, feed: MetadataFeed) -> None:
        self._feed = feed

    def fetch(
        self, request: FetchRequest, context: RequestContext
    ) -> FetchResponse | asyncio.Future[FetchResponse]:
        """Give what follows in the log, now or when it is committed."""
        del context
        return self._feed.fetch(request)

    def fetch_snapshot(
        self, request: FetchSnapshotRequest, context: RequestContext
    ) -> FetchSnapshotResponse:
        """Give a piece of a snapshot."""
        del context
        return self._feed.fetch_snapshot(request)
