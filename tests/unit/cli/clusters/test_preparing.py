"""A cluster's folder before its start: made once, then taken as it is."""

from __future__ import annotations

import json
import re
import shutil
import socket

import pytest

from kits.cli_kit import moldau
from kits.local_cluster import free_base_port
from moldau.base.errors import ConfigError, UserError
from moldau.base.properties import parse_properties
from moldau.cli.clusters.layout import (
    CONTROLLER_OFFSET,
    ZOOKEEPER_OFFSET,
    ZooKeeperChoice,
    default_controller_count,
    find_cluster,
)
from moldau.cli.clusters.preparing import (
    check_settings,
    check_zookeeper,
    claim,
    prepare,
    refuse_taken_ports,
    starting,
)
from moldau.cli.clusters.properties import metrics_of


def prepared(path, brokers=None, port=None, overrides=(), zookeeper=None, controllers=None):
    with starting(path):
        cluster = claim(path, brokers, port, zookeeper, controllers)
        prepare(cluster, dict(overrides))
    return cluster


def identity(broker):
    return parse_properties((broker.data / "meta.properties").read_text())


@pytest.mark.parametrize(("brokers", "controllers"), [(2, None), (3, None), (2, 1), (2, 3)])
def test_every_directory_belongs_to_the_same_cluster(tmp_path, brokers, controllers):
    cluster = prepared(tmp_path / "a" / "b", brokers, 19092, controllers=controllers)
    assert len(cluster.voters) == (controllers or default_controller_count(brokers))
    assert len(cluster.nodes) == brokers + (controllers or 0)
    assert find_cluster(tmp_path / "a" / "b") == cluster
    for node in cluster.nodes:
        told = identity(node)
        assert (told["cluster.id"], told["node.id"]) == (
            cluster.shape.cluster_id, str(node.node_id),
        )  # fmt: skip
        # Only who may be the first controller decides on the first features.
        assert (node.data / "bootstrap.checkpoint").exists() == node.is_voter


def test_files_that_cannot_be_written_are_named(tmp_path):
    with starting(tmp_path / "shape"):
        cluster = claim(tmp_path / "shape", 3, 19092)
        (cluster.path / "cluster.json.tmp").mkdir()
        with pytest.raises(UserError, match=r"cannot write .*/cluster\.json: Is a directory"):
            prepare(cluster, {})
    with starting(tmp_path / "data"):
        cluster = claim(tmp_path / "data", 3, 19092)
        cluster.node(2).data.parent.write_text("in the way")
        with pytest.raises(UserError, match=r"cannot write .*/broker-2/data: Not a directory"):
            prepare(cluster, {})


def test_three_brokers_from_9092_on_unless_it_is_said(tmp_path):
    shape = prepared(tmp_path).shape
    assert (shape.broker_count, shape.base_port) == (3, 9092)


def test_as_many_brokers_vote_as_a_cluster_has_by_default(tmp_path):
    shape = prepared(tmp_path, 5).shape
    assert shape.controller_count == default_controller_count(5)
    assert prepared(tmp_path / "one", 1).shape.controller_count == 1


def test_every_controller_needs_a_port(tmp_path):
    with pytest.raises(
        UserError, match="--base-port 65524: the maximum with 3 controllers is 65523"
    ):
        claim(tmp_path, 3, 65524, None, 3)
    claim(tmp_path, 3, 65523, None, 3)


def test_a_cluster_with_one_controller_stays_one(tmp_path):
    prepared(tmp_path, 2, 19092)
    file = tmp_path / "cluster.json"
    told = json.loads(file.read_text())
    del told["controller_count"], told["has_controllers_apart"]
    file.write_text(json.dumps(told))
    assert prepared(tmp_path).shape.controller_count == 1
    assert json.loads(file.read_text()) == told


