"""The handlers of groups and their offsets over one shard, and the metadata of two topics."""

from __future__ import annotations

import asyncio
import random

from kits.group_shard_kit import ServedShard
from kits.metadata_samples import with_brokers
from kits.request_kit import context
from kits.slicing import Finishing
from moldau.cluster.changes import TopicRemoved
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import ListGroupsRequest
from moldau.server.handlers.group_offsets import GroupOffsetHandlers
from moldau.server.handlers.groups import GroupHandlers
from moldau.server.handlers.offset_fetch import OffsetFetchHandler

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
ELSEWHERE = ErrorCode.NOT_COORDINATOR


class OneShardRuntime:
    """A runtime with one shard, which may be refusing."""

    topic = "__consumer_offsets"

    def __init__(self):
        self.served = ServedShard()
        self.refusal = None

    def partition_for(self, key):
        return 3

    def call(self, key, handler, failed):
        if self.refusal is not None:
            return failed(self.refusal)
        ticket = self.served.ask(handler)
        return ticket.answer if ticket.answers else asyncio.get_running_loop().create_future()

    async def call_all(self, handler, failed):
        return [self.call("", handler, failed)]


def list_groups(broker, *filters):
    return asyncio.run(broker.groups.list_groups(ListGroupsRequest(*filters), context(5)))


class Verifier:
    """Stands for the coordinator of transactions."""

    def __init__(self):
        self.answer = ErrorCode.NONE
        self.asked = []

    def __call__(self, transactional_id, producer, partition, *, add):
        self.asked.append((transactional_id, producer, partition, add))
        return self.answer


class Broker:
    """The handlers over one shard and the metadata of two topics."""

    def __init__(self):
        self.runtime = OneShardRuntime()
        self.image = with_brokers([1])
        draw = random.Random(1)
        for name in ("orders", "payments"):
            changes = create_topic(self.image, NewTopic(name, 2), TopicDefaults(), draw)
            self.image = self.image.apply(changes, self.image.version + 1)
        self.verifier = Verifier()
        self.groups = Finishing(GroupHandlers(self.runtime))
        self.markers = 0
        self.offsets = Finishing(
            GroupOffsetHandlers(
                self.runtime, lambda: self.image, self.verifier, lambda *_: self.markers
            )
        )
        self.fetch = Finishing(OffsetFetchHandler(self.runtime, lambda: self.image))

    @property
    def served(self):
        return self.runtime.served

    def topic_id(self, name="orders"):
        return self.image.topics[name].id

    def remove(self, name):
        changes = [TopicRemoved(self.topic_id(name))]
        self.image = self.image.apply(changes, self.image.version + 1)
