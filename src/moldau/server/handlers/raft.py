"""What the nodes of the metadata quorum ask each other: elections, the log, its snapshots.

Vote 0-2, BeginQuorumEpoch 0-1, EndQuorumEpoch 0-1, Fetch 12-18, FetchSnapshot 0-1 and
UpdateRaftVoter 0, on the listeners of a controller. There Fetch means the metadata log and nothing
else. What is answered is decided in `cluster/raft`. Answers name regions of files, so that they
take no memory.

A request that waits is a future: it is cancelled with its connection, and holds up no stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from moldau.base.files import FileRegion
from moldau.base.prompt_future import PromptFuture
from moldau.cluster.kraft.messages import (
    NodeEndpoint,
    answer_message,
    refusal_message,
    request_of,
)
from moldau.cluster.raft.requests import QuorumAnswer, Request
from moldau.cluster.raft.voters import NodeId, VoterSet
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import FetchRequest
from moldau.protocol.messages.raft import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from moldau.server.network.dispatch import RequestContext

ANSWER_BYTES_MAX: Final = 8 << 20
"""Whatever a request asks for; nodes ask for 1 MiB. One batch may still be larger."""


class ServedAnswer(Protocol):
    """What a node answers, and the bytes of a file that belong to it."""

    @property
    def answer(self) -> QuorumAnswer:
        """The answer of the core."""
        ...

    @property
    def region(self) -> FileRegion | None:
        """Batches, or a piece of a snapshot."""
        ...


class QuorumNode(Protocol):
    """This node of the quorum; `RaftNode`."""

    @property
    def leader(self) -> NodeId:
        """The node that leads, as far as this one knows."""
        ...

    @property
    def voters(self) -> VoterSet:
        """The voters in force, with their addresses as far as they are known."""
        ...

    def ask(self, request: Request, max_bytes: int, /) -> asyncio.Future[Any]:
        """Take a request; the future is a `ServedAnswer`, and may be cancelled."""
        ...


class RaftHandlers:
    """Answers the other nodes of the quorum."""

    def __init__(self, node: QuorumNode, own: NodeId) -> None:
        self._node = node
        self._own = own

    def fetch(self, message: FetchRequest | FetchSnapshotRequest, context: RequestContext) -> Any:
        """Give what follows in the log, now or when there is more; or a piece of a snapshot."""
        return self._ask(message, context, min(max(message.max_bytes, 0), ANSWER_BYTES_MAX))

    def take_part(
        self,
        message: VoteRequest
        | BeginQuorumEpochRequest
        | EndQuorumEpochRequest
        | UpdateRaftVoterRequest,
        context: RequestContext,
    ) -> Any:
        """Take part in an election, or take note of where a voter is."""
        return self._ask(message, context, 0)

    def _ask(self, message: Any, context: RequestContext, max_bytes: int) -> Any:
        request = request_of(message, self._own)
        if isinstance(request, ErrorCode):
            return refusal_message(message, request)
        asked = self._node.ask(request, max_bytes)
        return _when_served(asked, partial(self._answer, message, context.session.listener))

    def _answer(self, message: Any, listener: str, served: ServedAnswer) -> Any:
        answer, region = served.answer, served.region
        leader = self._endpoint(answer.leader, listener)
        return answer_message(message, answer, leader, b"" if region is None else (region,))

    def _endpoint(self, node: NodeId, listener: str) -> NodeEndpoint | None:
        """Say where a voter is reached by those that come in through a listener."""
        for voter in self._node.voters.voters:
            if voter.key.node == node:
                for one in voter.endpoints:
                    if one.listener == listener:
                        return NodeEndpoint(node, one.host, one.port)
        return None


def _when_served(
    asked: asyncio.Future[Any], answer: Callable[[ServedAnswer], Any]
) -> asyncio.Future[Any]:
    """Return the answer that is to come; if it is cancelled, so is the request."""
    message: PromptFuture[Any] = PromptFuture()

    def served(asked: asyncio.Future[Any]) -> None:
        if message.done():
            return
        try:
            message.set_result(answer(asked.result()))
        except asyncio.CancelledError:
            message.cancel()
        except Exception as error:  # noqa: BLE001 - the connection reports it, as of any handler
            message.set_exception(error)

    def ended(message: asyncio.Future[Any]) -> None:
        if message.cancelled():
            asked.cancel()

    asked.add_done_callback(served)
    message.add_done_callback(ended)
    return message
