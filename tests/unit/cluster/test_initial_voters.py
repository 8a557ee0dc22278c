"""The first voters of a quorum: as its nodes are formatted with, and as Kafka writes them."""

from __future__ import annotations

import pytest

from kits.sole_voter import KAFKA, on_disk, put, use
from moldau.base.errors import ConfigError, StorageError
from moldau.base.files import read_whole
from moldau.base.ids import uuid_bytes, uuid_text
from moldau.cluster.formatting import identify_directories
from moldau.cluster.initial_voters import (
    VOTERS_MAX,
    parse_initial_voters,
    read_initial_voters,
    voter_texts,
    write_initial_voters,
)
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterEndpoint
from moldau.cluster.snapshots import read_snapshot
from moldau.storage.checkpoints import read_meta_properties
from moldau.storage.disk import Disk

CLUSTER = "mC6VnLVsTPmWPNvJOyeUFA"
IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA")
ONE = f"1@a.example:9093:{IDS[0]}"
THREE = f"{ONE},2@b-2:9093:{IDS[1]},3@[::1]:9094:{IDS[2]}"
FOLDER = "/data/__cluster_metadata-0"
CHECKPOINT = f"{FOLDER}/{0:020d}-{0:010d}.checkpoint"


def voters_of(text=THREE):
    return parse_initial_voters(text, "CONTROLLER")


def formatted(disk, world, voters=None, directories=("/data", "/more"), node_id=1, **options):
    return identify_directories(
        disk, directories, "/data", node_id, world.random("ids"), 5, CLUSTER, voters=voters,
        **options,
    )  # fmt: skip


# As a text


def test_voters_are_read_with_their_directories_and_addresses():
    voters = voters_of(f" {THREE} , ")
    first, _, third = voters.voters
    assert [key.node for key in voters.keys] == [1, 2, 3]
    endpoint = VoterEndpoint("CONTROLLER", "a.example", 9093)
    assert first == Voter(ReplicaKey(NodeId(1), uuid_bytes(IDS[0])), (endpoint,), (0, 1))
    assert third.endpoints == (VoterEndpoint("CONTROLLER", "::1", 9094),)
    assert ",".join(voter_texts(voters)) == THREE


def test_the_order_in_which_voters_are_named_does_not_matter():
    assert voters_of(",".join(reversed(THREE.split(",")))) == voters_of()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "0 voters are named"),
        (" , ", "0 voters are named"),
        (f"{THREE},2@c:1:{IDS[0]}", "node 2 is named twice"),
        (f"-1@a:1:{IDS[0]}", "is not of the form ID@HOST:PORT:DIRECTORY_ID"),
        (f"2147483648@a:1:{IDS[0]}", "is not of the form"),
        (f"1@:1:{IDS[0]}", "is not of the form"),
        (f"a:1:{IDS[0]}", "is not of the form"),
        (f"1@a:0:{IDS[0]}", "is not of the form"),
        (f"1@a:65536:{IDS[0]}", "is not of the form"),
        (f"1@{'a' * 256}:1:{IDS[0]}", "is not of the form"),
        ("1@a:1", "is not of the form"),
        ("1@a:1:", "is not of the form"),
        (f"1@a:1:{IDS[0]}=", "is not of the form"),
        (f"1@a:1:{'A' * 22}", f"{'A' * 22} is no id that a directory can have"),
        (f"1@a:1:{uuid_text((99).to_bytes(16, 'big'))}", "is no id that a directory can have"),
        (
            ",".join(f"{node}@a:1:{IDS[0]}" for node in range(VOTERS_MAX + 1)),
            f"{VOTERS_MAX + 1} voters are named; there may be 1 to {VOTERS_MAX}",
        ),
    ],
)
def test_other_texts_are_refused_and_say_why(text, problem):
    with pytest.raises(ConfigError) as caught:
        voters_of(text)
    assert problem in str(caught.value)


def test_as_many_voters_as_there_may_be_fit_into_a_snapshot(disk):
    text = ",".join(f"{node}@{'a' * 255}:65535:{IDS[0]}" for node in range(VOTERS_MAX))
    disk.make_folder(FOLDER)
    write_initial_voters(disk, "/data", voters_of(text), 5)
    assert read_initial_voters(disk, "/data") == voters_of(text)


# In a folder


def test_kafkas_snapshot_is_read_and_ours_says_the_same(disk):
    kafkas = str(KAFKA / "dynamic")
    voters = read_initial_voters(Disk(), kafkas)
    identity = read_meta_properties(Disk(), kafkas)
    assert list(voter_texts(voters)) == [f"1@127.0.0.1:29195:{uuid_text(identity.directory_id)}"]
    disk.make_folder(FOLDER)
    write_initial_voters(disk, "/data", parse_initial_voters(*voter_texts(voters), "CONTROLLER"), 5)
    theirs = read_snapshot(Disk(), f"{kafkas}/__cluster_metadata-0/{CHECKPOINT.rpartition('/')[2]}")
    assert read_snapshot(disk, CHECKPOINT) == theirs
    assert theirs.values == []


