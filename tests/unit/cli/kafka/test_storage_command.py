"""`kafka-storage format` with voters that the log names: what is written, and what is refused."""

from __future__ import annotations

import re

import pytest

from kits.kafka_command_kit import ours
from moldau.base.ids import uuid_text
from moldau.cluster.initial_voters import read_initial_voters, voter_texts
from moldau.storage.checkpoints import read_meta_properties
from moldau.storage.disk import Disk

CLUSTER = "mC6VnLVsTPmWPNvJOyeUFA"
ID = "JEXY6aqzQY-32P5TStzaFg"
OTHER_ID = "MvDxzVmcRsaTz33bUuRU6A"
BOTH = f"1@h-1:9093:{ID},2@h-2:9093:{OTHER_ID}"
QUORUM = "controller.quorum.bootstrap.servers=h-1:9093,h-2:9093"
CHOOSE = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the"
    " following: --standalone, --initial-controllers, or --no-initial-controllers."
)

BOTH_WAYS = (
    "You cannot specify controller.quorum.voters and format the node with --initial-controllers or"
    " --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and"
    " specify controller.quorum.bootstrap.servers instead."
)
NOT_NAMED = (
    "--initial-controllers does not name node 3: format a controller that joins the others later"
    " with --no-initial-controllers"
)


@pytest.fixture
def storage(tmp_path):
    """Run the command on a file with these lines."""

    def run(action, *words, lines=(), roles="broker,controller", node_id=1):
        controller = ",CONTROLLER://h-1:9093" if "controller" in roles else ""
        file = tmp_path / "server.properties"
        settings = (
            f"process.roles={roles}", f"node.id={node_id}", f"log.dirs={tmp_path}/a,{tmp_path}/b",
            f"listeners=PLAINTEXT://127.0.0.1:9092{controller}",
            "controller.listener.names=CONTROLLER", *lines,
        )  # fmt: skip
        file.write_text("\n".join(settings))
        words = ("-t", CLUSTER, *words) if action == "format" else words
        return ours("kafka-storage", action, *words, "-c", file)

    return run


def voters_in(folder):
    voters = read_initial_voters(Disk(), str(folder))
    return None if voters is None else list(voter_texts(voters))


def test_a_controller_is_formatted_as_one_of_the_first_voters(storage, tmp_path):
    said = storage("format", "--initial-controllers", BOTH, lines=[QUORUM])
    assert (said.stderr, said.status) == ("", 0)
    assert said.lines == [
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
    ]
    assert voters_in(tmp_path / "a") == BOTH.split(",")
    found = read_meta_properties(Disk(), str(tmp_path / "a"))
    assert (found.cluster_id, uuid_text(found.directory_id)) == (CLUSTER, ID)
    assert (tmp_path / "a" / "bootstrap.checkpoint").exists()
    info = storage("info", lines=[QUORUM])
    assert info.status == 0
    assert info.stdout.endswith(
        f"Found first voters:\n  1@h-1:9093:{ID}\n  2@h-2:9093:{OTHER_ID}\n\n"
    )


def test_a_controller_alone_draws_the_id_of_its_directory(storage, tmp_path):
    line = "controller.quorum.bootstrap.servers=h-1:9093"
    assert storage("format", "--standalone", lines=[line]).status == 0
    drawn = uuid_text(read_meta_properties(Disk(), str(tmp_path / "a")).directory_id)
    assert voters_in(tmp_path / "a") == [f"1@h-1:9093:{drawn}"]


def test_a_voter_alone_is_reached_where_it_is_advertised(storage, tmp_path):
    lines = (QUORUM, "advertised.listeners=PLAINTEXT://p:1,CONTROLLER://public:29093")
    assert storage("format", "-s", lines=lines).status == 0
    (voter,) = voters_in(tmp_path / "a")
    assert voter.startswith("1@public:29093:")


def test_a_controller_that_joins_later_knows_no_voters(storage, tmp_path):
    said = storage("format", "--no-initial-controllers", lines=[QUORUM])
    assert said.lines[0].startswith("Formatting metadata directory ")
    assert voters_in(tmp_path / "a") is None
    assert (tmp_path / "a" / "bootstrap.checkpoint").exists()
    assert "first voter" not in storage("info", lines=[QUORUM]).stdout


