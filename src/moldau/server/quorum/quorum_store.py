"""The metadata store of a node in a quorum of several, made from its settings."""

from __future__ import annotations

from moldau.base.ids import BrokerId
from moldau.base.network import Address
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.kraft.store import LogSettings, OwnNode, RaftStore
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.cluster.snapshotting import SnapshotPace
from moldau.engine.ports import ClientPorts
from moldau.server.configuration.quorum import AUTO_JOIN, NodeKind, QuorumSettings
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports
from moldau.server.quorum.peers import QuorumPeers
from moldau.server.quorum.voter_addresses import VoterAddresses


def make_quorum_store(
    settings: BrokerSettings, ports: Ports, pace: SnapshotPace, retention: MetadataRetention
) -> RaftStore:
    """Make the store, not yet started, with its way to the other nodes."""
    quorum, values = settings.quorum, settings.values
    own = OwnNode(
        BrokerId(settings.node_id),
        tuple(settings.log_dirs),
        settings.metadata_log_dir or settings.log_dirs[0],
        _static_voters(quorum),
        _own_endpoints(settings),
        is_voting=quorum.kind is NodeKind.MEMBER,
        joins_voters=bool(values.value(AUTO_JOIN)),
    )
    addresses = VoterAddresses(lambda: store.voters, quorum.controller_listener)
    peers = QuorumPeers(
        Voter(ReplicaKey(NodeId(settings.node_id)), own.endpoints),
        quorum.controllers,
        addresses.address,
        ClientPorts(ports.network, ports.clock, ports.random),
        client_id=f"node-{settings.node_id}-quorum",
        request_timeout_ms=values.integer("controller.quorum.request.timeout.ms"),
        fetch_bytes=values.integer("controller.quorum.fetch.max.bytes"),
    )
    store = RaftStore(
        own,
        ports.files,
        ports.clock,
        ports.random,
        peers,
        _timeouts(settings),
        LogSettings(pace, retention, values.integer("min.insync.replicas")),
        ports.executor,
    )
    return store


def _static_voters(quorum: QuorumSettings) -> VoterSet | None:
    """Return the voters of the settings; None where the log names them (kraft.version 1)."""
    if not quorum.voters:
        return None
    listener = quorum.controller_listener
    voters = sorted(quorum.voters)
    return VoterSet(
        tuple(
            Voter(ReplicaKey(NodeId(one.node_id)), (VoterEndpoint(listener, *one.address),))
            for one in voters
        )
    )


def _own_endpoints(settings: BrokerSettings) -> tuple[VoterEndpoint, ...]:
    """Name where other nodes reach this one as a controller; nothing for one that never votes."""
    quorum = settings.quorum
    named: dict[int, Address] = {one.node_id: one.address for one in quorum.voters}
    own = named.get(settings.node_id)
    if own is not None:
        return (VoterEndpoint(quorum.controller_listener, *own),)
    return tuple(
        VoterEndpoint(one.name, one.advertised_host, one.advertised_port or one.port)
        for one in settings.listeners.controller
    )


def _timeouts(settings: BrokerSettings) -> Timeouts:
    def seconds(name: str) -> float:
        return settings.values.integer(f"controller.quorum.{name}") / 1000

    fetch_s, request_s = seconds("fetch.timeout.ms"), seconds("request.timeout.ms")
    return Timeouts(
        election_s=seconds("election.timeout.ms"),
        fetch_s=fetch_s,
        request_s=request_s,
        # Where nothing happens, an answer still has to come before anybody gives it up.
        fetch_wait_s=min(Timeouts().fetch_wait_s, fetch_s / 2, request_s / 2),
        retry_backoff_s=seconds("retry.backoff.ms"),
        backoff_max_s=seconds("election.backoff.max.ms"),
    )
