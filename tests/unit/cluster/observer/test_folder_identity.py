"""Whose folder it is: a new one is formatted, one of another cluster is refused."""

from __future__ import annotations

import pytest

from kits.observer_kit import catch_up, following, run
from kits.sole_voter import on_disk
from moldau.base.errors import ConfigError
from moldau.storage.checkpoints import read_meta_properties


def test_a_fresh_folder_without_a_cluster_id_is_refused_and_stays_fresh(cluster, disk):
    async def work():
        observer = cluster.new_observer(disk, cluster_id=None)
        with pytest.raises(ConfigError, match="belongs to no cluster yet: format it"):
            await observer.start()
        assert not disk.exists("/data")

    run(cluster, work)


def test_a_fresh_folder_is_formatted_for_the_cluster_of_the_settings(cluster, disk):
    async def work():
        await catch_up(cluster, disk)
        again = await following(cluster, disk, cluster_id=None)
        assert again.identity.cluster_id == cluster.voter.identity.cluster_id
        await again.close()

    run(cluster, work)
    assert disk.names("/data") == ["__cluster_metadata-0", "meta.properties"]
    assert read_meta_properties(disk, "/data").node_id == 2


def test_a_folder_of_another_cluster_is_refused_before_anything_is_touched(cluster, disk):
    async def work():
        await catch_up(cluster, disk)
        before = on_disk(disk)
        with pytest.raises(ConfigError, match=r"belongs to cluster\.id"):
            cluster.new_observer(disk, cluster_id="another")
        assert on_disk(disk) == before

    run(cluster, work)


def test_a_voter_of_another_cluster_is_refused_with_one_line(cluster, disk, caplog):
    async def work():
        observer = cluster.new_observer(disk, cluster_id="another")
        failed = []
        observer.on_failed(failed.append)
        await observer.start()
        with pytest.raises(ConfigError, match="the controller to another cluster"):
            await observer.caught_up()
        assert len(failed) == 1
        assert not observer.image.topics
        await observer.close()

    run(cluster, work)
    assert "another cluster" not in caplog.text  # who was told says it
