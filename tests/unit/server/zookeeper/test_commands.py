"""Commands of controllers, and of those who say that they are controllers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from moldau.cluster.image import MetadataImage
from moldau.cluster.zookeeper.commands.fencing import CommandFence
from moldau.cluster.zookeeper.commands.outgoing import Sender, update_metadata
from moldau.cluster.zookeeper.commands.touched import Touched
from moldau.cluster.zookeeper.history import first_version
from moldau.protocol.errors import ErrorCode
from moldau.server.handlers.commands import CommandHandlers


class Store:
    """A store that knows controller 1 with epoch 5, and whose ZooKeeper is slow."""

    def __init__(self):
        self.fence = CommandFence()
        self.fence.hear_of(1, 5)
        self.image = MetadataImage()
        self.answers = asyncio.Event()

    @property
    def leader_epoch(self):
        return self.fence.controller_epoch

    def heard_of_controller(self):
        pass

    async def newest_elected_epoch(self):
        await self.answers.wait()
        return 5

    def take_step(self, changes, image):
        self.image = image


def update(epoch):
    image = MetadataImage(version=first_version(5) + 1)
    (request,) = update_metadata(Sender(1, epoch), 7, None, image, Touched(all=True))
    return request


def test_an_update_does_not_wait_until_others_are_known_to_be_forged():
    async def test():
        store, nothing = Store(), SimpleNamespace()
        handlers = CommandHandlers(store, 2, lambda: 7, nothing, nothing)
        forged = [
            asyncio.ensure_future(handlers.update_metadata(update(epoch), nothing))
            for epoch in range(6, 50)
        ]
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(handlers.update_metadata(update(5), nothing), 30)
        assert answer.error_code == ErrorCode.NONE
        assert store.image.version == first_version(5) + 1
        store.answers.set()
        refused = {(await one).error_code for one in forged}
        assert refused == {ErrorCode.STALE_CONTROLLER_EPOCH}

    asyncio.run(test())
