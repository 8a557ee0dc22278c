"""ApiVersions 0-5: the first question on a connection, answered by every listener of a node.

What is advertised are the routes of the listener that was asked: a controller serves other APIs
than a broker does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from moldau.base.ids import BrokerId
from moldau.cluster.features import KraftLevels, levels_in_force, supported_features
from moldau.cluster.image import MetadataImage
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from moldau.server.network.dispatch import RequestContext, Route

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
LEVEL_ZERO_FROM = 4
"""The first version of ApiVersions in which a feature may have level 0 (KAFKA-17492)."""


class ApiVersionsHandler:
    """Tells what one kind of listener speaks."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        broker_id: BrokerId,
        kraft: Callable[[], KraftLevels],
    ) -> None:
        self._image = image
        self._broker_id = broker_id
        self._kraft = kraft
        self._api_keys: list[ApiVersion] = []

    def serve(self, routes: Iterable[Route]) -> None:
        """Learn what to advertise."""
        self._api_keys = [
            ApiVersion(route.api.key, route.versions.first, route.versions.last)
            for route in sorted(routes, key=lambda route: route.api.key)
        ]

    def __call__(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        """Tell what this broker speaks."""
        if context.version >= 3:
            names = (request.client_software_name, request.client_software_version)
            if not all(SOFTWARE_NAME.fullmatch(name) for name in names):
                return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
            session = context.session
            session.client_software_name, session.client_software_version = names
        image = self._image()
        elsewhere = request.node_id not in (-1, self._broker_id)
        if elsewhere or request.cluster_id not in (None, image.cluster_id):
            return ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED, self._api_keys)
        supported, finalized = _features(image, self._kraft(), context.version)
        return ApiVersionsResponse(
            0,
            self._api_keys,
            supported_features=supported,
            finalized_features_epoch=image.version,
            finalized_features=finalized,
        )

    def unsupported(self) -> ApiVersionsResponse:
        """Answer a client that asked in a version we do not know."""
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, self._api_keys)


def _features(
    image: MetadataImage, kraft: KraftLevels, version: int
) -> tuple[list[SupportedFeatureKey], list[FinalizedFeatureKey]]:
    """Tell which features this broker knows, and which levels are in force.

    Clients that speak less than version 4 stumble over a feature that may be at level 0, so they
    are told only that it is in force.
    """
    known = supported_features(image, kraft)
    supported = [
        SupportedFeatureKey(*one)
        for one in known.values()
        if one.minimum or version >= LEVEL_ZERO_FROM
    ]
    levels = levels_in_force(image, kraft)
    finalized = [FinalizedFeatureKey(name, level, level) for name, level in levels.items()]
    return supported, finalized