def test_a_folder_is_taken_as_it_is_and_gets_the_settings_of_this_start(tmp_path):
    first = prepared(tmp_path, 2, 19092, {"num.partitions": "6"})
    before = [identity(broker) for broker in first.brokers]
    second = prepared(tmp_path, overrides={"num.partitions": "7"})
    assert second == first
    assert [identity(broker) for broker in second.brokers] == before
    told = parse_properties(second.node(2).properties.read_text())
    assert told["num.partitions"] == "7"


def test_another_shape_is_refused_and_nothing_is_changed(tmp_path):
    prepared(tmp_path, 2, 19092)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for brokers, port in ((3, None), (None, 9092)):
        with pytest.raises(UserError, match="has a cluster with"):
            prepared(tmp_path, brokers, port)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_directory_of_another_cluster_is_refused(tmp_path):
    ours, other = prepared(tmp_path / "ours", 2), prepared(tmp_path / "other", 2)
    source = other.node(2).data / "meta.properties"
    source.replace(ours.node(2).data / "meta.properties")
    with pytest.raises(ConfigError, match=f"cluster.id={other.shape.cluster_id}, but"):
        prepared(tmp_path / "ours")


def test_brokers_on_zookeeper_find_their_id_there(tmp_path):
    cluster = prepared(tmp_path, zookeeper=ZooKeeperChoice())
    assert find_cluster(tmp_path) == cluster
    assert cluster.shape.cluster_id is None
    for broker in cluster.brokers:
        assert list(broker.data.iterdir()) == []
    assert cluster.zookeeper.properties.exists()
    assert prepared(tmp_path) == cluster


def test_a_folder_of_another_kind_is_refused(tmp_path):
    prepared(tmp_path, 2)
    with pytest.raises(UserError, match="has a cluster with its metadata in broker 1, not with"):
        prepared(tmp_path, zookeeper=ZooKeeperChoice())


def test_zookeeper_needs_a_port_too(tmp_path):
    with pytest.raises(UserError, match="--base-port 65516: the maximum with --zookeeper is 65515"):
        claim(tmp_path, 3, 65516, ZooKeeperChoice())
    claim(tmp_path, 3, 65516, ZooKeeperChoice("z:2181"))


def test_without_java_it_is_said_what_is_needed(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="ZooKeeper needs Java 17 or newer: java is not on PATH"):
        check_zookeeper(claim(tmp_path, 3, 19092, ZooKeeperChoice()))
    check_zookeeper(claim(tmp_path, 3, 19092))


@pytest.mark.parametrize(
    ("offset", "user", "zookeeper", "controllers"),
    [
        (0, "broker 1", None, None),
        (1, "broker 2", None, None),
        (CONTROLLER_OFFSET, "the controller of broker 1", None, None),
        (CONTROLLER_OFFSET + 1, "controller 12", None, 2),
        (ZOOKEEPER_OFFSET, "ZooKeeper", ZooKeeperChoice(), None),
    ],
)
def test_a_port_in_use_is_told_and_leaves_the_choice_of_another(
    tmp_path, offset, user, zookeeper, controllers
):
    port = free_base_port(2)
    cluster = claim(tmp_path, 2, port, zookeeper, controllers)
    refuse_taken_ports(cluster, {})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + offset))
        taken.listen()
        told = f"{user} cannot listen on 127.0.0.1:{port + offset}: Address already in use"
        with pytest.raises(UserError, match=f"^{told}; use other ports with --base-port$"):
            refuse_taken_ports(cluster, {})
        assert find_cluster(tmp_path) is None
        prepare(cluster, {})
        with pytest.raises(UserError, match=f"^{told}$"):
            refuse_taken_ports(cluster, {})


def test_settings_that_brokers_refuse_are_refused_at_once(tmp_path):
    cluster = claim(tmp_path, 3, 19092)
    with pytest.raises(ConfigError, match=r"Invalid value abc for configuration num\.partitions"):
        check_settings(cluster, {"num.partitions": "abc"})
    assert find_cluster(tmp_path) is None


