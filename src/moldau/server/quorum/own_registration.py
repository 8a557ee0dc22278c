"""A voter tells the active controller where it listens and what it supports (KIP-919).

Once in each life of its process: the controller must not raise a feature above what every
controller supports. Brokers register for themselves.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from moldau.cluster.model import RegisteredController
from moldau.cluster.store import StoreFailed
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from moldau.server.nodes.remote_controller import Channel

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Until there is a controller that takes it; nothing waits for it."""

_REFUSED: Final = frozenset(
    {
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""What a registration is told that will never be accepted as it is."""


class OwnController(Protocol):
    """The controller in this process, which may be the active one."""

    @property
    def is_active(self) -> bool: ...

    async def register_controller(self, registration: RegisteredController) -> None: ...


async def register_own_controller(
    own: OwnController, channel: Channel, registration: RegisteredController
) -> None:
    """Return once the active controller has noted this one, or has said why it will not."""
    while True:
        try:
            await _register(own, channel, registration)
        except ApiError as error:
            if error.code in _REFUSED:
                logger.info("this controller is not registered: %s", error)
                return
        except (ClientError, StoreFailed) as error:
            logger.debug("this controller is not registered yet: %s", error)
        else:
            return
        await asyncio.sleep(RETRY_S)


async def _register(
    own: OwnController, channel: Channel, registration: RegisteredController
) -> None:
    if own.is_active:
        await own.register_controller(registration)
        return
    request = ControllerRegistrationRequest(
        registration.id,
        registration.incarnation_id,
        registration.zk_migration_ready,
        [RegistrationListener(*one) for one in registration.endpoints],
        [RegistrationFeature(*one) for one in registration.features],
    )
    answer: ControllerRegistrationResponse = await channel.call(request)
    if answer.error_code:
        raise ApiError(ErrorCode.of(answer.error_code), answer.error_message)