def test_a_voter_is_formatted_under_the_id_that_the_others_know(disk, world):
    identity = formatted(disk, world, voters_of(), node_id=2)
    assert identity.metadata_directory_id == uuid_bytes(IDS[1])
    assert identity.directory_ids["/data"] == uuid_bytes(IDS[1])
    assert identity.directory_ids["/more"] not in map(uuid_bytes, IDS)
    assert read_meta_properties(disk, "/data").directory_id == uuid_bytes(IDS[1])
    assert read_initial_voters(disk, "/data") == voters_of()
    assert disk.names("/data") == [
        "__cluster_metadata-0",
        "bootstrap.checkpoint",
        "meta.properties",
    ]
    assert disk.names("/more") == ["meta.properties"]
    # The id is in the folder now.
    assert formatted(disk, world, node_id=2) == identity


def test_a_node_that_does_not_vote_gets_the_same_voters_and_an_id_of_its_own(disk, world):
    identity = formatted(disk, world, voters_of(), node_id=9)
    assert identity.metadata_directory_id not in map(uuid_bytes, IDS)
    assert read_initial_voters(disk, "/data") == voters_of()


def test_a_folder_whose_voters_are_in_the_settings_names_none(disk, world):
    formatted(disk, world)
    assert read_initial_voters(disk, "/data") is None
    assert disk.names("/data") == ["bootstrap.checkpoint", "meta.properties"]


@pytest.mark.parametrize("voters", [voters_of(ONE), None])
@pytest.mark.parametrize("left", [CHECKPOINT, f"{CHECKPOINT}.part"])
def test_a_folder_whose_formatting_was_interrupted_is_formatted_anew(disk, world, voters, left):
    formatted(disk, world, voters_of())
    disk.remove("/data/meta.properties")
    put(disk, left, read_whole(disk, CHECKPOINT))
    if left != CHECKPOINT:
        disk.remove(CHECKPOINT)
    identity = formatted(disk, world, voters)
    assert (identity.metadata_directory_id == uuid_bytes(IDS[0])) == (voters is not None)
    assert read_initial_voters(disk, "/data") == voters
    assert not disk.exists(f"{CHECKPOINT}.part")


def test_a_formatted_folder_outlives_a_power_cut(disk, world):
    formatted(disk, world, voters_of())
    survived = disk.power_cut()
    assert read_initial_voters(survived, "/data") == voters_of()
    assert read_meta_properties(survived, "/data").directory_id == uuid_bytes(IDS[0])


def test_a_damaged_snapshot_is_named(disk, world):
    formatted(disk, world, voters_of())
    content = bytearray(read_whole(disk, CHECKPOINT))
    content[-80] ^= 1
    put(disk, CHECKPOINT, bytes(content))
    with pytest.raises(StorageError, match=r"00000\.checkpoint: is damaged"):
        read_initial_voters(disk, "/data")


# Who may format what


@pytest.mark.parametrize("directories", [("/data",), ("/data", "/more")])
def test_a_voter_among_others_does_not_format_a_lost_disk_by_itself(disk, world, directories):
    for other in directories[1:]:
        identify_directories(disk, [other], other, 1, world.random("ids"), 5, CLUSTER)
    before = on_disk(disk, "")
    with pytest.raises(ConfigError, match=r"/data is not formatted\. .*\(moldau kafka-storage"):
        formatted(disk, world, directories=directories, formats_metadata=False)
    assert on_disk(disk, "") == before
    formatted(disk, world, directories=directories)
    formatted(disk, world, directories=(*directories, "/third"), formats_metadata=False)
    assert read_meta_properties(disk, "/third").cluster_id == CLUSTER


def test_the_only_voter_goes_on_with_a_folder_that_names_it(disk, world):
    formatted(disk, world, voters_of(ONE), directories=("/data",))
    versions = []

    async def look(store):
        versions.append((store.kraft_version, store.metadata_directory_id))

    use(world, disk, look, snapshot_after_bytes=1)
    use(world, disk, look)
    assert versions == [(1, uuid_bytes(IDS[0]))] * 2


def test_one_of_several_voters_does_not_go_on_alone(disk, world):
    formatted(disk, world, voters_of(), directories=("/data",))
    before = on_disk(disk)
    with pytest.raises(ConfigError, match="belongs to a quorum of the nodes 1, 2, 3"):
        use(world, disk)
    assert on_disk(disk) == before
