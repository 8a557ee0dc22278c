"""Brokers in miniature on a simulated network: logs on disks, Fetch served, followers that copy.

A node has the real handlers of Fetch and ListOffsets behind the real dispatcher, real logs and the
real fetchers. There is no controller: a test gives out the roles.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from kits import log_kit
from moldau.base.ids import PartitionKey, TopicId
from moldau.base.network import Address
from moldau.engine.ports import ClientPorts
from moldau.observe.requests import RequestMetrics
from moldau.observe.traffic import Traffic
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from moldau.protocol.registry import decode_header
from moldau.records.batch import parse_header
from moldau.replication.fetching.fetchers import Fetchers
from moldau.replication.fetching.ports import FetchSettings, FollowerContext
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.replication.throttle import FOLLOWER, LEADER, ReplicationThrottle
from moldau.server.api_permissions import API_PERMISSIONS
from moldau.server.fetch.sessions import FetchSessions
from moldau.server.handlers.fetch import FetchHandler
from moldau.server.handlers.offsets import OffsetHandlers
from moldau.server.network.connections import ConnectionLimits, Connections
from moldau.server.network.dispatch import Dispatcher, Route
from moldau.server.network.listeners import Endpoint
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.log_lines import log_lines
from moldau.sim.network import SimNetwork
from moldau.sim.world import World
from moldau.storage.flushing import Flusher
from moldau.storage.topic_config import LONG_MAX

PORT = 9092


class Addresses:
    """Knows where the nodes of a scene are, unless it was told to forget one."""

    def __init__(self):
        self.unknown = set()

    def address(self, broker_id):
        return None if broker_id in self.unknown else Address(f"broker-{broker_id}", PORT)


class Node:
    """One broker, without a controller."""

    def __init__(self, scene, broker_id, **settings):
        self.scene, self.id = scene, broker_id
        self.broker_epoch = 100 + broker_id
        world = scene.world
        self.disk = SimDisk(world.random(f"disk-{broker_id}"), trace=world.trace)
        self.broker = log_kit.Broker(self.disk, scene.config)
        self.partitions = Partitions()
        self.storage_errors = []
        self.requests = []
        """Fetch requests of followers, as they came."""
        self.host = scene.network.host(f"broker-{broker_id}")
        executor, clock = SimExecutor(world), world.clock
        self.executor = executor
        self.leader_rate = self.follower_rate = LONG_MAX
        sessions = FetchSessions(10, 120.0, clock, world.random(f"sessions-{broker_id}"))
        metrics = RequestMetrics()
        self.fetch = FetchHandler(
            self.partitions, sessions, executor, Traffic(), metrics.of("Fetch"),
            self.storage_errors.append, lambda *_: False, max_bytes=1 << 30,
            throttle=ReplicationThrottle(LEADER, broker_id, clock, lambda: self.leader_rate),
        )  # fmt: skip
        offsets = OffsetHandlers(self.partitions, executor, self.storage_errors.append)
        handlers = {
            1: ("0-18", self._fetch),
            2: ("0-11", offsets.list_offsets),
            18: ("0-5", lambda *_: ApiVersionsResponse(api_keys=self._api_keys())),
        }
        routes = [Route(key, *row, metrics, API_PERMISSIONS[key]) for key, row in handlers.items()]
        self.routes = routes
        self.dispatcher = Dispatcher(routes, clock, lambda: ApiVersionsResponse(35))
        self.garbled = None
        """Makes the bytes that answer a Fetch, in the place of an answer."""
        self.connections = Connections(
            self._handle, frame_limit=1 << 30, limits=lambda: ConnectionLimits(100, 100, {})
        )
        ports = ClientPorts(self.host, clock, world.random(f"client-{broker_id}"))
        self.fetchers = Fetchers(
            FollowerContext(
                broker_id,
                lambda: self.broker_epoch,
                scene.addresses,
                ports,
                FetchSettings(**settings),
                Flusher(executor),
                ReplicationThrottle(FOLLOWER, broker_id, clock, lambda: self.follower_rate),
                self.storage_errors.append,
            )
        )

    def _handle(self, connection, frame):
        header = decode_header(frame)
        if self.garbled is None or header.api_key != 1:
            return self.dispatcher.handle(connection, frame)
        self.requests.append(frame)
        return [self.garbled(header.correlation_id)]

    def _fetch(self, request, context):
        self.requests.append(request)
        return self.fetch(request, context)

    def _api_keys(self):
        return [
            ApiVersion(one.api.key, one.versions.first, one.versions.last) for one in self.routes
        ]

    async def serve(self):
        endpoint = Endpoint("PLAINTEXT", self.host.name, PORT, self.host.name, PORT)
        accept = self.connections.acceptor(endpoint)
        self.listener = await self.host.listen(self.host.name, PORT, accept)
        self.connections.begin()

    def open(self, key, topic_id):
        log = self.broker.manager.open_or_create(key, topic_id, self.broker.config)
        partition = Partition(key, topic_id, log, self.id)
        self.partitions.add(partition)
        return partition

    def partition(self, topic="t", index=0):
        return self.partitions.get(topic, index)

    def take_role(self, role, topic="t", index=0):
        """Do what a broker does when the metadata says this."""
        partition = self.partition(topic, index)
        if role.leader == self.id:
            self.fetchers.forget(partition.key)
            partition.become_leader(role, self.scene.world.clock.monotonic())
        else:
            partition.become_follower(role)
            self.fetchers.follow(partition)

    def append(self, *values, topic="t", index=0, size=0, **options):
        """Append one batch as the leader."""
        batch = log_kit.sized_batch(size) if size else log_kit.make_batch(values, **options)
        header = parse_header(batch)
        return self.partition(topic, index).append_as_leader(batch, header, 1)

    def flip_bit_in_last_batch(self):
        """Damage the end of a log; the same call mends it, if nothing was appended since."""
        segment = self.partition().log.active
        self.disk.flip_bit(segment.path, segment.size - 20)

    def content(self, topic="t", index=0):
        """All bytes of a log from its start on."""
        log = self.partition(topic, index).log
        pieces, offset = [], log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20, log.log_end_offset)
            piece = log_kit.region_bytes(read)
            pieces.append(piece)
            at = 0
            while at < len(piece):
                header = parse_header(piece, at)
                if at + header.size > len(piece):
                    pieces[-1] = piece[:at]
                    break
                offset, at = header.next_offset, at + header.size
        return b"".join(pieces)


class Scene:
    """Some nodes that hold the same topics."""

    def __init__(self, world, count=2, config=None, **settings):
        self.world = world
        self.network = SimNetwork(world)
        self.config = config
        self.addresses = Addresses()
        self.nodes = {number: Node(self, number, **settings) for number in range(1, count + 1)}
        self.roles = {}

    def __getitem__(self, broker_id):
        return self.nodes[broker_id]

    async def start(self, topics=("t",), partitions=1):
        for node in self.nodes.values():
            await node.serve()
        for number, topic in enumerate(topics, 1):
            for index in range(partitions):
                for node in self.nodes.values():
                    node.open(PartitionKey(topic, index), TopicId(bytes([number] * 16)))

    def lead(self, leader, *, topic="t", index=0, isr=None, to=None):
        """Have a node lead in the next epoch; `to` limits which nodes hear of it."""
        old = self.roles.get((topic, index))
        epoch = 0 if old is None else old.leader_epoch + 1
        replicas = tuple(self.nodes)
        role = Role(leader, epoch, epoch, replicas, tuple(isr or replicas))
        self.roles[topic, index] = role
        # The leader first: followers that ask before it knows of its epoch rest for a second.
        for broker_id in sorted(to or replicas, key=lambda one: one != leader):
            self[broker_id].take_role(role, topic, index)
        return role

    async def until(self, condition, limit_s=60.0):
        """Wait in virtual time."""
        deadline = self.world.clock.monotonic() + limit_s
        while not condition():
            assert self.world.clock.monotonic() < deadline, "it does not happen"
            await asyncio.sleep(0.01)

    async def until_equal(self, *brokers, topic="t", index=0, limit_s=60.0):
        """Wait until logs end alike, then compare every byte."""
        nodes = [self[one] for one in brokers or self.nodes]
        logs = [node.partition(topic, index).log for node in nodes]
        await self.until(
            lambda: len({(log.log_end_offset, log.epochs.entries) for log in logs}) == 1, limit_s
        )
        assert len({node.content(topic, index) for node in nodes}) == 1

    async def stop(self):
        for node in self.nodes.values():
            await node.fetchers.close()
            node.connections.close_all()


@contextlib.contextmanager
def lines_of(name, level):
    """Hear what is logged under a name."""
    heard = []
    handler = logging.Handler(level)
    handler.emit = lambda record: heard.append(record.getMessage())
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)


def append_alone(node, *values, epoch, index=0):
    """Let a node have a batch that no other node has."""
    log = node.partition(index=index).log
    log_kit.append(log, log_kit.make_batch(values, base_offset=log.log_end_offset), epoch)


def append_numbers_alone(node, count, *, epoch, index=0):
    """Let a node have so many batches that no other node has."""
    for number in range(count):
        append_alone(node, b"%d" % number, epoch=epoch, index=index)


def play(work, seed=1, *, bugs=(), **options):
    """Run work on a scene in virtual time; a logged traceback fails it."""
    with World(seed) as world, log_lines(world.trace) as lines:

        async def run():
            scene = Scene(world, **options)
            scene.lines = lines
            try:
                return await work(scene)
            finally:
                await scene.stop()

        result = world.run(run())
        assert lines.bugs == list(bugs)
        return result
