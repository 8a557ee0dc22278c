"""No number in a request harms the broker: every API, every version, against a real broker.

Each request names real topics, groups and producers, and carries numbers from the edges of their
types. Whatever comes of it: it is answered or refused by the rules of the protocol, never with
UNKNOWN_SERVER_ERROR; nothing is logged as an error; no shard of a coordinator is loaded anew; and
another group's commit is answered at once.

MOLDAU_EXTREME_ROUNDS asks for more requests of each version, MOLDAU_EXTREME_SEED for other ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kits.extreme_messages import EXTREME_TEXTS, Extremes, Known, edges_of, number_fields
from kits.log_kit import make_batch
from moldau.base.errors import ConfigError, ProtocolError
from moldau.base.network import Address
from moldau.protocol.errors import ErrorCode
from moldau.protocol.fields import Kind
from moldau.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.topics import DeleteTopicsRequest
from moldau.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    InitProducerIdRequest,
)
from moldau.protocol.registry import api_of, decode_response, encode_request
from moldau.security.session import Session
from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.definition import ConfigDefinition, ConfigType, Update
from moldau.server.configuration.dynamic import OperationType
from moldau.server.configuration.topic_configs import TOPIC_CONFIGS
from moldau.server.network.dispatch import Dispatcher, Later, Route
from moldau.server.upkeep.compaction import REST_MIN_S
from moldau.testing import TestBroker

ROUNDS = int(os.environ.get("MOLDAU_EXTREME_ROUNDS", "10"))
OUTERMOST = 4 if ROUNDS <= 10 else None
"""Edges of each number that are tried one by one; all of them in a longer run."""
SEED = int(os.environ.get("MOLDAU_EXTREME_SEED", "1"))

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "1",
    "log.retention.check.interval.ms": "50",
    "producer.id.expiration.check.interval.ms": "50",
    "offsets.retention.check.interval.ms": "50",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
}
"""One shard each, so that all groups share it; and the sweeps, which do sums with times, often."""
TOPICS = {"target": 2, "other": 1, "canary": 1}
DOOMED = [f"doomed-{number}" for number in range(20)]
TURNS = 50
"""Turns of the loop that a request gets before its client leaves."""
NUMBERS = {ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE}
LEFT_OUT = {"message.max.bytes", "min.insync.replicas", "log.cleaner.backoff.ms"}
"""What keeps the internal topics from being written to, or the cleaner from looking, as it must."""
PATIENCE_S = 20
"""How long work that is under way may take before the test gives up."""


class Client:
    """The other end of no socket: frames go straight to the dispatcher of the broker."""

    def __init__(self, broker: Any) -> None:
        endpoint = broker.parts.settings.endpoints[0]
        peer = Address("127.0.0.1", 50000)
        self.session = Session(endpoint.name, endpoint.security_protocol, peer)
        self._dispatcher: Dispatcher = broker.connections._dispatch.__self__
        self.routes = self._dispatcher.routes

    def close(self) -> None:
        """Take it that the broker ends the connection."""

    def reserve(self, size: int) -> asyncio.Future[None]:
        """Have room for any answer."""
        del size
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        room.set_result(None)
        return room

    async def ask(self, request: Any, version: int, *, waits: bool = False) -> Any:
        """Return the decoded answer; None if there is none.

        A client that does not wait leaves when its request is parked.
        """
        api = api_of(request)
        frame = b"".join(encode_request(api, version, 7, "tester", request))
        answer: Any = self._dispatcher.handle(self, memoryview(frame)[4:])  # type: ignore[arg-type]
        while isinstance(answer, Later):
            answer = await self._waited(answer, waits=waits)
        if not answer:
            return None
        content = b"".join(_bytes(part) for part in answer)
        return decode_response(api, version, memoryview(content)[4:])

    async def _waited(self, later: Later, *, waits: bool) -> Any:
        for _ in range(TURNS):
            if later.future.done():
                return later.framed()
            await asyncio.sleep(0)
        if waits or not later.is_droppable:
            await asyncio.wait_for(asyncio.shield(later.future), PATIENCE_S)
            return later.framed()
        later.abandon()
        return None


def _bytes(part: Any) -> bytes:
    """Read a part of an answer, which may be a region of a file."""
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part)
    file, position, size = part
    content: bytes = file.read(position, size)
    return content


def numbers_of(message: Any, name: str) -> Iterator[int]:
    """Yield every number in an answer whose name ends like this."""
    for one in message.FIELDS:
        value = getattr(message, one.name)
        if one.name.endswith(name):
            yield value
        elif one.kind is Kind.STRUCT and value is not None:
            yield from numbers_of(value, name)
        elif one.kind is Kind.ARRAY and value and one.element.struct is not None:
            for part in value:
                yield from numbers_of(part, name)


class Scene:
    """A broker with a group at work, a producer, and a group of somebody else."""

    def __init__(self, broker: Any, group: str) -> None:
        self.broker = broker
        self.client = Client(broker)
        self.group = group
        self.transactional_id = f"{group}-id"
        image = broker.parts.store.image
        self.known = Known(
            topics=["target", "other"],
            topic_ids=[image.topic(name).id for name in ("target", "other")],
            groups=[group],
            transactional_ids=[self.transactional_id],
            doomed_topics=DOOMED,
            doomed_topic_ids=[
                bytes(16),
                *(topic.id for name in DOOMED if (topic := image.topic(name))),
            ],
        )
        self.offset = 0

    async def begin(self) -> None:
        """Bring a member and a producer in, whose ids and epochs requests then carry."""
        client, known = self.client, self.known
        for key_type, key in enumerate((self.group, self.transactional_id)):
            assert (await client.ask(FindCoordinatorRequest(key, key_type), 2)).error_code == 0
        protocol = JoinGroupRequestProtocol("range", b"\0\0\0\0\0\0")
        join = JoinGroupRequest(self.group, 1_800_000, 1_000, "", None, "consumer", [protocol])
        joined = await client.ask(join, 3)
        assignment = SyncGroupRequestAssignment(joined.member_id, b"all")
        sync = SyncGroupRequest(self.group, joined.generation_id, joined.member_id)
        sync.assignments = [assignment]
        assert (await client.ask(sync, 3)).error_code == 0
        producer = await client.ask(InitProducerIdRequest(self.transactional_id, 60_000), 2)
        assert producer.error_code == 0
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("target", [0])],
        )
        assert set(numbers_of(await client.ask(add, 3), "error_code")) == {ErrorCode.NONE}
        known.members.append(joined.member_id)
        known.numbers |= {
            "generation_id": [joined.generation_id],
            "generation_id_or_member_epoch": [joined.generation_id, -1],
            "producer_id": [producer.producer_id, -1],
            "producer_epoch": [producer.producer_epoch, -1],
            "v3_and_below_producer_id": [producer.producer_id],
            "v3_and_below_producer_epoch": [producer.producer_epoch],
        }

    async def check_bystander(self) -> None:
        """Commit for a group that no request has named; look at shards and the broker's tasks."""
        self.offset += 1
        one = OffsetCommitRequestPartition(0, self.offset, -1, -1, "")
        topic = OffsetCommitRequestTopic("canary", bytes(16), [one])
        commit = OffsetCommitRequest("bystander", topics=[topic])
        answer = await self.client.ask(commit, 7, waits=True)
        assert set(numbers_of(answer, "error_code")) == {ErrorCode.NONE}
        runtimes = self.broker.parts.runtimes
        for runtime in (runtimes.groups, runtimes.transactions):
            assert set(runtime.refusals) == {ErrorCode.NONE}
            assert not runtime._failures
            assert runtime.bugs.count == 0
        assert not [task for task in self.broker._tasks if task.done()]

    async def remove_new_topics(self) -> None:
        """Delete what requests have created."""
        names = [name for name in self.broker.parts.store.image.topics if name.startswith("new-")]
        if names:
            answer = await self.client.ask(DeleteTopicsRequest(topic_names=names), 5, waits=True)
            assert set(numbers_of(answer, "error_code")) == {ErrorCode.NONE}

    async def check(self, request: Any, version: int) -> None:
        """Send one request and look what became of it and of the broker."""
        try:
            answer = await self.client.ask(request, version)
        except ProtocolError:
            answer = None  # its connection would be closed, with one line
        if answer is not None:
            codes = set(numbers_of(answer, "error_code"))
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes
        await self.check_bystander()


