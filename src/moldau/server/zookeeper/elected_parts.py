"""The parts of a broker whose cluster is on ZooKeeper, beside those that every broker has.

`Parts` makes them where the settings ask for it, and only then are their modules loaded: other
brokers pay nothing for them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from moldau.base.ids import BrokerId
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.cluster.zookeeper.tool_decisions import RequestSettings
from moldau.protocol.messages.replication import LeaderAndIsrRequest, LeaderAndIsrResponse
from moldau.server.nodes.broker_channels import BrokerChannels
from moldau.server.nodes.broker_watches import BrokerWatches
from moldau.server.nodes.elected_controller import ElectedChannel, ElectedController
from moldau.server.nodes.remote_controller import Channels, RemoteController
from moldau.server.zookeeper.gone_brokers import take_away
from moldau.server.zookeeper.membership import ZooKeeperMembership
from moldau.server.zookeeper.role_answers import RoleAnswers
from moldau.server.zookeeper.shutdown_request import ShutdownRequest
from moldau.server.zookeeper.silent_leaders import SilentLeaders
from moldau.server.zookeeper.tenures import Tenures

if TYPE_CHECKING:
    from moldau.server.parts import Parts


class ElectedParts:
    """How one broker lives on ZooKeeper, asks the controller, and is the controller."""

    def __init__(self, parts: Parts, store: ZooKeeperStore) -> None:
        self._parts = parts
        self.store = store
        self.watches = BrokerWatches(
            parts.broker_id,
            store,
            parts.ports.network,
            parts.live_brokers.address,
            partial(take_away, store),
        )
        self.silent_leaders = SilentLeaders(self._waiting_for, self.watches.probe)
        values = parts.settings.values
        self._timeout_ms = values.integer("controller.socket.timeout.ms")
        self.tenures = Tenures(
            parts.broker_id,
            store,
            parts.controller,
            self._registered,
            self._open_command_channels,
            self.watches.look_again,
            RequestSettings(
                parts.ports.random,
                parts.settings.delete_topic_enable,
                bool(values.value("unclean.leader.election.enable")),
            ),
            self._own_roles,
        )

    def _waiting_for(self, longer_than_s: float) -> Collection[BrokerId]:
        return self._parts.fetchers.waiting_for(longer_than_s)  # made after this

    async def _registered(self) -> None:
        """Return when this broker has a node in ZooKeeper."""
        assert isinstance(self._parts.membership, ZooKeeperMembership)  # it was made here
        await self._parts.membership.registered()

    async def _own_roles(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        parts = self._parts
        roles = RoleAnswers(self.store, parts.broker_id, parts.partitions, parts.replicas)
        return await roles.answer(request)

    def open_channels(self) -> Channels:
        """Return the ways to whichever broker is the controller."""
        return Channels(
            lambda purpose: ElectedChannel(
                self._parts.open_broker_channels(purpose, self._timeout_ms),
                lambda: self.store.leader_id,
            )
        )

    def _open_command_channels(self) -> BrokerChannels:
        return self._parts.open_broker_channels("controller", self._timeout_ms)

    def requests(self, remote: RemoteController) -> ElectedController:
        """Return how this broker asks the controller, which may be itself."""
        return ElectedController(self._parts.controller, remote)

    def membership(self, channels: Channels) -> ZooKeeperMembership:
        """Return how this broker joins, stays and leaves."""
        parts = self._parts
        patience_ms = parts.settings.values.integer("initial.broker.registration.timeout.ms")
        return ZooKeeperMembership(
            self.store,
            ShutdownRequest(parts.controller, channels.membership),
            parts.ports.clock,
            patience_ms / 1000,
            parts.housekeeping.keep_broker_epoch,
            lambda: (parts.logs.failed_directory_ids, parts.room_count),
        )
