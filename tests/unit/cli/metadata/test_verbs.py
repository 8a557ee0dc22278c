"""The verbs of `moldau metadata` on folders of a store and of Kafka, as a shell runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kits.cli_kit import moldau
from kits.metadata_samples import every_change, lone_partition, topic_id
from kits.sole_voter import KAFKA, committing, created, use
from moldau.cli.frame.profiles import HIDDEN
from moldau.cluster.changes import ConfigChanged, OpaqueRecorded, PartitionCreated, TopicCreated
from moldau.cluster.model import ConfigResource, Partition, ResourceType
from moldau.storage.disk import Disk

NOTE = "moldau: files do not tell how far the log is committed: its last records may not be\n"
INNER = "__cluster_metadata-0"
LOG = f"{INNER}/{0:020d}.log"


@pytest.fixture
def folder(world, tmp_path):
    """The log directory of a store with one of every change."""
    use(
        world,
        Disk(),
        committing(
            every_change(),
            [
                TopicCreated("orders.v2", topic_id(20)),
                PartitionCreated(topic_id(20), lone_partition(0, 7)),
                PartitionCreated(topic_id(20), Partition(1, (7, 9), (), -1)),
                ConfigChanged(ConfigResource(ResourceType.GROUP, "a/b"), "x", "1"),
                ConfigChanged(ConfigResource(ResourceType.BROKER, ""), "ssl.key.password", "hush"),
                ConfigChanged(ConfigResource(77, "new"), "x", "1"),
            ],
        ),
        directories=[str(tmp_path)],
    )
    return tmp_path


def metadata(folder, verb, *arguments):
    """Run a verb that has to succeed, and to note that the log may not be committed."""
    ran = moldau("metadata", verb, *arguments, "--folder", folder)
    assert (ran.status, ran.err) == (0, NOTE)
    return ran


# ls


def test_ls_shows_the_root(folder):
    ran = metadata(folder, "ls")
    assert [row[0] for row in ran.rows] == [
        "brokers/",
        "configs/",
        "controllers/",
        "features/",
        "log/",
        "producer-ids/",
        "quorum/",
        "topics/",
        "topics-by-id/",
        "unknown/",
    ]
    assert "topics/        (2 entries)\n" in ran.out
    assert "brokers/       (1 entry)\n" in ran.out


def test_ls_aligns_names_and_values(folder):
    assert metadata(folder, "ls", "/topics/orders.v2/partitions/1").out == (
        "NAME                 VALUE\n"
        "leader               -\n"
        "leader-epoch         0\n"
        "epoch                0\n"
        "replicas             7,9\n"
        "isr                  -\n"
        "adding               -\n"
        "removing             -\n"
        "eligible             -\n"
        "last-known-leaders   -\n"
        "recovering           no\n"
        "directories          MIGRATING,MIGRATING\n"
    )


def test_ls_prints_rows_and_names_for_programs(folder):
    assert metadata(folder, "ls", "/topics", "-o", "json").data == [
        {"name": "orders.v1", "entries": 3},
        {"name": "orders.v2", "entries": 3},
    ]
    assert metadata(folder, "ls", "topics/orders.v2/partitions/1/replicas", "-o", "json").data == [
        {"name": "replicas", "value": [7, 9]}
    ]
    assert metadata(folder, "ls", "/topics", "-o", "name").out == "orders.v1\norders.v2\n"


# cat


def test_cat_prints_one_value(folder):
    partition = "/topics/orders.v2/partitions/1"
    assert metadata(folder, "cat", f"{partition}/replicas").out == "7,9\n"
    assert metadata(folder, "cat", f"{partition}/leader").out == "-\n"
    assert metadata(folder, "cat", f"{partition}/leader", "-o", "json").data is None
    assert metadata(folder, "cat", "/producer-ids/next").out == "3000\n"


def test_cat_prints_all_of_a_broker(folder):
    assert metadata(folder, "cat", "/brokers/7").data == {
        "epoch": 70,
        "incarnation": "aW5jYXJuYXRpb24tNy4uLg",
        "fenced": True,
        "in-controlled-shutdown": True,
        "rack": "rack-1",
        "endpoints": {
            "A": {"host": "host-a", "port": 65535, "security-protocol": "SSL"},
            "B": {"host": "::1", "port": 9093, "security-protocol": "SASL_SSL"},
        },
        "features": {"metadata.version": [7, 30]},
        "directories": ["0ATQBNAE0ATQBNAE0ATQBA", "0AXQBdAF0AXQBdAF0AXQBQ"],
        "cordoned-directories": ["0ATQBNAE0ATQBNAE0ATQBA"],
    }


def test_cat_prints_all_of_a_partition(folder):
    assert metadata(folder, "cat", "/topics/orders.v1/partitions/1").data == {
        "leader": None,
        "leader-epoch": 1,
        "epoch": 2,
        "replicas": [8, 7],
        "isr": [],
        "adding": [7],
        "removing": [8],
        "eligible": [],
        "last-known-leaders": [],
        "recovering": True,
        "directories": ["0AHQAdAB0AHQAdAB0AHQAQ", "0APQA9AD0APQA9AD0APQAw"],
    }


def test_topics_are_found_by_their_ids_too(folder):
    identity = metadata(folder, "cat", "/topics/orders.v1/id").out.strip()
    assert metadata(folder, "cat", f"/topics-by-id/{identity}").out == "orders.v1\n"


def test_configs_stand_below_what_has_them_and_secrets_are_hidden(folder):
    assert metadata(folder, "cat", "/configs").data == {
        "topics": {"orders.v1": {"retention.ms": "1000"}},
        "brokers": {"<default>": {"min.insync.replicas": "1", "ssl.key.password": HIDDEN}},
        "broker-loggers": {},
        "client-metrics": {},
        "groups": {"a%2Fb": {"x": "1"}, "g": {"share.record.lock": ""}},
        "type-77": {"new": {"x": "1"}},
    }
    assert metadata(folder, "cat", "/configs/groups/a%2Fb/x").out == "1\n"
    assert metadata(folder, "cat", "/topics/orders.v1/configs/retention.ms").out == "1000\n"


def test_records_that_are_kept_unread_are_shown_as_far_as_they_are_known(world, tmp_path):
    known = OpaqueRecorded(22, 0, b"\x05user\x01\x00")
    use(world, Disk(), committing([known, OpaqueRecorded(99, 300, b"?")]), directories=[tmp_path])
    assert metadata(tmp_path, "cat", "/unknown").data == {
        "0": {
            "type": "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
            "key": 22,
            "version": 0,
            "fields": {"name": "user", "mechanism": 1},
        },
        "1": {
            "type": "UNREADABLE",
            "key": 99,
            "version": 300,
            "fields": {"reason": "no metadata record has type 99", "bytes": 5},
        },
    }


def test_the_voters_of_a_folder_of_kafka_have_directories_and_endpoints():
    quorum = metadata(KAFKA / "dynamic", "cat", "/quorum").data
    assert quorum == {
        "leader": 1,
        "epoch": 1,
        "voted": None,
        "kraft-version": 1,
        "voters": {
            "1": {
                "directory": "G4prO2Q-Sbax625Jdy9SDA",
                "endpoints": {"CONTROLLER": {"host": "127.0.0.1", "port": 29195}},
                "kraft-versions": [0, 1],
            }
        },
    }
    controller = metadata(KAFKA / "dynamic", "cat", "/controllers/1").data
    assert controller["endpoints"]["CONTROLLER"]["port"] == 29195
    assert controller["features"]["metadata.version"] == [7, 30]


# tree


def test_tree_draws_what_is_below_a_path(folder):
    assert metadata(folder, "tree", "/configs/groups").out.splitlines() == [
        "/configs/groups",
        "├── a%2Fb",
        "│   └── x: 1",
        "└── g",
        "    └── share.record.lock: -",
    ]
    assert metadata(folder, "tree", "/configs/groups", "-d", "1").out.splitlines() == [
        "/configs/groups",
        "├── a%2Fb (1 entry)",
        "└── g (1 entry)",
    ]


def test_tree_as_json_is_all_there_is(folder):
    everything = metadata(folder, "tree", "-o", "json").data
    assert everything == metadata(folder, "cat", "/").data
    assert everything["features"]["metadata.version"] == 30


# find


def test_find_names_places_with_their_values(folder):
    assert metadata(folder, "find", "leader").out.splitlines() == [
        "/quorum/leader  1",
        "/topics/orders.v1/partitions/0/leader  7",
        "/topics/orders.v1/partitions/1/leader  -",
        "/topics/orders.v2/partitions/0/leader  7",
        "/topics/orders.v2/partitions/1/leader  -",
    ]
    assert metadata(folder, "find", "/topics/orders.v?").out.splitlines() == [
        "/topics/orders.v1  (3 entries)",
        "/topics/orders.v2  (3 entries)",
    ]


def test_find_looks_for_values_too(folder):
    found = metadata(folder, "find", "/topics/*/partitions/*/leader", "--value", "-", "-o", "name")
    assert found.out.splitlines() == [
        "/topics/orders.v1/partitions/1/leader",
        "/topics/orders.v2/partitions/1/leader",
    ]
    rows = metadata(folder, "find", "replicas", "--value", "7,*", "-o", "json").data
    assert rows == [
        {"path": "/topics/orders.v1/partitions/0/replicas", "value": [7, 8]},
        {"path": "/topics/orders.v2/partitions/1/replicas", "value": [7, 9]},
    ]


def test_to_find_nothing_is_refused(folder):
    ran = moldau("metadata", "find", "nothing", "--folder", folder)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "moldau: nothing matches 'nothing'\n"
    ran = moldau("metadata", "find", "leader", "--value", "9*", "--folder", folder)
    assert "nothing matches 'leader' with a value that matches '9*'" in ran.err


# log


def test_log_prints_a_record_a_line(world, tmp_path):
    use(world, Disk(), committing([created(1)]), directories=[str(tmp_path)])
    lines = metadata(tmp_path, "log").out.splitlines()
    assert lines[0].split() == ["OFFSET", "EPOCH", "TYPE", "FIELDS"]
    assert lines[1].split()[:3] == ["0", "1", "LEADER_CHANGE"]
    assert 'name="Bootstrap records"' in lines[2]
    assert lines[-1] == (
        f"{len(lines) - 2:>8}      1  TOPIC_RECORD{' ' * 24}"
        "name=topic-1 topicId=AAAAAAAAAAAAAAAAAAAAAQ"
    )


def test_log_says_what_kafkas_decoder_says(folder):
    shown = [json.loads(line) for line in metadata(folder, "log", "-o", "json").out.splitlines()]
    dumped = moldau("log", "dump", folder / LOG, "--cluster-metadata-decoder").out.splitlines()
    decoded = [line for line in dumped if "payload: {" in line]
    assert [record["offset"] for record in shown] == list(range(len(shown)))
    assert len(decoded) > 30
    hidden = 0
    for line in decoded:
        record, payload = shown[int(line.split()[2])], json.loads(line.partition("payload: ")[2])
        assert (record["type"], record["version"]) == (payload["type"], payload["version"])
        if record["fields"] != payload["data"]:
            assert record["fields"] == payload["data"] | {"value": HIDDEN}
            hidden += 1
    assert hidden == 1


def test_log_prints_a_stretch_of_offsets(folder):
    def offsets(*arguments):
        out = metadata(folder, "log", "-o", "json", *arguments).out
        return [json.loads(line)["offset"] for line in out.splitlines()]

    assert offsets("--from", "5", "--until", "8") == [5, 6, 7]
    assert offsets("--until", "2") == [0, 1]
    assert offsets("--from", "1000000") == []


def test_log_of_a_snapshot_prints_its_records():
    path = KAFKA / "snapshot" / INNER / f"{45:020d}-{1:010d}.checkpoint"
    ran = moldau("metadata", "log", "--folder", path)
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert "SNAPSHOT_HEADER" in lines[1]
    assert "SNAPSHOT_FOOTER" in lines[-1]


def test_log_prints_what_comes_before_damage(folder):
    data = bytearray((folder / LOG).read_bytes())
    intact = len(metadata(folder, "log").out.splitlines())
    data[-1] ^= 1
    (folder / LOG).write_bytes(data + data[:200])
    ran = moldau("metadata", "log", "--folder", folder)
    assert ran.status == 1
    assert 10 < len(ran.out.splitlines()) < intact
    assert f"{folder / LOG}: no whole batch at position" in ran.err


# What cannot be


def test_damage_is_one_line_that_says_how_to_look_at_the_rest(folder):
    data = bytearray((folder / LOG).read_bytes())
    data[70] ^= 1
    (folder / LOG).write_bytes(data)
    ran = moldau("metadata", "ls", "--folder", folder)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        f"moldau: {folder / LOG}: no whole batch at position 0: its checksum differs, and more"
        " follows it; `moldau metadata log` prints what can be read\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "/topcs"),
        ("cat", "/topics/none"),
        ("tree", "/quorum/leader/x"),
        ("ls", "\udcff"),
        ("find", "leader", "--value", "\udcff"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(folder, arguments):
    ran = moldau("metadata", *arguments, "--folder", folder)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("moldau: ")
    assert ran.err.count("\n") == 1


def test_without_a_folder_that_of_a_broker_started_here_is_meant(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert "there is no file or folder moldau-data: name" in moldau("metadata", "ls").err
    Path("moldau-data").symlink_to(folder)
    assert "topics/" in moldau("metadata", "ls").out


def test_a_torn_tail_is_noted(folder):
    with (folder / LOG).open("ab") as file:
        file.write(b"torn")
    ran = moldau("metadata", "ls", "--folder", folder)
    assert ran.status == 0
    assert ran.err.startswith(NOTE)
    assert f"moldau: {folder / LOG}: no whole batch at position" in ran.err


# Completing


def completed(*words):
    environ = {
        "_MOLDAU_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["moldau", "metadata", *map(str, words)]),
        "COMP_CWORD": str(len(words) + 1),
    }
    return [line.removeprefix("plain,") for line in moldau(environ=environ).out.splitlines()]


def test_verbs_and_paths_are_completed(folder):
    assert completed("fi") == ["find"]
    assert completed("ls", "--folder", folder, "/to") == ["/topics/", "/topics-by-id/"]
    assert completed("cat", "--folder", folder, "/topics/orders.v1/partitions/0/le") == [
        "/topics/orders.v1/partitions/0/leader",
        "/topics/orders.v1/partitions/0/leader-epoch",
    ]


def test_what_cannot_be_read_is_not_completed_and_not_complained_about(folder):
    assert completed("ls", "--folder", folder / "none", "/to") in ([], [""])
    (folder / LOG).write_bytes(bytes(3 << 20))
    assert completed("ls", "--folder", folder, "/to") in ([], [""])