def test_a_broker_takes_the_list_that_all_nodes_take(storage, tmp_path):
    said = storage("format", "-I", BOTH, lines=[QUORUM], roles="broker", node_id=7)
    assert said.lines[0].startswith("Formatting dynamic metadata directory ")
    assert voters_in(tmp_path / "a") == BOTH.split(",")
    assert uuid_text(read_meta_properties(Disk(), str(tmp_path / "a")).directory_id) not in BOTH


@pytest.mark.parametrize("roles", ["broker,controller", "broker"])
def test_voters_of_the_settings_are_not_written(storage, tmp_path, roles):
    lines = ["controller.quorum.voters=1@h-1:9093,2@h-2:9093,3@h-3:9093"]
    node_id = 1 if "controller" in roles else 4
    said = storage("format", lines=lines, roles=roles, node_id=node_id)
    assert (said.stderr, said.status) == ("", 0)
    assert voters_in(tmp_path / "a") is None
    assert (tmp_path / "a" / "bootstrap.checkpoint").exists()


def test_a_broker_that_stands_alone_has_nothing_to_choose(storage, tmp_path):
    assert storage("format").status == 0
    assert voters_in(tmp_path / "a") is None


@pytest.mark.parametrize(
    ("words", "lines", "options", "problem"),
    [
        ((), [QUORUM], {}, CHOOSE),
        ((), ["controller.quorum.bootstrap.servers=h-1:9093"], {}, CHOOSE),
        (
            ("--standalone", "-N"), [QUORUM], {},
            'Option "[standalone]" can\'t be used with option "[no-initial-controllers]"',
        ),
        (
            ("--standalone", "-I", BOTH), [QUORUM], {},
            'Option "[standalone]" can\'t be used with option "[initial-controllers]"',
        ),
        (
            ("-N", "-I", BOTH), [QUORUM], {},
            'Option "[initial-controllers]" can\'t be used with option "[no-initial-controllers]"',
        ),
        (
            ("-I", BOTH), ["controller.quorum.voters=1@h-1:9093"], {},
            BOTH_WAYS,
        ),
        (
            ("-s",), [QUORUM], {"roles": "broker"},
            "You can only use --standalone on a controller.",
        ),
        (
            ("-I", BOTH), [QUORUM], {"node_id": 3},
            NOT_NAMED,
        ),
        (
            ("-I", f"{BOTH},1@c:1:{ID}"), [QUORUM], {},
            "--initial-controllers: node 1 is named twice",
        ),
        (
            ("-I", "1@h-1:9093"), [QUORUM], {},
            "--initial-controllers: '1@h-1:9093' is not of the form ID@HOST:PORT:DIRECTORY_ID",
        ),
        (
            ("-s",), ["listeners=PLAINTEXT://h:1,CONTROLLER://h:0"], {},
            "listeners has no CONTROLLER with a port: other nodes reach the voter there",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_is_written(
    storage, tmp_path, words, lines, options, problem
):
    said = storage("format", *words, lines=lines, **options)
    assert (said.stdout, said.status) == ("", 1)
    assert said.stderr.partition("\n")[0] == problem
    assert [path.name for path in tmp_path.iterdir()] == ["server.properties"]


def test_a_cluster_in_zookeeper_has_no_voters(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(f"zookeeper.connect=h:2181\nlog.dirs={tmp_path}/a\n")
    said = ours("kafka-storage", "format", "-t", CLUSTER, "-I", BOTH, "-c", file)
    assert said.status == 1
    assert "Formatting is only supported for clusters in KRaft mode" in said.stderr


def test_voters_need_the_name_of_a_listener(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path}/a\n")
    said = ours("kafka-storage", "format", "-t", CLUSTER, "-s", "-c", file)
    assert (said.stdout, said.status) == ("", 1)
    assert said.stderr.startswith("controller.listener.names is not set")


def test_a_damaged_list_of_voters_is_a_problem_of_the_directory(storage, tmp_path):
    storage("format", "-I", BOTH, lines=[QUORUM])
    (checkpoint,) = (tmp_path / "a").glob("__cluster_metadata-0/*.checkpoint")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    said = storage("info", lines=[QUORUM])
    assert said.status == 1
    assert re.search(rf"Found problem:\n  {re.escape(str(checkpoint))}: ", said.stdout)
