"""Log directories of Kafka on ZooKeeper: a broker on ZooKeeper takes them, and Kafka can again."""

from __future__ import annotations

import random

import pytest

from moldau.base.errors import ConfigError
from moldau.base.files import read_whole, write_atomically
from moldau.base.ids import uuid_text
from moldau.cluster.formatting import identify_directories
from moldau.sim.disk import SimDisk
from moldau.storage.checkpoints import MetaProperties, read_meta_properties, write_meta_properties

CLUSTER = "mC6VnLVsTPmWPNvJOyeUFA"
OTHER_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY_ID = bytes(range(1, 17))
COMMENTS = "#\n#Wed Nov 18 10:00:00 UTC 2026\n"


def identified(disk, *directories, on_zookeeper=True):
    return identify_directories(
        disk,
        directories or ["/data"],
        "/data",
        1,
        random.Random(1),
        0,
        CLUSTER,
        founds_cluster=False,
        on_zookeeper=on_zookeeper,
    )


def disk_with(text, path="/data"):
    disk = SimDisk(random.Random(1))
    disk.make_folder(path)
    write_atomically(disk, f"{path}/meta.properties", text.encode())
    return disk


@pytest.mark.parametrize(
    "text",
    [
        f"{COMMENTS}cluster.id={CLUSTER}\nversion=0\nbroker.id=1\n",
        f"version=0\nbroker.id=1\ncluster.id={CLUSTER}\n",
        "version=0\nbroker.id=1\n",
        "broker.id=1\n",
        "version=0\n",
    ],
)
def test_a_folder_of_kafka_on_zookeeper_is_taken_and_keeps_its_version(text):
    disk = disk_with(text)
    identity = identified(disk)
    (directory_id,) = identity.directory_ids.values()
    assert (identity.cluster_id, identity.node_id) == (CLUSTER, 1)
    assert read_meta_properties(disk, "/data") == MetaProperties(0, CLUSTER, 1, directory_id)
    assert identified(disk) == identity


def test_what_kafka_needs_is_in_the_file_as_kafka_writes_it():
    disk = disk_with(f"version=0\nbroker.id=1\ncluster.id={CLUSTER}\nx=y\n")
    identity = identified(disk)
    lines = read_whole(disk, "/data/meta.properties").decode().splitlines()
    directory_id = uuid_text(identity.directory_ids["/data"])
    assert sorted(line for line in lines if not line.startswith("#")) == [
        "broker.id=1",
        f"cluster.id={CLUSTER}",
        f"directory.id={directory_id}",
        "version=0",
        "x=y",
    ]


def test_a_new_folder_gets_the_version_that_kafka_on_zookeeper_reads():
    disk = SimDisk(random.Random(1))
    identity = identified(disk, "/data", "/more")
    for path, directory_id in identity.directory_ids.items():
        assert read_meta_properties(disk, path) == MetaProperties(0, CLUSTER, 1, directory_id)


def test_a_folder_in_the_form_of_kraft_stays_as_it_is():
    disk = SimDisk(random.Random(1))
    disk.make_folder("/data")
    before = MetaProperties(1, CLUSTER, 1, DIRECTORY_ID)
    write_meta_properties(disk, "/data", before)
    assert identified(disk).metadata_directory_id == DIRECTORY_ID
    assert read_meta_properties(disk, "/data") == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"version=0\nbroker.id=2\ncluster.id={CLUSTER}\n",
            "/data/meta.properties belongs to broker.id=2, not to broker.id=1",
        ),
        (
            f"version=0\nbroker.id=1\ncluster.id={OTHER_CLUSTER}\n",
            f"belongs to cluster.id={OTHER_CLUSTER}, but /cluster/id in ZooKeeper says {CLUSTER}",
        ),
    ],
)
def test_a_folder_of_somebody_else_is_refused_and_left_alone(text, problem):
    disk = disk_with(text)
    before = read_meta_properties(disk, "/data")
    with pytest.raises(ConfigError, match=problem):
        identified(disk, "/data", "/more")
    assert read_meta_properties(disk, "/data") == before
    assert not disk.exists("/more")


def test_a_broker_without_zookeeper_refuses_it():
    disk = disk_with(f"version=0\nbroker.id=1\ncluster.id={CLUSTER}\n")
    with pytest.raises(ConfigError, match="from a broker on ZooKeeper"):
        identified(disk, on_zookeeper=False)
