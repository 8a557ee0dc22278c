"""What reads and changes configs, over a real store: each request, each way it can go wrong."""

import asyncio
import logging
import random

import pytest

from kits.metadata_samples import bring_up, registration
from kits.request_kit import context as at
from kits.slicing import count_pauses, count_turns, finished
from kits.sole_voter import sole_voter
from moldau.base.clock import SystemClock
from moldau.base.ids import BrokerId
from moldau.cluster.controller import Controller
from moldau.cluster.topics import NewTopic, TopicDefaults
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from moldau.protocol.registry import encode_response, find_api
from moldau.server.configuration.dynamic import DynamicConfigs
from moldau.server.configuration.log_levels import LogLevels
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.handlers.configs import ConfigHandlers
from moldau.server.network.answer_room import AnswerRoom
from moldau.storage.disk import Disk

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE = 0, 1


class Follower:
    """Remembers what it was asked to wait for."""

    def __init__(self):
        self.waited_for = []

    async def reached(self, version):
        self.waited_for.append(version)


class Bench:
    """The handlers over a store of one voter that has a broker and a topic."""

    def __init__(self, folder):
        self.store = sole_voter(Disk(), [folder], 1, SystemClock(), random.Random(5))
        self.follower = Follower()
        configs = DynamicConfigs(
            BrokerSettings.load("node.id=1"), lambda: self.store.image, BrokerId(1)
        )
        self.requests = Controller(
            self.store, TopicDefaults(), configs, random.Random(1), lambda: True, SystemClock()
        )
        self.handlers = ConfigHandlers(
            configs, LogLevels(BrokerId(1)), self.requests, self.follower
        )

    async def start(self):
        await self.store.start()
        await self.requests.claim()
        await bring_up(self.requests, registration(1))
        await self.requests.create_topic(NewTopic("t", 1, 1))

    def own(self):
        return dict(self.store.image.topic_config("t"))

    async def set_incrementally(self, *resources, validate_only=False):
        request = IncrementalAlterConfigsRequest(
            [
                IncrementalAlterConfigsResource(
                    kind, name, [IncrementalAlterableConfig(*one) for one in changes]
                )
                for kind, name, *changes in resources
            ],
            validate_only,
        )
        response = await finished(self.handlers.alter_incrementally(request, at(1)))
        return [(one.error_code, one.error_message) for one in response.responses]

    async def replace(self, *resources, validate_only=False):
        request = AlterConfigsRequest(
            [
                AlterConfigsResource(kind, name, [AlterableConfig(*one) for one in configs])
                for kind, name, *configs in resources
            ],
            validate_only,
        )
        response = await finished(self.handlers.alter(request, at(2)))
        return [(one.error_code, one.error_message) for one in response.responses]

    def describe(self, kind, name, keys=None, **wanted):
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], **wanted)
        (result,) = finished(self.handlers.describe(request, at(4))).results
        return result


@pytest.fixture
def on_bench(tmp_path):
    """Runs a coroutine function with a bench whose store is open."""

    def run(work):
        async def opened():
            bench = Bench(str(tmp_path / "data"))
            await bench.start()
            try:
                await work(bench)
            finally:
                await bench.store.close()

        asyncio.run(opened())

    return run


def test_a_change_is_stored_followed_and_described(on_bench):
    async def work(bench):
        assert await bench.set_incrementally((TOPIC, "t", ("retention.ms", SET, "5"))) == [
            (0, None)
        ]
        assert bench.own() == {"retention.ms": "5"}
        assert bench.follower.waited_for == [bench.store.image.version]
        (config,) = bench.describe(TOPIC, "t", ["retention.ms"]).configs
        assert (config.value, config.config_source, config.is_default) == ("5", 1, False)
        assert await bench.set_incrementally((TOPIC, "t", ("retention.ms", DELETE, None))) == [
            (0, None)
        ]
        assert bench.own() == {}

    on_bench(work)


