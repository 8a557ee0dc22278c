"""The parts of a node in a quorum of controllers, beside those that every broker has.

`Parts` makes them where the settings ask for it, and only then are their modules loaded: other
brokers pay nothing for them.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.base.ids import random_uuid
from moldau.cluster.feature_updates import QuorumContext
from moldau.cluster.features import supported_features
from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.model import Broker, RegisteredController
from moldau.cluster.quorum_description import QuorumDescription
from moldau.cluster.raft.requests import RaiseKraftVersionRequest
from moldau.cluster.raft.voters import NodeId, VoterEndpoint, VoterSet
from moldau.cluster.store import OutcomeUnknown, StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.quorum import NodeKind
from moldau.server.nodes.broker_channels import BrokerChannels
from moldau.server.nodes.broker_watches import BrokerWatches
from moldau.server.nodes.controller_endpoints import controller_endpoints
from moldau.server.nodes.elected_controller import ElectedChannel, ElectedController
from moldau.server.nodes.remote_controller import Channels, RemoteController
from moldau.server.quorum.node_watches import NodeWatches
from moldau.server.quorum.own_registration import register_own_controller
from moldau.server.quorum.suspicions import Suspicions
from moldau.server.quorum.voter_addresses import VoterAddresses

if TYPE_CHECKING:
    from moldau.server.handlers.voter_changes import VoterChangeHandlers
    from moldau.server.parts import Parts

logger = logging.getLogger(__name__)

CLAIM_RETRY_S: Final = 0.1
"""After a claim that failed although this node leads."""


class QuorumParts:
    """How one node takes part in the quorum, asks the controller, and is the controller."""

    def __init__(self, parts: Parts, store: RaftStore) -> None:
        self._parts = parts
        self.store = store
        self.node_id = NodeId(parts.broker_id)
        self._addresses = VoterAddresses(
            lambda: store.voters, parts.settings.quorum.controller_listener
        )
        network = parts.ports.network
        self.watches = BrokerWatches(
            parts.broker_id, store, network, parts.live_brokers.address, self._take_away
        )
        self._node_watches = NodeWatches(self.node_id, network, store.node.connection_reset)
        self._watched = VoterSet()
        self._suspicions = Suspicions()
        self._registering: asyncio.Task[None] | None = None

    # The way to the controller

    def open_channels(self) -> Channels:
        """Return the ways to whichever node is the controller."""
        return Channels(
            lambda purpose: ElectedChannel(
                self._node_channels(purpose), lambda: self.store.leader_id
            )
        )

    def _node_channels(self, purpose: str) -> BrokerChannels:
        parts = self._parts
        timeout_ms = parts.settings.values.integer("controller.socket.timeout.ms")
        return BrokerChannels(
            self.store.peers,
            parts.client_ports(),
            client_id=f"broker-{parts.broker_id}-{purpose}",
            request_timeout_ms=timeout_ms,
        )

    def requests(self, remote: RemoteController) -> ElectedController:
        """Return how this broker asks the controller, which may be in this process."""
        return ElectedController(self._parts.controller, remote)

    def voter_changes(self) -> VoterChangeHandlers:
        """Return what changes the voters when an operator asks for it."""
        # Imported here: a node that is alone does not need it.
        from moldau.server.handlers.voter_changes import VoterChangeHandlers  # noqa: PLC0415
        from moldau.server.quorum.voter_probe import VoterProbe  # noqa: PLC0415

        parts, store = self._parts, self.store
        listener = parts.settings.quorum.controller_listener
        client_id = f"broker-{parts.broker_id}-voter-probe"
        probe = VoterProbe(listener, parts.client_ports(), client_id=client_id)
        return VoterChangeHandlers(
            store.node, self.node_id, lambda: store.identity.cluster_id, probe
        )

    def describe(self) -> QuorumDescription | None:
        """Return what this node knows of the quorum as its leader; None if it does not lead.

        One that nobody else can join has no controller's address: clients reach its broker.
        """
        found = self.store.describe()
        broker = self.store.image.brokers.get(self._parts.broker_id)
        if found is None or broker is None:
            return found
        own = [VoterEndpoint(one.listener, one.host, one.port) for one in broker.endpoints]
        nodes = [one if one.endpoints else one._replace(endpoints=own) for one in found.nodes]
        return replace(found, nodes=nodes)

    def feature_context(self) -> QuorumContext:
        """Return what a change of features has to know of the quorum."""
        parts, store = self._parts, self.store
        voters = [key.node for key in store.voters.keys]
        minimum = parts.settings.values.integer("min.insync.replicas")
        return QuorumContext(
            parts.broker_id, voters, parts.kraft_levels(), minimum, store.unready_voters
        )

    async def raise_kraft_version(self) -> None:
        """Let the log name the voters from now on; ApiError, StoreFailed."""
        store = self.store
        asked = store.node.ask(RaiseKraftVersionRequest(store.identity.cluster_id), 0)
        await asyncio.wait((asked,))
        if asked.cancelled():
            raise OutcomeUnknown("the leadership was lost while kraft.version was raised")
        error = asked.result().answer.error
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        if error is not ErrorCode.NONE:
            raise ApiError(error, "kraft.version is not raised: try again in a few seconds.")

    # Taking part

    def begin(self) -> None:
        """Watch the processes of all voters, and tell the active controller of this one."""
        self.store.on_news = self._watch_voters
        self._watch_voters()
        self._registering = asyncio.ensure_future(self._register_controller())

    def _watch_voters(self) -> None:
        voters = self.store.voters
        if voters is not self._watched:
            self._watched = voters
            self._node_watches.follow(self._addresses.all())

    async def run_for_controller(self) -> None:
        """Be the controller whenever this node leads the quorum, until cancelled.

        It may be that already: a start waits for a voter that is alone.
        """
        controller = self._parts.controller
        while True:
            if not controller.is_active:
                await self.store.leads()
                await controller.claim()
            tenure = self.store.tenure
            if not controller.is_active or tenure is None:
                await asyncio.sleep(CLAIM_RETRY_S)
                continue
            over = asyncio.Event()
            tenure.on_lost(over.set)
            logger.info("node %d is the controller, epoch %d", self._parts.broker_id, tenure.epoch)
            self.watches.look_again()
            await over.wait()

    async def _register_controller(self) -> None:
        """Tell the active controller of this one, if it is one."""
        parts, quorum = self._parts, self._parts.settings.quorum
        if quorum.kind is not NodeKind.MEMBER or parts.channels is None:
            return
        features = supported_features(self.store.image, parts.kraft_levels())
        registration = RegisteredController(
            parts.broker_id,
            random_uuid(parts.ports.random),
            controller_endpoints(parts.settings.listeners),
            tuple(features.values()),
        )
        await register_own_controller(parts.controller, parts.channels.membership, registration)

    async def _take_away(self, broker: Broker) -> None:
        """Fence a broker whose process is gone, if this node is the controller."""
        controller = self._parts.controller
        if not controller.is_active or not self._suspicions.is_believable(broker):
            return
        try:
            if await controller.fence_gone_broker(broker.id, broker.epoch):
                self._suspicions.believed(broker)
                logger.warning("broker %d is gone: its port refuses connections", broker.id)
        except (ApiError, StoreFailed) as error:
            logger.debug("broker %d is not fenced: %s", broker.id, error)

    async def close(self) -> None:
        """Watch nobody any more."""
        self.store.on_news = lambda: None
        if self._registering is not None:
            self._registering.cancel()
            await asyncio.gather(self._registering, return_exceptions=True)
        await self._node_watches.close()