def requests(route: Route, version: int, extremes: Extremes) -> Iterator[Any]:
    """Yield requests with one extreme number each, for all of them; then some with many."""
    cls = route.api.request
    for one in {field.name: field for field in number_fields(cls, version)}.values():
        for number in edges_of(one.name, one.kind)[:OUTERMOST]:
            yield extremes.message_with(cls, version, one.name, number)
    for _ in range(ROUNDS):
        yield extremes.message(cls, version)


async def attack(broker: Any, route: Route, errors: list[str]) -> None:
    """Send requests of every version of one API."""
    chance = random.Random(SEED * 1_000 + route.api.key)
    for version in route.versions:
        scene = Scene(broker, f"readers-{route.api.key}-{version}")
        await scene.begin()
        for request in requests(route, version, Extremes(chance, scene.known)):
            try:
                await scene.check(request, version)
                assert not errors
            except Exception as error:
                text = f"{route.api.name} v{version}: {request}: {errors}"
                raise AssertionError(text) from error
        await scene.remove_new_topics()


async def attack_all(broker: Any, errors: list[str]) -> None:
    """Attack every API that is served, whatever came of those before."""
    found = []
    for route in Client(broker).routes.values():
        try:
            await attack(broker, route, errors)
        except AssertionError as error:
            found.append(error)
        errors.clear()
    if found:
        raise ExceptionGroup("requests that did harm", found)