def test_each_resource_succeeds_or_fails_by_itself(on_bench):
    async def work(bench):
        answers = await bench.set_incrementally(
            (TOPIC, "t", ("retention.ms", SET, "5")),
            (TOPIC, "nope", ("retention.ms", SET, "5")),
            (BROKER, "", ("log.retention.ms", SET, "x")),
        )
        assert [code for code, _ in answers] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
        ]
        assert bench.own() == {"retention.ms": "5"}

    on_bench(work)


def test_a_resource_named_twice_is_changed_by_neither(on_bench):
    async def work(bench):
        answers = await bench.set_incrementally(
            (TOPIC, "t", ("retention.ms", SET, "5")), (TOPIC, "t", ("retention.ms", SET, "6"))
        )
        refusal = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        assert answers == [refusal, refusal]
        assert bench.own() == {}

    on_bench(work)


def test_of_several_configs_one_that_is_illegal_refuses_all(on_bench):
    async def work(bench):
        ((code, _),) = await bench.set_incrementally(
            (TOPIC, "t", ("segment.ms", SET, "5"), ("retention.ms", SET, "x"))
        )
        assert code == ErrorCode.INVALID_CONFIG
        assert bench.own() == {}

    on_bench(work)


def test_validating_stores_nothing(on_bench):
    async def work(bench):
        good, bad = ("retention.ms", SET, "5"), ("retention.ms", SET, "x")
        version = bench.store.image.version
        assert await bench.set_incrementally((TOPIC, "t", good), validate_only=True) == [(0, None)]
        ((code, _),) = await bench.set_incrementally((TOPIC, "t", bad), validate_only=True)
        assert code == ErrorCode.INVALID_CONFIG
        assert await bench.replace((TOPIC, "t", good[::2]), validate_only=True) == [(0, None)]
        assert bench.store.image.version == version

    on_bench(work)


def test_alter_configs_replaces_the_whole_set(on_bench):
    async def work(bench):
        await bench.set_incrementally((TOPIC, "t", ("segment.ms", SET, "5")))
        assert await bench.replace((TOPIC, "t", ("retention.ms", "9"))) == [(0, None)]
        assert bench.own() == {"retention.ms": "9"}
        assert await bench.replace((TOPIC, "t")) == [(0, None)]
        assert bench.own() == {}

    on_bench(work)


