"""The cluster-wide `min.insync.replicas`: stated as the settings say, put right where it was not.

An earlier Moldau stated 1 in the first batch of its log, whatever the settings said.
"""

import pytest

from kits.sole_voter import FOLDER, KAFKA, LOG, all_records, committing, leader_change, use
from moldau.base.files import read_whole
from moldau.cluster.changes import ConfigChanged, FeatureLevelSet
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.configs import EVERY_BROKER, MIN_INSYNC_REPLICAS
from moldau.cluster.formatting import FIRST_FEATURES, METADATA_LEVEL
from moldau.cluster.journal import Journal
from moldau.cluster.record_codec import encode_change
from moldau.records.builder import BatchBuilder
from moldau.records.control import ControlType, control_batch
from moldau.storage.disk import Disk


def minimum(image):
    return image.config(EVERY_BROKER).get(MIN_INSYNC_REPLICAS)


def minimum_set_to(value):
    return ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, value)


def folder_of_an_earlier_version(world, disk, *later):
    """Leave a log that begins as an earlier Moldau began it."""
    use(world, disk)
    for name in disk.names(FOLDER):
        disk.remove(f"{FOLDER}/{name}")
    journal = Journal(disk, FOLDER)
    journal.load(0)
    journal.resume(0)
    journal.begin_epoch(1)
    leader = control_batch(
        ControlType.LEADER_CHANGE, leader_change(1), 0, base_offset=0, leader_epoch=1
    )
    journal.append(leader, 1)
    builder = BatchBuilder(base_offset=1, leader_epoch=1)
    for change in (*FIRST_FEATURES, minimum_set_to("1")):
        builder.append(0, None, encode_change(change, METADATA_LEVEL))
    journal.append(builder.build(), 1 + builder.count)
    journal.sync()
    journal.close()
    if later:
        use(world, disk, committing(*([change] for change in later)))


def test_a_new_cluster_states_what_the_settings_say_and_keeps_it(world, disk):
    assert minimum(use(world, disk, min_insync_replicas=2)) == "2"
    assert minimum(use(world, disk, min_insync_replicas=3)) == "2", "as Kafka: the first counts"


def test_a_new_cluster_with_the_default_is_not_taken_for_an_earlier_one(world, disk):
    assert minimum(use(world, disk)) == "1"
    assert minimum(use(world, disk, min_insync_replicas=2)) == "1"


def test_what_an_earlier_version_assumed_is_put_right_once(world, disk):
    folder_of_an_earlier_version(world, disk)
    assert minimum(use(world, disk, min_insync_replicas=2)) == "2"
    assert minimum(use(world, disk, min_insync_replicas=3)) == "2"


def test_an_earlier_folder_whose_settings_say_the_same_gets_no_record(world, disk):
    folder_of_an_earlier_version(world, disk)
    before = len(list(all_records(read_whole(disk, LOG))))
    use(world, disk)
    assert len(list(all_records(read_whole(disk, LOG)))) == before + 1, "the new leader alone"


@pytest.mark.parametrize("later", [("2", "1"), (None, "1"), ("4",)])
def test_what_a_user_set_stays(world, disk, later):
    folder_of_an_earlier_version(world, disk, *map(minimum_set_to, later))
    assert minimum(use(world, disk, min_insync_replicas=2)) == later[-1]


def test_kafkas_own_record_stays(world, tmp_path):
    values = [one.value for _, one in all_records((KAFKA / "static" / LOG[6:]).read_bytes())]
    watch = ClusterMinimum(2)
    watch.saw(1, values[1:10])
    image = use(world, Disk(), directories=(str(tmp_path),))
    assert watch.corrected(image) == []


def test_a_first_batch_that_a_snapshot_covers_tells_nothing(world, tmp_path):
    watch = ClusterMinimum(2)
    watch.saw(1, [])
    watch.saw(5, [encode_change(FeatureLevelSet("group.version", 1), METADATA_LEVEL)])
    image = use(world, Disk(), directories=(str(tmp_path),))
    assert watch.corrected(image) == []
