"""Opening the store of a voter that is alone, and looking at what it leaves on its disk."""

from __future__ import annotations

from pathlib import Path

from kits.metadata_samples import topic_id
from moldau.base.files import read_whole
from moldau.cluster.changes import TopicCreated
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.kraft.own_node import LogSettings, OwnNode
from moldau.cluster.kraft.peers import Nobody
from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshotting import (
    SNAPSHOT_AFTER_BYTES,
    SNAPSHOT_INTERVAL_S,
    SnapshotPace,
)
from moldau.protocol.compiler import encode
from moldau.protocol.messages.control_records import LeaderChangeMessage, LeaderChangeVoter
from moldau.records.batch import iter_batches, parse_header
from moldau.records.record import read_records

KAFKA = Path(__file__).parents[1] / "unit" / "cluster" / "kafka_4_3_1"
"""Log directories as Apache Kafka 4.3.1 left them, without their indexes."""

NOTHING_OLDER = MetadataRetention(max_bytes=0)
"""Keeps the newest snapshot and the log behind it alone."""

FOLDER = "/data/__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"


def new_store(world, files, node_id=1, directories=("/data",), **settings):
    return sole_voter(files, directories, node_id, world.clock, world.random("store"), **settings)


def sole_voter(
    files,
    directories,
    node_id,
    clock,
    random,
    *,
    metadata_directory=None,
    executor=None,
    snapshot_after_bytes=SNAPSHOT_AFTER_BYTES,
    snapshot_interval_s=SNAPSHOT_INTERVAL_S,
    retention=MetadataRetention(),  # noqa: B008 - it never changes
    min_insync_replicas=1,
):
    own = OwnNode(
        node_id,
        tuple(directories),
        metadata_directory or directories[0],
        VoterSet((Voter(ReplicaKey(NodeId(node_id))),)),
        is_sole_voter=True,
    )
    pace = SnapshotPace(snapshot_after_bytes, snapshot_interval_s)
    log = LogSettings(pace, retention, min_insync_replicas)
    return RaftStore(own, files, clock, random, Nobody(), Timeouts(), log, executor)


def use(world, files, work=None, **settings):
    """Open a store, let `work` use it, close it, return its last image."""

    async def opened():
        store = new_store(world, files, **settings)
        await lead(store)
        if work is not None:
            await work(store)
        await store.close()
        return store.image

    return world.run(opened())


async def lead(store):
    """Start a store, and become the controller."""
    await store.start()
    assert await store.claim() is not None


def committing(*groups):
    async def work(store):
        for changes in groups:
            await commit(store, store.image.version, changes)

    return work


async def commit(store, expected_version, changes):
    """Commit as the active controller, which the caller's broker must be able to become."""
    controllership = await store.claim()
    return await controllership.commit(expected_version, changes)


def created(number):
    return TopicCreated(f"topic-{number}", topic_id(number))


def leader_change(node_id):
    """The value of the record with which a voter that is alone begins an epoch."""
    voter = [LeaderChangeVoter(voter_id=node_id)]
    message = LeaderChangeMessage(leader_id=node_id, voters=voter, granting_voters=voter)
    return encode(message, 0)


def all_records(data):
    for span in iter_batches(data):
        header = parse_header(data, span.position)
        for record in read_records(data, span.position):
            yield header, record


def put(files, path, content):
    files.remove(path)
    file = files.open(path, create=True)
    file.append([content])
    file.close()


def on_disk(files, folder="/data"):
    """Every file below a folder, to see that nothing was touched."""
    found = {}
    for name in files.names(folder):
        path = f"{folder}/{name}"
        if files.is_folder(path):
            found |= on_disk(files, path)
        else:
            found[path] = read_whole(files, path)
    return found
