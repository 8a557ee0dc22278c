"""An image of any registrations and features is read from its snapshot as it was, byte for byte."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.metadata_samples import after
from moldau.base.files import read_whole
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerRegistered,
    ControllerRegistered,
    ControllerUnregistered,
    FeatureLevelSet,
    OpaqueRecorded,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, Endpoint, FeatureRange, RegisteredController
from moldau.cluster.record_codec import decode_record, encode_change, metadata_level
from moldau.cluster.replay import Replay
from moldau.cluster.snapshots import SnapshotWriter, batched, read_snapshot
from moldau.sim.disk import SimDisk

PATH = f"/data/{7:020d}-{1:010d}.checkpoint"
IDS = st.integers(0, 3).map(BrokerId) | st.just(BrokerId(2**31 - 1))
NAMES = st.text(max_size=20)
LEVELS = st.integers(-(2**15), 2**15 - 1)
UUIDS = st.binary(min_size=16, max_size=16)
ENDPOINTS = st.lists(
    st.builds(Endpoint, NAMES, NAMES, st.integers(0, 2**16 - 1), LEVELS), max_size=3
).map(tuple)
RANGES = st.lists(st.builds(FeatureRange, NAMES, LEVELS, LEVELS), max_size=3).map(tuple)
CONTROLLERS = st.builds(RegisteredController, IDS, UUIDS, ENDPOINTS, RANGES, st.booleans())
BROKERS = st.builds(
    Broker,
    IDS,
    st.just(0),
    st.just(bytes(16)),
    ENDPOINTS,
    st.none() | NAMES,
    RANGES,
    st.booleans(),
    st.booleans(),
    st.lists(UUIDS, max_size=2).map(tuple),
)
FEATURES = st.sampled_from(
    ("eligible.leader.replicas.version", "group.version", "share.version", "transaction.version")
)
CHANGES = st.one_of(
    st.builds(ControllerRegistered, CONTROLLERS),
    st.builds(ControllerUnregistered, IDS),
    st.builds(BrokerRegistered, BROKERS),
    st.builds(FeatureLevelSet, FEATURES, st.integers(0, 2**15 - 1)),
    # Keys of records that nobody decodes.
    st.builds(
        OpaqueRecorded,
        st.sampled_from((10, 11, 14, 18, 120)),
        LEVELS.map(abs),
        NAMES.map(str.encode),
    ),
)
LEVEL_OF_ALL_RECORDS = st.sampled_from((17, 22, 23, 29, 30, 33))
"""At lower ones Kafka registers no controllers, and a snapshot leaves directories out."""


@settings(max_examples=150)
@given(LEVEL_OF_ALL_RECORDS, st.lists(CHANGES, max_size=12))
def test_a_snapshot_is_read_as_it_was_written(level, changes):
    image = after(MetadataImage(), [FeatureLevelSet("metadata.version", level), *changes])
    disk = SimDisk(random.Random(1))
    disk.make_folder("/data")
    values = written(disk, image)
    assert [encode_change(decode_record(value), level) for value in values] == values
    again = read_back(disk, image.version)
    assert again == image
    first = read_whole(disk, PATH)
    assert written(disk, again) == values
    assert read_whole(disk, PATH) == first


def written(disk, image):
    level = metadata_level(image)
    values = [encode_change(change, level) for change in image.as_changes()]
    writer = SnapshotWriter(disk, PATH, 5, 5)
    for batch in batched(values, 200):
        writer.append(batch)
    writer.finish()
    return values


def read_back(disk, version):
    replay = Replay(MetadataImage())
    replay.take(read_snapshot(disk, PATH).values)
    return replay.image(version)
