"""What a broker is made of, below its connections: every part made once and handed its ports.

Nothing runs yet and nothing is touched: `broker` starts the parts in order, `routes` puts the
handlers on top of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from moldau.base.clock import Clock, Random
from moldau.base.executor import Executor
from moldau.base.files import Files
from moldau.base.ids import BrokerId, PartitionKey
from moldau.base.memory_budget import MemoryBudget
from moldau.base.network import Network
from moldau.cluster.broker_controller import ControllerSettings
from moldau.cluster.changes import Change, ConfigChanged
from moldau.cluster.controller import Controller
from moldau.cluster.controller_requests import BrokerRequests
from moldau.cluster.feature_updates import QuorumContext
from moldau.cluster.features import KraftLevels
from moldau.cluster.image import MetadataImage
from moldau.cluster.raft.voters import KRAFT_VERSION
from moldau.cluster.store import MetadataStore
from moldau.cluster.topics import TopicDefaults
from moldau.cluster.zookeeper.client.connect_string import ConnectString
from moldau.cluster.zookeeper.client.port import ZooKeeper
from moldau.engine.ports import ClientPorts
from moldau.observe.requests import RequestMetrics
from moldau.observe.traffic import Traffic
from moldau.replication.fetching.fetchers import Fetchers
from moldau.replication.fetching.ports import FetchSettings, FollowerContext
from moldau.replication.partitions import Partitions
from moldau.replication.ports import ReplicationPorts
from moldau.replication.throttle import FOLLOWER, LEADER, ReplicationThrottle
from moldau.server.configuration.dynamic import DynamicConfigs
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.configuration.values import BrokerValues
from moldau.server.fetch.reading import ParkedFetches
from moldau.server.handlers.quorum import QuorumState
from moldau.server.lifecycle.internal_partitions import Coordinators, LogParts
from moldau.server.lifecycle.replicas import Replicas
from moldau.server.lifecycle.runtimes import Runtimes
from moldau.server.lifecycle.topic_admin import Follower, NoPartitions
from moldau.server.nodes.broker_channels import BrokerChannels
from moldau.server.nodes.broker_watches import BrokerWatches
from moldau.server.nodes.directory_reports import DirectoryReports
from moldau.server.nodes.image_waits import ImageWaits
from moldau.server.nodes.isr_proposals import IsrProposals
from moldau.server.nodes.known_topics import KnownTopics
from moldau.server.nodes.live_brokers import LiveBrokers
from moldau.server.nodes.membership import Membership, MembershipTimes
from moldau.server.nodes.remote_controller import Channels, RemoteController
from moldau.server.upkeep.compaction import CleanerSettings, Compaction
from moldau.server.upkeep.housekeeping import Housekeeping
from moldau.server.upkeep.index_repair import IndexRepair
from moldau.server.upkeep.scrubbing import Scrubber
from moldau.storage.flushing import Flusher
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

if TYPE_CHECKING:
    from moldau.server.quorum.quorum_parts import QuorumParts
    from moldau.server.zookeeper.elected_parts import ElectedParts
    from moldau.server.zookeeper.membership import ZooKeeperMembership


class BrokerStore(MetadataStore, QuorumState, Protocol):
    """The metadata store as a broker is given it, with what DescribeQuorum tells of it.

    One that only follows grants no controllership.
    """

    @property
    def leader_id(self) -> int:
        """The node that leads the metadata, as far as is known; -1 while nobody is."""
        ...

    @property
    def has_heard_leader(self) -> bool:
        """Whether a leader has been heard of since the start; one may be known from before."""
        ...


EVERY_DIRECTORY: Final = "*"
"""In `cordoned.log.dirs`."""

OpenZooKeeper = Callable[[ConnectString, float, float | None], ZooKeeper]
"""Takes where it is, how long a session lasts without a word, and how long to wait for one."""

MakeStore = Callable[[BrokerSettings, "Ports"], BrokerStore]
"""Makes a broker's metadata store, not yet started."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world, as a broker is given it."""

    clock: Clock
    random: Random
    files: Files
    network: Network
    executor: Executor
    cleaner: Executor
    """Where logs are compacted, for minutes on end: nothing else may have to wait behind it."""
    make_store: MakeStore
    """A factory, because the store stands on the other ports; those of `server/stores.py`."""
    open_zookeeper: OpenZooKeeper | None = None
    """Makes the way to a ZooKeeper; None for real ones."""
    boot_id: str = ""
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    """What requests and answers may take; the network charges its buffers to the same one."""


