"""Kafka's own tool reads the metadata folder of a broker that observes: log and snapshots."""

from __future__ import annotations

import asyncio
import random
import re
from types import SimpleNamespace

import pytest

from kafka_harness.distribution import CURRENT
from kits.metadata_samples import every_change
from kits.observed_cluster import ObservedCluster
from kits.sole_voter import commit, created
from moldau.base.clock import SystemClock
from moldau.storage.disk import Disk

pytestmark = pytest.mark.java(CURRENT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The metadata folder of an observer that has written a snapshot and followed a restart."""
    root = tmp_path_factory.mktemp("observer")
    world = SimpleNamespace(clock=SystemClock(), random=random.Random)
    cluster = ObservedCluster(world, Disk(), voter_directory=f"{root}/voter")

    async def life():
        await cluster.start_voter()
        observer = cluster.new_observer(
            Disk(), directories=[f"{root}/data"], snapshot_after_bytes=3_000
        )
        await observer.start()
        for change in every_change():
            await commit(cluster.voter, cluster.voter.image.version, [change])
        await cluster.stop_voter()
        await cluster.start_voter()
        for number in range(60):
            await commit(cluster.voter, cluster.voter.image.version, [created(number)])
        await cluster.caught_up(observer)
        assert observer.image == cluster.voter.image
        await observer.close()
        await cluster.stop_voter()

    asyncio.run(life())
    return root / "data" / "__cluster_metadata-0"


def test_kafkas_decoder_reads_the_log(folder, dump):
    logs = sorted(folder.glob("*.log"))
    said = dump("--files", ",".join(map(str, logs)), "--cluster-metadata-decoder")
    assert "isvalid: false" not in said.stdout
    topics = re.findall(r'"type":"TOPIC_RECORD".*?"name":"([^"]+)"', said.stdout)
    assert topics[-1] == "topic-59"


def test_kafkas_decoder_reads_the_snapshot(folder, dump):
    snapshots = sorted(folder.glob("*.checkpoint"))
    said = dump("--files", ",".join(map(str, snapshots)), "--cluster-metadata-decoder")
    assert said.stdout.count("SnapshotHeader") == len(snapshots) > 0
    assert said.stdout.count("SnapshotFooter") == len(snapshots)
    assert '"type":"TOPIC_RECORD"' in said.stdout
