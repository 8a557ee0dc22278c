"""Requests that only the controller can carry out, passed on by a broker that is not it.

A request is sent until a controller answers it, for as long as its client waits. After that nobody
knows whether it was carried out. The client's connection is closed, as by a broker that has died,
and the client asks again. What it has given up must not be carried out by a later controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.base.limits import FLAT_REQUEST_BYTES, PLAIN_REQUEST_BYTES
from moldau.base.network import Part
from moldau.engine.errors import ClientClosed, ClientError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import EnvelopeResponse
from moldau.protocol.registry import decode_header, decode_request
from moldau.security.session import Session
from moldau.server.nodes.envelope import seal
from moldau.server.nodes.remote_controller import Channel

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 60.0
"""For how long a request is offered to controllers at most, as Kafka does."""

RETRY_S: Final = 0.05

FORWARDED: Final[Mapping[int, str]] = MappingProxyType(
    {
        19: "0-7",  # CreateTopics
        20: "0-6",  # DeleteTopics
        33: "0-2",  # AlterConfigs
        37: "0-3",  # CreatePartitions
        43: "0-2",  # ElectLeaders
        44: "0-1",  # IncrementalAlterConfigs
        45: "0-1",  # AlterPartitionReassignments
        46: "0",  # ListPartitionReassignments
        55: "0-2",  # DescribeQuorum
        57: "0-2",  # UpdateFeatures
        64: "0",  # UnregisterBroker
        80: "0-1",  # AddRaftVoter
        81: "0",  # RemoveRaftVoter
        94: "0",  # UnregisterController
    }
)
"""The APIs that the controller answers, and their versions, by their keys."""

ENVELOPE_BYTES: Final = 1_024
"""What an envelope adds to a request: two headers, who asks, and from where."""

_SIZE: Final = Struct(">i")


class Forwarder:
    """Passes frames on to the controller, and the controller's answers back."""

    def __init__(self, channel: Channel, clock: Clock, *, frame_limit: int) -> None:
        """`frame_limit` is `socket.request.max.bytes`, taken to be the controller's as well."""
        self._channel = channel
        self._clock = clock
        self._size_max = min(frame_limit, PLAIN_REQUEST_BYTES) - ENVELOPE_BYTES

    async def __call__(self, frame: bytes, session: Session) -> list[Part]:
        """Return the controller's answer, framed; ProtocolError ends the client's connection."""
        if len(frame) > self._size_max:
            # The controller would hang up on it, again and again, and on all that others wait for.
            raise ProtocolError(
                f"a request of {len(frame)} bytes cannot be forwarded, the limit is"
                f" {self._size_max}"
            )
        envelope = seal(frame, session)
        started_s = self._clock.monotonic()
        give_up_s: float | None = None
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
                    code = ErrorCode.of(answer.error_code)
                    raise ProtocolError(f"the controller has not taken a request: {code.name}")
                self._channel.look_elsewhere()
                problem = "no controller is active"
            if give_up_s is None:  # only now: most are answered at once, and not looked into
                give_up_s = started_s + patience_s(frame)
            if self._clock.monotonic() >= give_up_s:
                logger.warning("a request of %s was given up: %s", session.peer, problem)
                raise ProtocolError(problem)
            await asyncio.sleep(RETRY_S)


def patience_s(frame: bytes) -> float:
    """Return for how long a request is offered: no longer than the time-out that it names.

    Zero and less name none. A large request is not looked into.
    """
    if len(frame) > FLAT_REQUEST_BYTES:
        return PATIENCE_S
    view = memoryview(frame)
    timeout_ms: int = getattr(decode_request(decode_header(view), view), "timeout_ms", 0)
    return min(PATIENCE_S, timeout_ms / 1000) if timeout_ms > 0 else PATIENCE_S
