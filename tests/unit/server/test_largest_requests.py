"""Requests that name, or ask for, thousands of things may be paused on the way."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kits import log_kit, request_kit
from kits.group_handler_kit import LOADING, Broker, context
from kits.metadata_samples import with_brokers, with_topic
from kits.slicing import count_pauses, finished
from moldau.base.ids import PartitionKey
from moldau.cluster.topics import NewTopic
from moldau.coordination.groups.offset_fetching import take_offsets
from moldau.coordination.transactions.transaction import Transaction
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)
from moldau.protocol.messages.log_dirs import DescribeLogDirsRequest
from moldau.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
    MetadataRequest,
    MetadataRequestTopic,
    TopicPartitionsCursor,
)
from moldau.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    ClientQuotaEntity,
)
from moldau.protocol.messages.transactions import WritableTxnMarker, WriteTxnMarkersRequest
from moldau.server.configuration.dynamic import DynamicConfigs
from moldau.server.configuration.log_levels import LogLevels
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.handlers import quotas
from moldau.server.handlers.configs import ConfigHandlers
from moldau.server.handlers.discovery import DiscoveryHandlers
from moldau.server.handlers.log_dirs import LogDirHandler
from moldau.server.handlers.transaction_admin import _description, _Found, _written
from moldau.server.network.answer_room import AnswerRoom
from moldau.server.network.repeats import sort

MANY = 5_000


@pytest.fixture
def image():
    return with_topic(with_brokers([1]), NewTopic("wide", MANY))


def at(version):
    return request_kit.context(version)


class TestQuestions:
    """Requests that name, or ask for, thousands."""

    @pytest.fixture
    def discovery(self, image):
        return DiscoveryHandlers(
            lambda: image,
            lambda: 1,
            None,
            None,
            auto_create=False,
            partition_limit=2000,
        )

    def test_a_look_up_by_id_is_refused_in_steps(self, discovery):
        topics = [MetadataRequestTopic(number.to_bytes(16, "big")) for number in range(1, MANY)]
        assert count_pauses(discovery.metadata(MetadataRequest(topics), at(10))) >= MANY - 1

    def test_a_cursor_that_reaches_nothing_is_refused_in_steps(self, discovery):
        topics = [DescribeTopicPartitionsTopic(f"t{number}") for number in range(MANY)]
        cursor = TopicPartitionsCursor("elsewhere", 0)
        request = DescribeTopicPartitionsRequest(topics, 1, cursor)
        assert count_pauses(discovery.describe_topic_partitions(request, at(0))) >= MANY

    def test_logs_are_sorted_in_steps(self):
        logs = dict.fromkeys(
            (PartitionKey("t", index) for index in reversed(range(MANY))), SimpleNamespace(size=1)
        )
        directory = SimpleNamespace(path="/data", offline=False, logs=logs)
        manager = SimpleNamespace(directories=[directory], cordoned=frozenset())
        handler = LogDirHandler(manager, log_kit.Broker().disk)
        work = handler(DescribeLogDirsRequest(None), None)
        assert count_pauses(work) >= MANY + count_pauses(sort(tuple(logs)))
        (result,) = finished(handler(DescribeLogDirsRequest(None), None)).results
        (topic,) = result.topics
        assert [one.partition_index for one in topic.partitions] == list(range(MANY))

    def test_config_resources_are_sorted_and_names_read_in_steps(self):
        topics = {f"t{number}": None for number in range(MANY)}
        image = SimpleNamespace(topics=topics, brokers={1: None}, configs={})
        configs = DynamicConfigs(BrokerSettings.load("node.id=1"), lambda: image, 1)
        handlers = ConfigHandlers(configs, LogLevels(1), None, None)
        listing = handlers.list_resources(ListConfigResourcesRequest(), at(1))
        assert count_pauses(listing) >= MANY + count_pauses(sort(list(topics)))
        named = DescribeConfigsResource(8, "1", [f"c{number}" for number in range(MANY)])
        describing = handlers.describe(DescribeConfigsRequest([named]), at(4))
        assert count_pauses(describing) >= MANY // 1_000

    def test_an_entity_of_many_parts_is_read_and_told_in_steps(self):
        parts = [ClientQuotaEntity(f"type {number}", "x") for number in range(MANY)]
        request = AlterClientQuotasRequest([AlterClientQuotasEntry(parts, [])])
        assert count_pauses(quotas.alter_quotas(request, at(1))) >= 2 * MANY
        (entry,) = finished(quotas.alter_quotas(request, at(1))).entries
        assert (entry.error_code, len(entry.entity)) == (ErrorCode.INVALID_REQUEST, MANY)

    def test_markers_and_partitions_of_a_transaction_are_told_in_steps(self):
        keys = [PartitionKey("t", index) for index in range(MANY)]
        request = WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True)])
        assert count_pauses(_written(request, [dict.fromkeys(keys, ErrorCode.NONE)])) >= MANY // 200
        transaction = Transaction(
            transactional_id="id",
            producer_id=1,
            producer_epoch=0,
            timeout_ms=1,
            last_update_ms=1,
            partitions=frozenset(keys),
        )
        found = _Found("id", transaction)
        assert count_pauses(_description(found, AnswerRoom())) >= MANY // 200
        (topic,) = finished(_description(found, AnswerRoom())).topics
        assert topic.partitions == list(range(MANY))


class TestOffsets:
    """Requests about the offsets of thousands of topics."""

    @pytest.mark.parametrize("is_loading", [False, True])
    def test_those_of_one_group_are_told_in_steps(self, is_loading):
        broker = Broker()
        if is_loading:
            broker.runtime.refusal = LOADING
        topics = [OffsetFetchRequestTopic(f"t{number}", [0]) for number in range(MANY)]
        request = OffsetFetchRequest("g", topics)
        # They are read from the request, folded, found, and told.
        least = 3 * MANY if is_loading else 4 * MANY
        assert count_pauses(broker.fetch.handlers(request, context(1))) >= least

    def test_topics_that_are_not_there_are_refused_in_steps(self):
        topics = [OffsetDeleteRequestTopic(f"t{number}", []) for number in range(MANY)]
        work = Broker().offsets.handlers.delete(OffsetDeleteRequest("g", topics), context(0))
        assert count_pauses(work) >= 2 * MANY

    def test_a_shard_copies_what_there_is_and_goes_through_no_topics(self):
        kept = {"t0": {0: b"first"}}
        store = SimpleNamespace(topics=lambda group: kept, unstable_topics=lambda group: {})
        topics = [OffsetFetchRequestTopics(f"t{n}", partition_indexes=[0]) for n in range(MANY)]
        found = take_offsets(
            store, OffsetFetchRequestGroup("g", topics=topics), require_stable=True
        )
        kept["t0"][0] = b"second"
        assert isinstance(found.topics, Iterator)
        values = [topic.values for topic in found.topics]
        assert values == [{0: b"first"}, *[{}] * (MANY - 1)]
