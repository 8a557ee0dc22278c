"""DescribeCluster 0-2 on the controllers' listeners: who the controllers are, and who is active.

Tools that are given `--bootstrap-controller` begin here. Brokers are named by brokers only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Endpoint
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from moldau.security.operations import CLUSTER_OPERATIONS, bit_field
from moldau.server.handlers.discovery import CONTROLLERS, NOT_ASKED
from moldau.server.network.dispatch import RequestContext

MISMATCHED: Final = "This is a controller; it names controllers only."


class DescribeControllers:
    """Answers DescribeCluster with controllers."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        leader_id: Callable[[], int],
        own_id: BrokerId,
        own_endpoints: tuple[Endpoint, ...],
    ) -> None:
        """`own_endpoints` are told where no controller is registered: a sole one is not."""
        self._image = image
        self._leader_id = leader_id
        self._own_id = own_id
        self._own_endpoints = own_endpoints

    def __call__(
        self, request: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterResponse:
        """Name every controller by its address on the listener that the question came in on."""
        if request.endpoint_type != CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message=MISMATCHED,
                endpoint_type=CONTROLLERS,
            )
        image = self._image()
        registered = {node: one.endpoints for node, one in sorted(image.controllers.items())}
        return DescribeClusterResponse(
            endpoint_type=CONTROLLERS,
            cluster_id=image.cluster_id,
            controller_id=self._leader_id(),
            brokers=[
                DescribeClusterBroker(node, one.host, one.port, None, False)
                for node, endpoints in (registered or {self._own_id: self._own_endpoints}).items()
                for one in endpoints
                if one.listener == context.session.listener
            ],
            cluster_authorized_operations=bit_field(CLUSTER_OPERATIONS)
            if request.include_cluster_authorized_operations
            else NOT_ASKED,
        )
