"""Changes of thousands of partitions are decided, stored and followed in turns."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from kits import log_kit
from kits.metadata_samples import bring_up, registration, with_brokers, with_topic
from kits.slicing import answered, count_turns, finished
from kits.sole_voter import sole_voter
from moldau.base.clock import SystemClock
from moldau.base.limits import CONFIGS_PER_RESOURCE
from moldau.cluster.changes import ConfigChanged
from moldau.cluster.configs import EVERY_BROKER
from moldau.cluster.controller import Controller
from moldau.cluster.in_turns import CHANGES_PER_TURN
from moldau.cluster.topics import PARTITIONS_PER_CHANGE_MAX, NewTopic, TopicDefaults
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from moldau.replication.partitions import Partitions
from moldau.server.handlers.topics import TopicHandlers
from moldau.server.lifecycle.replicas import CONFIGURED_PER_TURN, Replicas
from moldau.server.lifecycle.topic_admin import TopicAdmin

MANY = 5_000


@pytest.fixture
def image():
    return with_topic(with_brokers([1]), NewTopic("wide", MANY))


def at(version):
    endpoint = SimpleNamespace(name="PLAINTEXT")
    return SimpleNamespace(version=version, connection=SimpleNamespace(endpoint=endpoint))


async def controller_of(store):
    controller = Controller(
        store, TopicDefaults(), None, random.Random(1), lambda: True, SystemClock()
    )
    await controller.claim()
    return controller


class TestTopics:
    """Changes of thousands of partitions."""

    class Store:
        """Shows one image, and takes no change over."""

        epoch = 1

        def __init__(self, image):
            self.image = image

        async def claim(self):
            return self

        def on_lost(self, callback):
            pass

        async def commit(self, expected_version, changes):
            return expected_version

        async def reached(self, version):
            pass

    @pytest.fixture
    def administration(self, image):
        store = self.Store(image)
        topics = TopicAdmin(asyncio.run(controller_of(store)), lambda: image, store)
        configs = SimpleNamespace(check=lambda configs: None, described=lambda *_: [])
        return TopicHandlers(lambda: image, topics, configs, deletion_enabled=True)

    def turns(self, work):
        return asyncio.run(count_turns(finished(work)))

    def test_a_topic_is_previewed_in_turns(self, administration):
        request = CreateTopicsRequest([CreatableTopic("new", MANY, 1)], validate_only=True)
        work = administration.create_topics(request, at(7))
        assert self.turns(work) >= MANY // CHANGES_PER_TURN

    @pytest.mark.parametrize("validate_only", [False, True])
    @pytest.mark.parametrize("is_assigned", [False, True])
    def test_growth_is_decided_in_turns(self, administration, validate_only, is_assigned):
        assigned = [CreatePartitionsAssignment([1])] * MANY if is_assigned else None
        topic = CreatePartitionsTopic("wide", 2 * MANY, assigned)
        request = CreatePartitionsRequest([topic], validate_only=validate_only)
        work = administration.create_partitions(request, at(3))
        assert self.turns(work) >= MANY // CHANGES_PER_TURN

    def test_a_request_may_add_so_many_partitions_in_all(self, administration):
        topics = [
            CreatePartitionsTopic("wide", MANY + PARTITIONS_PER_CHANGE_MAX, None),
            CreatePartitionsTopic("missing", 1, None),
        ]
        work = administration.create_partitions(CreatePartitionsRequest(topics), at(3))
        codes = [one.error_code for one in answered(work).results]
        assert codes == [ErrorCode.POLICY_VIOLATION] * 2

    def test_a_topic_with_thousands_of_configs_is_refused_at_a_glance(self, administration):
        configs = [CreatableTopicConfig(f"c{n}", "1") for n in range(CONFIGS_PER_RESOURCE + 1)]
        request = CreateTopicsRequest([CreatableTopic("new", 1, 1, configs=configs)])
        (topic,) = answered(administration.create_topics(request, at(7))).topics
        assert topic.error_code == ErrorCode.INVALID_CONFIG

    def test_a_store_writes_and_applies_changes_in_turns(self):
        async def work():
            store = sole_voter(disk, ["/data"], 1, SystemClock(), random.Random(1))
            await store.start()
            controller = await controller_of(store)
            await bring_up(controller, registration(1))
            topics = TopicAdmin(controller, lambda: store.image, self.Store(None))
            turns = await count_turns(topics.create(NewTopic("wide", MANY)))
            assert len(store.image.topics["wide"].partitions) == MANY
            await store.close()
            return turns

        disk = log_kit.Broker().disk
        # It is decided, encoded and applied, and put into a batch.
        assert asyncio.run(work()) >= 3 * MANY // CHANGES_PER_TURN


class TestReplicas:
    """Logs follow thousands of partitions."""

    def test_configs_are_taken_over_in_turns(self):
        count = 3 * CONFIGURED_PER_TURN
        disk = log_kit.Broker()
        image = with_topic(with_brokers([1]), NewTopic("t", count))
        replicas = Replicas(
            1,
            lambda: image.brokers[1].epoch,
            Partitions(),
            disk.manager,
            disk.clock,
            Traffic(),
            lambda own: disk.config,
            lambda key: None,
        )

        async def work():
            await replicas.begin(image)
            changed = [ConfigChanged(EVERY_BROKER, "log.retention.ms", "1")]
            return await count_turns(replicas._configure(changed, image))

        assert asyncio.run(work()) >= 3

    def test_many_partitions_are_frozen_once(self, monkeypatch):
        frozen = []
        monkeypatch.setattr("moldau.server.lifecycle.replicas.FROZEN_AT_ONCE", 8)
        monkeypatch.setattr("gc.freeze", lambda: frozen.append(None))
        disk = log_kit.Broker()
        image = with_topic(with_brokers([1]), NewTopic("t", 20))
        replicas = Replicas(
            1,
            lambda: image.brokers[1].epoch,
            Partitions(),
            disk.manager,
            disk.clock,
            Traffic(),
            lambda own: disk.config,
            lambda key: None,
        )
        asyncio.run(replicas.begin(image))
        assert len(frozen) == 2