def test_alter_configs_refuses_a_config_named_twice_or_without_a_value(on_bench):
    async def work(bench):
        twice = (TOPIC, "t", ("retention.ms", "9"), ("retention.ms", "10"))
        assert await bench.replace(twice) == [
            (ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        ]
        assert await bench.replace((TOPIC, "t", ("retention.ms", None))) == [
            (ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms")
        ]

    on_bench(work)


def test_synonyms_and_documentation_are_told_when_asked_for(on_bench):
    async def work(bench):
        (plain,) = bench.describe(TOPIC, "t", ["segment.bytes"]).configs
        assert plain.synonyms == []
        assert plain.documentation is None
        assert plain.config_type == 3
        (full,) = bench.describe(
            TOPIC, "t", ["segment.bytes"], include_synonyms=True, include_documentation=True
        ).configs
        assert [(one.name, one.source) for one in full.synonyms] == [("log.segment.bytes", 5)]
        assert full.documentation == "The size of one segment file."

    on_bench(work)


def test_a_resource_without_configs_is_answered_with_an_error(on_bench):
    async def work(bench):
        result = bench.describe(BROKER, "7")
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert (result.resource_type, result.resource_name) == (BROKER, "7")
        assert result.configs == []

    on_bench(work)


@pytest.mark.parametrize("version", range(5))
def test_a_whole_description_can_be_sent_in_every_version(on_bench, version):
    async def work(bench):
        request = DescribeConfigsRequest(
            [DescribeConfigsResource(TOPIC, "t", None), DescribeConfigsResource(BROKER, "1", None)],
            include_synonyms=True,
            include_documentation=True,
        )
        response = finished(bench.handlers.describe(request, at(version)))
        parts = encode_response(find_api(32), version, 1, response)
        assert sum(len(part) for part in parts) > 10_000

    on_bench(work)


def test_resources_are_listed_by_type(on_bench):
    async def work(bench):
        def listed(version, *types):
            response = finished(
                bench.handlers.list_resources(ListConfigResourcesRequest(list(types)), at(version))
            )
            return [(one.resource_type, one.resource_name) for one in response.config_resources]

        assert listed(1) == [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1")]
        assert listed(1, BROKER) == [(BROKER, "1")]
        assert listed(1, 16) == []
        assert listed(0) == []
        unknown = finished(bench.handlers.list_resources(ListConfigResourcesRequest([77]), at(1)))
        assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION

    on_bench(work)


def test_a_level_of_a_logger_is_altered_and_told_but_not_stored(on_bench):
    logger = logging.getLogger("moldau.of.a.test")

    async def work(bench):
        before = bench.store.image.version
        change = IncrementalAlterableConfig(logger.name, 0, "FATAL")
        resource = IncrementalAlterConfigsResource(LOGGER, "1", [change])
        for validate_only, level in ((True, logging.NOTSET), (False, logging.CRITICAL)):
            request = IncrementalAlterConfigsRequest([resource], validate_only)
            (answer,) = (
                await finished(bench.handlers.alter_incrementally(request, at(1)))
            ).responses
            assert (answer.error_code, logger.level) == (0, level)
        asked = DescribeConfigsRequest([DescribeConfigsResource(LOGGER, "1", [logger.name])])
        (told,) = finished(bench.handlers.describe(asked, at(4))).results
        assert [(one.name, one.value) for one in told.configs] == [(logger.name, "FATAL")]
        assert bench.store.image.version == before
        old = AlterConfigsRequest([AlterConfigsResource(LOGGER, "1", [])])
        (refused,) = (await finished(bench.handlers.alter(old, at(2)))).responses
        assert refused.error_code == ErrorCode.INVALID_REQUEST

    try:
        on_bench(work)
    finally:
        logger.setLevel(logging.NOTSET)


class TestRepeats:
    """What one request names again and again."""

    def test_a_resource_is_described_once_with_all_that_is_asked_of_it(self, on_bench):
        async def work(bench):
            def described(*resources):
                request = DescribeConfigsRequest(
                    [DescribeConfigsResource(*resource) for resource in resources]
                )
                return [
                    (one.resource_name, [config.name for config in one.configs])
                    for one in finished(bench.handlers.describe(request, at(4))).results
                ]

            first, second = (TOPIC, "t", ["retention.ms"]), (TOPIC, "t", ["cleanup.policy"])
            assert described(*[first, (BROKER, "1", ["node.id"]), second] * 1000) == [
                ("t", ["cleanup.policy", "retention.ms"]),
                ("1", ["node.id"]),
            ]
            ((_, names),) = described(first, (TOPIC, "t", None), second)
            assert len(names) == 33

        on_bench(work)


class TestAmounts:
    """Requests whose work a client can make long."""

    def test_a_description_may_be_paused_after_each_config(self, on_bench):
        async def work(bench):
            request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", None)])
            assert count_pauses(bench.handlers.describe(request, at(4))) > 300

        on_bench(work)

    def test_what_no_longer_fits_into_an_answer_is_refused(self, on_bench, monkeypatch):
        monkeypatch.setattr("moldau.server.handlers.configs.AnswerRoom", lambda: AnswerRoom(5_000))

        async def work(bench):
            request = DescribeConfigsRequest(
                [
                    DescribeConfigsResource(TOPIC, "t", None),
                    DescribeConfigsResource(BROKER, "1", None),
                ]
            )
            small, large = finished(bench.handlers.describe(request, at(4))).results
            assert (small.error_code, len(small.configs)) == (0, 33)
            assert large.error_code == ErrorCode.POLICY_VIOLATION
            assert (large.resource_name, large.configs) == ("1", [])
            assert "more than 5000 bytes" in large.error_message

        on_bench(work)

    def test_each_resource_is_changed_in_a_turn_of_its_own(self, on_bench):
        async def work(bench):
            wrong = [(TOPIC, f"missing-{number}") for number in range(100)]
            changed = bench.set_incrementally(*wrong, validate_only=True)
            assert await count_turns(changed) >= 100

        on_bench(work)