def test_settings_that_brokers_do_not_know_are_told_once(tmp_path):
    cluster = claim(tmp_path, 3, 19092)
    assert check_settings(cluster, {}) == []
    [warning] = check_settings(cluster, {"num.partitons": "3"})
    assert "unknown config num.partitons" in warning
    assert "did you mean num.partitions?" in warning


def test_two_commands_do_not_start_brokers_of_a_folder_at_once(tmp_path):
    with starting(tmp_path), pytest.raises(UserError, match="another command"), starting(tmp_path):
        pass
    with starting(tmp_path):
        pass


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot use"), starting(tmp_path / "file"):
        pass


METRICS = "moldau.metrics.listen"


def test_each_node_serves_metrics_on_a_port_of_its_own(tmp_path):
    overrides = {METRICS: "127.0.0.1:9404"}
    cluster = claim(tmp_path, 2, 19092, controller_count=1)
    assert check_settings(cluster, overrides) == []
    with starting(tmp_path):
        prepare(cluster, overrides)
    written = {one.node_id: metrics_of(one) for one in cluster.nodes}
    assert written == {1: "127.0.0.1:9404", 2: "127.0.0.1:9405", 11: "127.0.0.1:9414"}
    told = moldau("cluster", "status", "--data", tmp_path, "-o", "json").data
    shown = {one["id"]: one["metrics"] for one in [*told["brokers"], *told["controllers"]]}
    assert shown == written


@pytest.mark.parametrize("value", ["", "127.0.0.1:0", "127.0.0.1:9404"])
def test_metrics_of_the_first_broker_are_where_they_were_asked_for(tmp_path, value):
    cluster = prepared(tmp_path, 1, 19092, {METRICS: value})
    assert metrics_of(cluster.node(1)) == (value or None)


def test_metrics_on_the_port_of_a_node_are_refused(tmp_path):
    cluster = claim(tmp_path, 2, port := free_base_port(2))
    told = f"the metrics of broker 2 would be at 127.0.0.1:{port}, the port of broker 1"
    with pytest.raises(UserError, match=told):
        refuse_taken_ports(cluster, {METRICS: f"127.0.0.1:{port - 1}"})


def test_metrics_past_the_last_port_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=METRICS):
        check_settings(claim(tmp_path, 2, 19092), {METRICS: "127.0.0.1:65535"})


def lose_disk(node):
    shutil.rmtree(node.data)


def test_a_voter_that_has_lost_its_disk_is_not_formatted_again(tmp_path):
    cluster = prepared(tmp_path, 4, 19092)
    lose_disk(cluster.node(2))
    (cluster.node(2).properties).unlink()  # the folder of the whole node may be gone
    told = r"broker-2/data is not formatted any more: .* moldau quorum replace 2$"
    with pytest.raises(UserError, match=told):
        prepared(tmp_path)
    ran = moldau("cluster", "start", 1, 2, "--data", tmp_path)
    assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert re.search(told, ran.err.rstrip())
    assert not cluster.node(2).data.exists()


def test_a_broker_without_a_vote_is_formatted_again(tmp_path):
    cluster = prepared(tmp_path, 4, 19092)
    lose_disk(cluster.node(4))
    prepared(tmp_path)
    assert identity(cluster.node(4))["cluster.id"] == cluster.shape.cluster_id


def test_a_cluster_of_which_all_votes_are_lost_begins_anew(tmp_path):
    cluster = prepared(tmp_path, 3, 19092)
    for node in cluster.nodes:
        lose_disk(node)
    prepared(tmp_path)
    assert all(node.data.exists() for node in cluster.nodes)


def test_a_first_start_that_was_interrupted_goes_on(tmp_path):
    cluster = prepared(tmp_path, 3, 19092)
    for node in cluster.nodes:
        node.properties.unlink()
    lose_disk(cluster.node(3))
    prepared(tmp_path)
    assert cluster.node(3).data.exists()
