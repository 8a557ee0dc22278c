"""ControllerRegistration 0: a controller that starts says where it listens and what it supports.

It is served on the controllers' listeners. The controller decides what to note; this translates.
"""

from __future__ import annotations

from typing import Protocol

from moldau.base.ids import BrokerId
from moldau.cluster.model import Endpoint, FeatureRange, RegisteredController
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from moldau.server.handlers.members import REGISTERED_MAX, TEXT_MAX
from moldau.server.network.dispatch import RequestContext


class ControllerRegister(Protocol):
    """What notes who the controllers are; the active controller."""

    async def register_controller(self, registration: RegisteredController) -> None:
        """Note what a controller that starts says of itself; ApiError, StoreFailed."""
        ...


class ControllerRegistrationHandler:
    """Answers ControllerRegistration."""

    def __init__(self, register: ControllerRegister) -> None:
        self._register = register

    async def __call__(
        self, request: ControllerRegistrationRequest, context: RequestContext
    ) -> ControllerRegistrationResponse:
        """Note where a controller that starts listens, and what it supports."""
        del context
        if not _is_reasonable(request):
            problem = "A controller does not have such an id, so many listeners or such names."
            return ControllerRegistrationResponse(0, ErrorCode.INVALID_REGISTRATION, problem)
        try:
            await self._register.register_controller(_registration(request))
        except ApiError as error:
            return ControllerRegistrationResponse(0, error.code, error.message)
        except StoreFailed as error:
            return ControllerRegistrationResponse(0, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return ControllerRegistrationResponse(0, ErrorCode.NONE, None)


def _registration(request: ControllerRegistrationRequest) -> RegisteredController:
    return RegisteredController(
        BrokerId(request.controller_id),
        request.incarnation_id,
        tuple(
            Endpoint(one.name, one.host, one.port, one.security_protocol)
            for one in request.listeners
        ),
        tuple(
            FeatureRange(one.name, one.min_supported_version, one.max_supported_version)
            for one in request.features
        ),
    )


def _is_reasonable(request: ControllerRegistrationRequest) -> bool:
    """Tell whether a registration can be that of a controller; Kafka sets no limits here."""
    if request.controller_id < 0:
        return False
    if max(len(request.listeners), len(request.features)) > REGISTERED_MAX:
        return False
    texts = [one.name for one in request.features]
    for listener in request.listeners:
        texts += (listener.name, listener.host)
    return all(len(text) <= TEXT_MAX for text in texts)