class Parts:
    """One broker's parts."""

    def __init__(self, settings: BrokerSettings, ports: Ports) -> None:
        self.settings = settings
        self.ports = ports
        self.on_directories_lost: Callable[[], None] = lambda: None
        """Called once no log directory is online; the broker ends itself then."""
        self.room_count = 0
        """How often a full log directory had room again."""
        self.broker_id = BrokerId(settings.node_id)
        self.metrics = RequestMetrics()
        self.traffic = Traffic()
        self.parked_fetches = ParkedFetches(ports.network.call_soon)
        self.partitions = Partitions(KnownTopics(self.image))
        self.logs = LogManager(Resources(ports.files, ports.clock, ports.random), settings.log_dirs)
        self.store = ports.make_store(settings, ports)
        self.flusher = Flusher(ports.executor)
        self.configs = DynamicConfigs(settings, self.image, self.broker_id)
        self.controller = self._make_controller()
        """Active where this node votes; elsewhere it refuses everything."""
        self.live_brokers = LiveBrokers(self.image, settings.listeners.inter_broker)
        self.elected = self._make_elected()
        """What a broker has on ZooKeeper; None elsewhere."""
        self.quorum = self._make_quorum()
        """What a node has in a quorum; None elsewhere."""
        self.channels = self._open_channels()
        """The ways to the controller, where it is another node."""
        self.requests = self._make_requests()
        """How this broker asks for changes: itself, or another node."""
        self.housekeeping = self._make_housekeeping()
        self.membership: Membership | ZooKeeperMembership = self._make_membership()
        self.isr_proposals = IsrProposals(
            self.requests.alter_partitions, self.broker_id, self.broker_epoch
        )
        self.directory_reports = DirectoryReports(
            self.requests.assign_directories, self.broker_id, self.broker_epoch, ports.random
        )
        failed = self.housekeeping.storage_failed
        self.index_repair = IndexRepair(ports.files, ports.executor, ports.cleaner, failed)
        self.compaction = self._make_compaction()
        self.scrubber = Scrubber(
            ports.files, self.partitions, ports.clock, ports.cleaner, self.index_repair.ask
        )
        log_parts = LogParts(ports.clock, ports.executor, self.flusher, self.traffic, failed)
        self.runtimes = Runtimes(
            settings.values,
            self.image,
            self.partitions,
            log_parts,
            ports.random,
            self.broker_id,
            self.open_broker_channels,
        )
        self.coordinators = Coordinators(
            self.runtimes.groups,
            self.runtimes.transactions,
            self.partitions,
            self.image,
            log_parts,
        )
        self.leader_throttle = self._make_throttle(LEADER)
        self.fetchers = self._make_fetchers()
        self.replication = ReplicationPorts(
            self.live_brokers,
            self.isr_proposals,
            settings.values.integer("replica.lag.time.max.ms") / 1000,
        )
        self.replicas = self._make_replicas()
        self.follower: Follower = self.replicas if settings.quorum.is_broker else NoPartitions()
        """What has to come after a change before whoever asked for it is answered."""

    def _make_elected(self) -> ElectedParts | None:
        if self.settings.quorum.kind is not NodeKind.ELECTED:
            return None
        from moldau.cluster.zookeeper.store import ZooKeeperStore  # noqa: PLC0415 - see there
        from moldau.server.zookeeper.elected_parts import ElectedParts  # noqa: PLC0415

        assert isinstance(self.store, ZooKeeperStore)  # that is what such settings ask for
        return ElectedParts(self, self.store)

    def _make_quorum(self) -> QuorumParts | None:
        if self.settings.quorum.kind is NodeKind.ELECTED:
            return None
        from moldau.cluster.kraft.store import RaftStore  # noqa: PLC0415 - see there
        from moldau.server.quorum.quorum_parts import QuorumParts  # noqa: PLC0415

        assert isinstance(self.store, RaftStore)  # that is what such settings ask for
        return QuorumParts(self, self.store)

    @property
    def watches(self) -> BrokerWatches | None:
        """What notices that processes of brokers are gone; None where a session has to tell."""
        elected = self.elected or self.quorum
        return None if elected is None else elected.watches

    def _make_requests(self) -> BrokerRequests:
        if self.channels is None:
            return self.controller
        remote = RemoteController(self.channels, ImageWaits(self.store))
        elected = self.elected or self.quorum
        return remote if elected is None else elected.requests(remote)

    def _make_membership(self) -> Membership | ZooKeeperMembership:
        values = self.settings.values
        if self.elected is not None and self.channels is not None:
            return self.elected.membership(self.channels)
        return Membership(
            self.requests,
            lambda: self.store.image.version - 1,
            self.ports.clock,
            MembershipTimes(
                values.integer("broker.heartbeat.interval.ms") / 1000,
                values.integer("initial.broker.registration.timeout.ms") / 1000,
                values.integer("log.dir.failure.timeout.ms") / 1000,
            ),
            self.housekeeping.keep_broker_epoch,
            lambda: self.logs.failed_directory_ids,
            lambda: self.logs.ids_of(self._cordoned_paths()),
        )

    def _make_housekeeping(self) -> Housekeeping:
        ports = self.ports
        return Housekeeping(
            self.logs,
            self.partitions,
            self.flusher,
            ports.clock,
            ports.executor,
            lambda: self.configs.broker_values.integer("producer.id.expiration.ms"),
            self._directory_failed,
            self._room_again,
        )

    def _make_compaction(self) -> Compaction:
        return Compaction(
            self.logs,
            self.partitions,
            self.flusher,
            self.ports.clock,
            self.ports.cleaner,
            lambda: CleanerSettings.of(self.configs.broker_values),
            self.housekeeping.storage_failed,
            self.index_repair.ask,
        )

    def _make_replicas(self) -> Replicas:
        return Replicas(
            self.broker_id,
            self.broker_epoch,
            self.partitions,
            self.logs,
            self.ports.clock,
            self.traffic,
            self.config_of,
            self._partition_changed,
            self.replication,
            # The tree of ZooKeeper has no place for directories.
            self.directory_reports.report if self.elected is None else lambda *_: None,
            self.housekeeping.storage_failed,
        )

    def _make_throttle(self, side: str) -> ReplicationThrottle:
        return ReplicationThrottle(
            side,
            self.broker_id,
            self.ports.clock,
            lambda: self.configs.broker_values.integer(f"{side}.rate"),
        )

    def _make_fetchers(self) -> Fetchers:
        return Fetchers(
            FollowerContext(
                self.broker_id,
                self.broker_epoch,
                self.live_brokers,
                self.client_ports(),
                _fetch_settings(self.settings.values),
                self.flusher,
                self._make_throttle(FOLLOWER),
                self.housekeeping.storage_failed,
            )
        )

    def _make_controller(self) -> Controller:
        settings = self.settings
        return Controller(
            self.store,
            TopicDefaults(settings.num_partitions, settings.default_replication_factor),
            self.configs,
            self.ports.random,
            self._can_make_logs,
            self.ports.clock,
            ControllerSettings(
                settings.values.integer("broker.session.timeout.ms") / 1000,
                bool(settings.values.value("unclean.leader.election.enable")),
                self.broker_id,
                # With ZooKeeper alone, as in Kafka.
                settings.values.integer("leader.imbalance.per.broker.percentage")
                if self.settings.quorum.kind is NodeKind.ELECTED
                else 0,
            ),
            quorum=None if settings.quorum.kind is NodeKind.ELECTED else self._feature_context,
            raise_kraft_version=self._raise_kraft_version,
        )

    def kraft_levels(self) -> KraftLevels:
        """Return which `kraft.version` is in force, and how high it may be raised."""
        level = self.store.kraft_version
        is_raisable = self.settings.quorum.has_several_controllers
        return KraftLevels(level, KRAFT_VERSION if is_raisable else level)

    def _feature_context(self) -> QuorumContext:
        if self.quorum is not None:
            return self.quorum.feature_context()
        minimum = self.settings.values.integer("min.insync.replicas")
        return QuorumContext(self.broker_id, {self.broker_id}, self.kraft_levels(), minimum)

    async def _raise_kraft_version(self) -> None:
        assert self.quorum is not None  # no other store offers a higher one
        await self.quorum.raise_kraft_version()

    def _can_make_logs(self) -> bool:
        """Tell whether new partitions find room; where controllers are elected, if only elsewhere.

        There, a broker without room says so, and another one leads.
        """
        is_elected = self.settings.quorum.kind in (NodeKind.ELECTED, NodeKind.MEMBER)
        return self.logs.can_make_logs or (is_elected and len(self.image().brokers) > 1)

    def _open_channels(self) -> Channels | None:
        if self.settings.quorum.votes_alone:
            return None
        found = self.elected or self.quorum
        return None if found is None else found.open_channels()

    def open_broker_channels(self, purpose: str, timeout_ms: int) -> BrokerChannels:
        """Return the ways to other brokers for one kind of request."""
        return BrokerChannels(
            self.live_brokers,
            self.client_ports(),
            client_id=f"broker-{self.broker_id}-{purpose}",
            request_timeout_ms=timeout_ms,
        )

    def client_ports(self) -> ClientPorts:
        """Return what connections to other nodes need of the outside world."""
        return ClientPorts(self.ports.network, self.ports.clock, self.ports.random)

    def broker_epoch(self) -> int:
        """Return the epoch this broker is registered with; -1 while it is not."""
        return self.membership.broker_epoch

    def controller_id(self) -> int:
        """Return the node of the active controller; this one while nobody is known.

        Every broker passes on what only the controller can decide.
        """
        leader_id = self.store.leader_id
        return self.broker_id if leader_id < 0 else leader_id

    def image(self) -> MetadataImage:
        """Return the cluster's metadata as it is now."""
        return self.store.image

    def config_of(self, own: Mapping[str, str]) -> LogConfig:
        """Return what a topic's own configs come to here and now."""
        return self.configs.topic_log_config(own)

    def configs_changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Follow configs of the broker that others have to be told of."""
        del image
        if any(isinstance(change, ConfigChanged) for change in changes):
            self.fetchers.resize(self.configs.broker_values.integer("num.replica.fetchers"))
            self.follow_cordons()

    def follow_cordons(self) -> None:
        """Put no new logs into directories that are cordoned now."""
        self.logs.cordoned = self._cordoned_paths()
        self.membership.directories_changed()

    def _cordoned_paths(self) -> frozenset[str]:
        """Return the log directories that take no new replicas (KIP-1066)."""
        found = self.configs.broker_values.entries("cordoned.log.dirs")
        return frozenset(self.settings.log_dirs if found == (EVERY_DIRECTORY,) else found)

    def _partition_changed(self, key: PartitionKey) -> None:
        """Let coordinators and fetchers follow a partition's role."""
        partition = self.partitions.get(*key)
        if partition is None or partition.log.offline:
            self.fetchers.forget(key)
        else:
            self.fetchers.follow(partition)
        self.coordinators.partition_changed(key)

    def _room_again(self) -> None:
        """Make the logs for which there was no room."""
        self.room_count += 1
        self.replicas.room_again(self.image())
        self.membership.directories_changed()

    def _directory_failed(self) -> None:
        """Let go of what lived on a log directory that is out of use."""
        self.replicas.directory_failed()
        self.coordinators.directory_failed()
        self.membership.directories_changed()
        if self.logs.all_failed:
            self.on_directories_lost()


def _fetch_settings(values: BrokerValues) -> FetchSettings:
    """Read how followers fetch; each field is named like its config."""
    return FetchSettings(
        *(values.integer(name.replace("_", ".")) for name in FetchSettings._fields)
    )
