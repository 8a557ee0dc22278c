"""The commands of a controller, as the brokers of a small cluster see them."""

from __future__ import annotations

import asyncio

from kits.metadata_samples import with_brokers, with_topic
from moldau.cluster.topics import NewTopic
from moldau.cluster.zookeeper.commands.outgoing import Sender
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.replication import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from moldau.server.zookeeper.command_sender import CommandSender

CONTROLLER, OTHER = 1, 2


class Cluster:
    """Metadata that does not change, and brokers that carry out everything."""

    def __init__(self):
        image = with_brokers([CONTROLLER, OTHER])
        self.image = with_topic(image, NewTopic("t", assignments={0: [CONTROLLER, OTHER]}))
        self.asked = []
        self.answered = asyncio.Queue()
        self.sender = CommandSender(
            Sender(CONTROLLER, 1), self, self, superseded=lambda: None, roles_answered=self.note
        )

    def subscribe(self, listener):
        return lambda: None

    async def call(self, broker_id, request):
        self.asked.append((broker_id, type(request)))
        if isinstance(request, UpdateMetadataRequest):
            return UpdateMetadataResponse(ErrorCode.NONE)
        return LeaderAndIsrResponse(ErrorCode.NONE)

    async def note(self, broker, answer):
        self.answered.put_nowait(broker.id)


def test_a_controller_asks_for_its_own_replicas_too():
    async def work():
        cluster = Cluster()
        cluster.sender.begin()
        answered = [await cluster.answered.get(), await cluster.answered.get()]
        assert sorted(answered) == [CONTROLLER, OTHER]
        own = [kind for broker_id, kind in cluster.asked if broker_id == CONTROLLER]
        assert own == [LeaderAndIsrRequest], "it has its own image already"
        assert (OTHER, UpdateMetadataRequest) in cluster.asked

        cluster.sender.ask_roles(CONTROLLER)
        assert await cluster.answered.get() == CONTROLLER
        await cluster.sender.close()

    asyncio.run(work())