class Errors(logging.Handler):
    """Collects what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.exc_info}")


@pytest.fixture
def errors() -> Iterator[list[str]]:
    handler = Errors()
    logger = logging.getLogger("moldau")
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    topics = {**TOPICS, **dict.fromkeys(DOOMED, 1)}
    with TestBroker(settings=SETTINGS, topics=topics) as running:
        yield running


def test_no_number_harms_the_broker(broker, errors):
    life = broker._life
    life._portal.call(attack_all(life._broker, errors))
    broker.restart()
    assert not errors


async def configure(broker: Any, errors: list[str]) -> None:
    """Give a topic and the broker every number that a config may be, and write to the topic."""
    scene = Scene(broker, "readers")
    await scene.begin()
    for kind, name, table in ((2, "target", TOPIC_CONFIGS), (4, "1", BROKER_CONFIGS)):
        for config, text in extreme_configs(table):
            done = IncrementalAlterableConfig(config, OperationType.SET, text)
            undone = IncrementalAlterableConfig(config, OperationType.DELETE)
            for change in (done, undone):
                resource = IncrementalAlterConfigsResource(kind, name, [change])
                await scene.check(IncrementalAlterConfigsRequest([resource]), 1)
                data = PartitionProduceData(0, make_batch([b"v"]))
                topic = TopicProduceData("target", partition_data=[data])
                await scene.check(ProduceRequest(acks=1, topic_data=[topic]), 8)
                if change is done and config.startswith("log.cleaner"):
                    await asyncio.sleep(1.2 * REST_MIN_S)  # it looks at its settings again
                assert not errors, (config, text)


def extreme_configs(table: Mapping[str, ConfigDefinition]) -> Iterator[tuple[str, str]]:
    """Yield the outermost numbers that each config may be."""
    for name, config in table.items():
        fixed = table is BROKER_CONFIGS and config.update is Update.READ_ONLY
        if config.type not in NUMBERS or fixed or name in LEFT_OUT:
            continue
        legal = [text for text in EXTREME_TEXTS if _is_legal(config, text)]
        yield from ((name, text) for text in {*legal[:2], *legal[-2:]})


def _is_legal(config: ConfigDefinition, text: str) -> bool:
    try:
        config.parse(text)
    except ConfigError:
        return False
    return True


def test_no_config_harms_the_broker(broker, errors):
    life = broker._life
    life._portal.call(configure(life._broker, errors))
    broker.restart()
    assert not errors
