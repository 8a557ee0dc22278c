"""Requests that only the controller can carry out, passed on by a broker that is not it.

A request is passed on until a controller has taken it, for as long as clients usually wait. What
is not known then is whether it was carried out; the client hears nothing, as from a broker that
has died, and asks again.
"""

from __future__ import annotations

import asyncio
import logging
from struct import Struct
from typing import Final

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.base.network import Part
from moldau.engine.errors import ClientClosed, ClientError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import EnvelopeResponse
from moldau.security.session import Session
from moldau.server.nodes.controller_channel import ControllerChannel
from moldau.server.nodes.envelope import seal

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 60.0
"""For how long a request is offered to controllers, as Kafka does."""

RETRY_S: Final = 0.05

FORWARDED: Final = frozenset(
    {
        19,  # CreateTopics
        20,  # DeleteTopics
        30,  # CreateAcls
        31,  # DeleteAcls
        33,  # AlterConfigs
        37,  # CreatePartitions
        38,  # CreateDelegationToken
        39,  # RenewDelegationToken
        40,  # ExpireDelegationToken
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        49,  # AlterClientQuotas
        51,  # AlterUserScramCredentials
        55,  # DescribeQuorum
        57,  # UpdateFeatures
        64,  # UnregisterBroker
        80,  # AddRaftVoter
        81,  # RemoveRaftVoter
        94,  # UnregisterController
    }
)
"""The APIs that the controller answers, by their keys."""

_SIZE: Final = Struct(">i")


class Forwarder:
    """Passes frames on to the controller, and the controller's answers back."""

    def __init__(self, channel: ControllerChannel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock

    async def __call__(self, frame: bytes, session: Session) -> list[Part]:
        """Return the controller's answer, framed; ProtocolError ends the client's connection."""
        envelope = seal(frame, session)
        give_up_s = self._clock.monotonic() + PATIENCE_S
        while True:
            try:
                answer: EnvelopeResponse = await self._channel.call(envelope)
            except ClientClosed as error:
                raise ProtocolError("the broker is stopping") from error
            except ClientError as error:
                problem = str(error)
            else:
                if answer.error_code == ErrorCode.NONE and answer.response_data is not None:
                    return [_SIZE.pack(len(answer.response_data)), answer.response_data]
                if answer.error_code != ErrorCode.NOT_CONTROLLER:
                    code = ErrorCode(answer.error_code)
                    raise ProtocolError(f"the controller has not taken a request: {code.name}")
                self._channel.look_elsewhere()
                problem = "no controller is active"
            if self._clock.monotonic() >= give_up_s:
                logger.warning("a request of %s was given up: %s", session.peer, problem)
                raise ProtocolError(problem)
            await asyncio.sleep(RETRY_S)
