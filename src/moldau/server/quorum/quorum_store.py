"""The metadata store of a node in a quorum, be it of several or of this node alone."""

from __future__ import annotations

from collections.abc import Callable

from moldau.base.ids import BrokerId
from moldau.base.network import Address
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.kraft.own_node import LogSettings, OwnNode
from moldau.cluster.kraft.peers import Nobody, Peers
from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.cluster.snapshotting import SnapshotPace
from moldau.engine.ports import ClientPorts
from moldau.server.configuration.quorum import AUTO_JOIN, NodeKind
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports
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
        _static_voters(settings),
        _own_endpoints(settings),
        has_one_controller=len(quorum.controllers) == 1,
        is_voting=quorum.votes_alone or quorum.kind is NodeKind.MEMBER,
        is_sole_voter=quorum.votes_alone,
        joins_voters=bool(values.value(AUTO_JOIN)),
    )
    store = RaftStore(
        own,
        ports.files,
        ports.clock,
        ports.random,
        Nobody() if quorum.votes_alone else _peers(settings, ports, own, lambda: store.voters),
        _timeouts(settings),
        LogSettings(pace, retention, values.integer("min.insync.replicas")),
        ports.executor,
    )
    return store


def _peers(
    settings: BrokerSettings, ports: Ports, own: OwnNode, voters: Callable[[], VoterSet]
) -> Peers:
    """Return the ways to the other nodes."""
    # Imported here: a node that is alone does not need it.
    from moldau.server.quorum.peers import QuorumPeers  # noqa: PLC0415

    quorum, values = settings.quorum, settings.values
    return QuorumPeers(
        Voter(ReplicaKey(NodeId(settings.node_id)), own.endpoints),
        quorum.controllers,
        VoterAddresses(voters, quorum.controller_listener).address,
        ClientPorts(ports.network, ports.clock, ports.random),
        client_id=f"node-{settings.node_id}-quorum",
        request_timeout_ms=values.integer("controller.quorum.request.timeout.ms"),
        fetch_bytes=values.integer("controller.quorum.fetch.max.bytes"),
    )


def _static_voters(settings: BrokerSettings) -> VoterSet | None:
    """Return the voters of the settings; None where the log names them (kraft.version 1).

    Settings that name none mean this node, if it votes alone. To one that asks a single address
    they may mean either: it knows no voters until the log names some.
    """
    quorum = settings.quorum
    listener = quorum.controller_listener
    if not quorum.voters:
        if quorum.has_several_controllers:
            return None
        own = Voter(ReplicaKey(NodeId(settings.node_id)), _own_endpoints(settings))
        return VoterSet((own,) if quorum.votes_alone else ())
    voters = sorted(quorum.voters)
    return VoterSet(
        tuple(
            Voter(ReplicaKey(NodeId(one.node_id)), (VoterEndpoint(listener, *one.address),))
            for one in voters
        )
    )


def _own_endpoints(settings: BrokerSettings) -> tuple[VoterEndpoint, ...]:
    """Name where other nodes reach this one as a controller; nothing for one that never votes.

    A listener may be bound to every interface, and the settings name a host for it.
    """
    quorum, opened = settings.quorum, settings.listeners.controller
    named: dict[int, Address] = {one.node_id: one.address for one in quorum.voters}
    own = named.get(settings.node_id)
    if own is None and opened and quorum.votes_alone:
        own = next(iter(quorum.controllers), None)
    if own is not None and quorum.controller_listener:
        return (VoterEndpoint(quorum.controller_listener, *own),)
    return tuple(
        VoterEndpoint(one.name, one.advertised_host, one.advertised_port or one.port)
        for one in opened
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
