"""Damaged metadata files: the store starts on what is left or says in one line what is wrong.

Whatever lies in the folder, the only errors are ours: StorageError for what does not add up,
UserError for what belongs to somebody else.
"""

import asyncio
import contextlib
import functools
import random

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.observed_cluster import observing_store
from kits.sole_voter import commit, lead, sole_voter
from moldau.base.errors import StorageError, UserError
from moldau.base.files import read_whole
from moldau.cluster.changes import FeatureLevelSet
from moldau.cluster.journal import METADATA_TOPIC, METADATA_TOPIC_ID
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
)
from moldau.records.batch import iter_batches
from moldau.sim.disk import SimDisk

ROOT = "/data"
METADATA = f"{ROOT}/__cluster_metadata-0"
CRC_AT, CHECKED_FROM = 17, 21
LEADER = 9
PATIENCE_S = 0.5


class Clock:
    def monotonic(self):
        return 0.0

    def wall_ms(self):
        return 1_700_000_000_000


def store_on(disk):
    return sole_voter(disk, [ROOT], 1, Clock(), random.Random(2), snapshot_after_bytes=2_000)


async def fill(disk):
    store = store_on(disk)
    await lead(store)
    for number in range(30):
        change = FeatureLevelSet(f"a.feature.with.a.long.name.{number}", 1)
        await commit(store, store.image.version, [change])
    await store.close()


@functools.cache
def sound_files():
    """Every file of a folder that has a journal and a snapshot, by path."""
    disk = SimDisk(random.Random(1))
    asyncio.run(fill(disk))
    files = {
        f"{folder}/{name}": read_whole(disk, f"{folder}/{name}")
        for folder in (ROOT, METADATA)
        for name in disk.names(folder)
        if not disk.is_folder(f"{folder}/{name}")
    }
    # An observer does not know itself as the leader.
    path = f"{METADATA}/quorum-state"
    files[path] = files[path].replace(b'"leaderId":1', b'"leaderId":%d' % LEADER)
    return files


def disk_with(files):
    disk = SimDisk(random.Random(1))
    disk.make_folder("/")
    disk.make_folder(METADATA)
    for path, content in files.items():
        disk.open(path, create=True).append([content])
    return disk


async def start_voter(disk):
    store = store_on(disk)
    try:
        await lead(store)
    finally:
        await store.close()


class AgreeingLeader:
    """Says that everything an observer has is committed, and then nothing more.

    It leads a later epoch than the observer knows: another leader of its own would not be believed.
    """

    def __init__(self):
        self.is_done = asyncio.Event()
        self.epoch = None

    async def fetch(self, request):
        wanted = request.topics[0].partitions[0]
        if self.epoch is None:
            self.epoch = min(wanted.current_leader_epoch + 1, 2**31 - 1)
        is_known = wanted.current_leader_epoch == self.epoch
        if is_known and wanted.high_watermark == wanted.fetch_offset:
            self.is_done.set()
            await asyncio.Event().wait()
        answer = FetchablePartitionResponse(
            error_code=0 if is_known else 74,
            high_watermark=wanted.fetch_offset,
            current_leader=LeaderIdAndEpoch(LEADER, self.epoch),
            records=b"",
        )
        topic = FetchableTopicResponse(METADATA_TOPIC, METADATA_TOPIC_ID, [answer])
        return FetchResponse(responses=[topic])

    async def fetch_snapshot(self, request):
        raise PeerUnavailable(f"{request} is not answered")

    async def close(self):
        """Hold nothing."""


async def start_observer(disk):
    source = AgreeingLeader()
    store = observing_store(disk, 1, Clock(), random.Random(2), source, voters=(LEADER,))
    failed = []

    def fail(error):
        failed.append(error)
        source.is_done.set()

    store.on_failed(fail)
    try:
        await store.start()
        with contextlib.suppress(TimeoutError):  # it may wait for another leader
            await asyncio.wait_for(source.is_done.wait(), PATIENCE_S)
    finally:
        await store.close()
    if failed:
        raise failed[0]


def started_or_refused(files):
    """Start as either kind of node; any error but ours goes through, and ours is one line."""
    for start in (start_voter, start_observer):
        refusal = ""
        try:
            asyncio.run(start(disk_with(files)))
        except (StorageError, UserError) as error:
            refusal = str(error)
        assert "\n" not in refusal


def test_the_sample_has_every_kind_of_file_and_starts():
    names = {path.rpartition("/")[2] for path in sound_files()}
    assert {"quorum-state", "meta.properties", "bootstrap.checkpoint"} <= names
    assert any(name.endswith(".log") for name in names)
    assert any(name.endswith(".checkpoint") and "-" in name for name in names)
    for start in (start_voter, start_observer):
        asyncio.run(start(disk_with(sound_files())))


@settings(max_examples=150)
@given(st.data())
def test_a_file_of_any_bytes_is_read_or_refused(data):
    path = data.draw(st.sampled_from(sorted(sound_files())))
    started_or_refused({**sound_files(), path: data.draw(st.binary(max_size=200))})


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(data):
    path = data.draw(st.sampled_from(sorted(path for path, c in sound_files().items() if c)))
    content = bytearray(sound_files()[path])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)))
    cut = data.draw(st.booleans())
    started_or_refused({**sound_files(), path: bytes(content[:end] if cut else content)})


def batch_files():
    return sorted(path for path in sound_files() if path.endswith((".log", ".checkpoint")))


@settings(max_examples=300)
@given(st.data())
def test_a_batch_with_a_right_checksum_and_wrong_records_is_read_or_refused(data):
    path = data.draw(st.sampled_from(batch_files()))
    content = bytearray(sound_files()[path])
    span = data.draw(st.sampled_from(list(iter_batches(bytes(content)))))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(span.position + CHECKED_FROM, span.position + span.size - 1))
        content[place] = data.draw(st.integers(0, 255))
    checked = bytes(content[span.position + CHECKED_FROM : span.position + span.size])
    crc_at = span.position + CRC_AT
    content[crc_at : crc_at + 4] = crc32c(checked).to_bytes(4, "big")
    started_or_refused({**sound_files(), path: bytes(content)})


@pytest.mark.parametrize("path", sorted(sound_files()))
def test_a_file_that_is_missing_is_made_again_or_missed_in_one_line(path):
    started_or_refused({one: content for one, content in sound_files().items() if one != path})
