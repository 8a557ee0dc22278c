"""Opening embedded stores on a disk, and looking at what they leave there."""

from __future__ import annotations

from pathlib import Path

from kits.metadata_samples import topic_id
from moldau.base.files import read_whole
from moldau.cluster.changes import TopicCreated
from moldau.cluster.embedded import EmbeddedStore
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.records.batch import iter_batches, parse_header
from moldau.records.record import read_records

KAFKA = Path(__file__).parents[1] / "unit" / "cluster" / "kafka_4_3_1"
"""Log directories as Apache Kafka 4.3.1 left them, without their indexes."""

NOTHING_OLDER = MetadataRetention(max_bytes=0)
"""Keeps the newest snapshot and the log behind it alone."""

FOLDER = "/data/__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"


def new_store(world, files, node_id=1, directories=("/data",), **settings):
    return EmbeddedStore(
        files, directories, node_id, world.clock, world.random("store"), **settings
    )


def use(world, files, work=None, **settings):
    """Open a store, let `work` use it, close it, return its last image."""

    async def opened():
        store = new_store(world, files, **settings)
        await store.start()
        if work is not None:
            await work(store)
        await store.close()
        return store.image

    return world.run(opened())


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
