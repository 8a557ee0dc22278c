"""The folder of a cluster: what lies where, and which folders are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from moldau.base.errors import UserError
from moldau.cli.clusters import layout
from moldau.cli.clusters.layout import (
    ClusterFolder,
    ClusterShape,
    ZooKeeperChoice,
    base_port_max,
    default_controller_count,
    encode,
    find_cluster,
    open_cluster,
    refuse_other_shape,
    start_order,
)

SHAPE = ClusterShape("Mk3OEYBSD34fcwNTJENDM2Qk", 9092, 3)
QUORUM = ClusterShape("Mk3OEYBSD34fcwNTJENDM2Qk", 9092, 5, controller_count=3)
APART = ClusterShape(
    "Mk3OEYBSD34fcwNTJENDM2Qk", 9092, 2, controller_count=3, has_controllers_apart=True
)
ONE_APART = replace(APART, controller_count=1)
WITH_OWN = ClusterShape(None, 9092, 3, ZooKeeperChoice())
ON_ENSEMBLE = ClusterShape(None, 9092, 3, ZooKeeperChoice("z1:2181,z2:2181/kafka"))


def test_brokers_have_ports_and_folders_in_order(tmp_path):
    cluster = ClusterFolder(tmp_path, SHAPE)
    assert [(one.node_id, one.port) for one in cluster.brokers] == [
        (1, 9092), (2, 9093), (3, 9094),
    ]  # fmt: skip
    assert cluster.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert [one.controller_port for one in cluster.brokers] == [9102, None, None]
    assert [one.is_voter for one in cluster.brokers] == [True, False, False]
    assert cluster.node(3).data == tmp_path / "broker-3" / "data"


def test_the_voter_starts_first_and_the_others_at_once(tmp_path):
    first, second, third = ClusterFolder(tmp_path, SHAPE).brokers
    assert start_order([third, first, second]) == [[first], [third, second]]
    assert start_order([second]) == [[second]]


def test_the_first_brokers_vote_and_have_a_port_each(tmp_path):
    cluster = ClusterFolder(tmp_path, QUORUM)
    ports = [one.controller_port for one in cluster.brokers]
    assert ports == [9102, 9103, 9104, None, None]
    assert cluster.voters == cluster.brokers[:3]


def test_controllers_that_are_no_brokers_are_numbered_by_their_ports(tmp_path):
    cluster = ClusterFolder(tmp_path, APART)
    assert [(one.name, one.address) for one in cluster.nodes] == [
        ("controller 11", "127.0.0.1:9102"), ("controller 12", "127.0.0.1:9103"),
        ("controller 13", "127.0.0.1:9104"), ("broker 1", "127.0.0.1:9092"),
        ("broker 2", "127.0.0.1:9093"),
    ]  # fmt: skip
    assert cluster.voters == cluster.controllers
    assert start_order(cluster.members) == [cluster.controllers, cluster.brokers]
    assert cluster.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert cluster.node(12).log == tmp_path / "controller-12" / "controller.log"
    told = "no broker 3: it has 1 to 2, and controllers 11 to 13"
    with pytest.raises(UserError, match=told):
        cluster.node(3)


def test_voters_start_together_before_the_others(tmp_path):
    first, second, third, fourth, fifth = ClusterFolder(tmp_path, QUORUM).brokers
    assert start_order([fourth, third, fifth, first, second]) == [
        [third, first, second], [fourth, fifth],
    ]  # fmt: skip


@pytest.mark.parametrize(("by_default", "counts"), [(1, [1, 1, 1, 1, 1]), (3, [1, 1, 3, 3, 3])])
def test_two_brokers_do_not_vote_both_unless_it_is_said(monkeypatch, by_default, counts):
    monkeypatch.setattr(layout, "DEFAULT_CONTROLLERS", by_default)
    assert [default_controller_count(brokers) for brokers in (1, 2, 3, 4, 10)] == counts


def test_ports_of_all_controllers_have_room():
    assert base_port_max(None, 1) == 65_525
    assert base_port_max(None, 3) == 65_523
    assert base_port_max(ZooKeeperChoice(), 1) == 65_515
    assert base_port_max(ZooKeeperChoice("z:2181"), 1) == 65_525


def test_a_cluster_may_have_a_zookeeper_and_no_voter(tmp_path):
    cluster = ClusterFolder(tmp_path, WITH_OWN)
    zookeeper = cluster.zookeeper
    assert cluster.zookeeper_connect == zookeeper.address == "127.0.0.1:9112"
    assert zookeeper.pid_file.is_relative_to(tmp_path / "zookeeper")
    assert cluster.members == [zookeeper, *cluster.brokers]
    # It is needed by all, and no broker by another one.
    assert start_order(cluster.members) == [[zookeeper], cluster.brokers]


def test_a_cluster_may_use_the_zookeeper_of_its_user(tmp_path):
    cluster = ClusterFolder(tmp_path, ON_ENSEMBLE)
    assert cluster.zookeeper is None
    assert cluster.zookeeper_connect == "z1:2181,z2:2181/kafka"
    assert start_order(cluster.members) == [cluster.brokers]


@pytest.mark.parametrize("number", [0, 4])
def test_a_broker_that_is_not_there_is_refused(tmp_path, number):
    with pytest.raises(UserError, match=f"no broker {number}: it has 1 to 3"):
        ClusterFolder(tmp_path, SHAPE).node(number)


@pytest.mark.parametrize("shape", [SHAPE, QUORUM, APART, ONE_APART, WITH_OWN, ON_ENSEMBLE])
def test_what_was_written_is_read(tmp_path, shape):
    (tmp_path / "cluster.json").write_bytes(encode(shape))
    assert open_cluster(tmp_path) == ClusterFolder(tmp_path, shape)


def test_a_file_that_names_no_zookeeper_is_that_of_a_voter(tmp_path):
    fields = json.loads(encode(SHAPE))
    del fields["zookeeper"]
    (tmp_path / "cluster.json").write_text(json.dumps(fields))
    assert open_cluster(tmp_path) == ClusterFolder(tmp_path, SHAPE)


def test_a_file_that_names_no_number_of_controllers_is_that_of_one(tmp_path):
    fields = json.loads(encode(SHAPE))
    del fields["controller_count"], fields["has_controllers_apart"]
    (tmp_path / "cluster.json").write_text(json.dumps(fields))
    assert open_cluster(tmp_path) == ClusterFolder(tmp_path, SHAPE)


@pytest.mark.parametrize(
    ("shape", "version"), [(SHAPE, 1), (WITH_OWN, 1), (QUORUM, 2), (APART, 2), (ONE_APART, 2)]
)
def test_earlier_releases_do_not_take_a_cluster_whose_controllers_they_do_not_know(shape, version):
    assert json.loads(encode(shape))["version"] == version


def test_the_path_becomes_absolute(tmp_path, monkeypatch):
    (tmp_path / "cluster.json").write_bytes(encode(SHAPE))
    monkeypatch.chdir(tmp_path)
    assert open_cluster(type(tmp_path)()).path == tmp_path


def test_a_folder_that_is_new_or_empty_holds_no_cluster_yet(tmp_path):
    assert find_cluster(tmp_path / "new") is None
    assert find_cluster(tmp_path) is None
    (tmp_path / "cluster.json.tmp").write_text("left by a crash")
    assert find_cluster(tmp_path) is None
    with pytest.raises(UserError, match="has no cluster"):
        open_cluster(tmp_path)


def test_a_folder_with_other_contents_is_refused(tmp_path):
    (tmp_path / "meta.properties").touch()
    with pytest.raises(UserError, match=r"it has meta.properties, but no cluster.json"):
        find_cluster(tmp_path)


def test_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Not a directory"):
        find_cluster(tmp_path / "file")


@pytest.mark.parametrize(
    ("brokers", "port", "told"),
    [(5, None, "brokers=3, not 5"), (3, 19092, "base-port=9092, not 19092")],
)
def test_another_shape_is_refused_and_says_what_differs(tmp_path, brokers, port, told):
    with pytest.raises(UserError, match=told):
        refuse_other_shape(ClusterFolder(tmp_path, SHAPE), brokers, port)


@pytest.mark.parametrize(("brokers", "port"), [(3, 9092), (None, None), (3, None)])
def test_the_same_shape_is_taken_and_what_is_not_said_does_not_matter(tmp_path, brokers, port):
    refuse_other_shape(ClusterFolder(tmp_path, SHAPE), brokers, port)


@pytest.mark.parametrize(
    ("found", "wanted", "told"),
    [
        (SHAPE, WITH_OWN, "with its metadata in broker 1, not with a ZooKeeper of its own"),
        (QUORUM, WITH_OWN, "with its metadata in brokers 1 to 3, not with a ZooKeeper of its own"),
        (WITH_OWN, ON_ENSEMBLE, "with a ZooKeeper of its own, not with ZooKeeper at z1:2181,z2"),
        (ON_ENSEMBLE, WITH_OWN, "with ZooKeeper at z1:2181,z2:2181/kafka, not with a ZooKeeper"),
    ],
)
def test_another_place_of_the_metadata_is_refused(tmp_path, found, wanted, told):
    cluster = ClusterFolder(tmp_path, found)
    with pytest.raises(UserError, match=told):
        refuse_other_shape(cluster, None, None, wanted.zookeeper)
    refuse_other_shape(cluster, None, None, found.zookeeper)


def test_another_number_of_controllers_is_refused(tmp_path):
    cluster = ClusterFolder(tmp_path, QUORUM)
    told = "with its metadata in brokers 1 to 3, not with --controllers 3"
    with pytest.raises(UserError, match=told):
        refuse_other_shape(cluster, None, None, None, 3)
    apart = ClusterFolder(tmp_path, APART)
    with pytest.raises(UserError, match="in controllers 11 to 13, not with --controllers 1"):
        refuse_other_shape(apart, None, None, None, 1)
    refuse_other_shape(apart, 2, None, None, 3)
    with pytest.raises(UserError, match="with a ZooKeeper of its own, not with --controllers"):
        refuse_other_shape(ClusterFolder(tmp_path, WITH_OWN), None, None, None, 1)


def changed(**fields):
    return json.dumps({**json.loads(encode(SHAPE)), **fields}).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "version None; this release supports 1 and 2"),
        (changed(version=3), "version 3; this release supports 1 and 2"),
        (changed(controller_count=0), "controller_count is 0"),
        (changed(controller_count=4), "controller_count is 4, expected 1 to 3"),
        (changed(controller_count=3, base_port=65524), "base_port is 65524"),
        (changed(cluster_id=7), "cluster_id is 7"),
        (changed(cluster_id=""), "cluster_id is ''"),
        (changed(base_port="9092"), "base_port is '9092'"),
        (changed(base_port=65536), "base_port is 65536"),
        (changed(broker_count=True), "broker_count is True"),
        (changed(broker_count=11), "broker_count is 11"),
        (changed(zookeeper="z:2181"), "zookeeper is 'z:2181'"),
        (changed(zookeeper={}), "zookeeper is {}"),
        (changed(zookeeper={"connect": ""}), "zookeeper is {'connect': ''}"),
        (changed(zookeeper={"connect": None}, base_port=65516), "base_port is 65516"),
    ],
)
def test_a_damaged_or_newer_file_is_refused(tmp_path, content, told):
    (tmp_path / "cluster.json").write_bytes(content)
    with pytest.raises(UserError, match=told):
        find_cluster(tmp_path)
