"""Large nodes are read and written in steps: none of them does work for all partitions."""

from __future__ import annotations

import json

import pytest

from kits.call_counting import count_calls
from kits.metadata_samples import topic_id
from kits.zookeeper_nodes import decode_object_in_steps, finish
from moldau.cluster.changes import PartitionChanged, PartitionCreated, TopicCreated
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Partition
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.zookeeper.nodes import json_parsing, paths
from moldau.cluster.zookeeper.nodes.commit_writes import commit_writes, leftover_removal
from moldau.cluster.zookeeper.nodes.config_nodes import decode_config, encode_config
from moldau.cluster.zookeeper.nodes.json_parsing import ELEMENT_MAX, parse_in_steps
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.partition_list_nodes import (
    decode_partitions,
    decode_reassignment,
    encode_reassignment,
)
from moldau.cluster.zookeeper.nodes.state_nodes import encode_state, state_of
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.topic_nodes import (
    Assignment,
    TopicNode,
    decode_topic,
    encode_topic,
)
from moldau.cluster.zookeeper.nodes.topic_reading import (
    read_topic,
    restored_topic,
    states_to_read,
)
from moldau.cluster.zookeeper.nodes.tree_image import read_tree

ID = topic_id(1)
COUNT = 4000
CALLS_MAX = 20_000
"""Of one step, calls and returns: one or two milliseconds. All partitions take far more."""

PARTITIONS = [Partition(index, (1, 2, 3), (1, 2, 3), 1) for index in range(COUNT)]
IMAGE = MetadataImage().apply(
    [TopicCreated("t", ID), *(PartitionCreated(ID, one) for one in PARTITIONS)], 1
)
MOVING = Assignment((1, 2, 3, 4), (4,), (1,))
WANTED = [WantedReplicas("t", index, (3, 2, 1)) for index in range(COUNT)]
STATES = {one.index: StoredNode(encode_state(state_of(one, 1))) for one in PARTITIONS}
NODE = StoredNode(finish(encode_topic(TopicNode((MOVING,) * COUNT, ID))))
PLAIN_NODE = StoredNode(finish(encode_topic(TopicNode((Assignment((1, 2, 3)),) * COUNT, ID))))
OLD_NODE = StoredNode(finish(encode_topic(TopicNode((Assignment((1, 2, 3)),) * COUNT, version=1))))


def largest_step(steps):
    """What a generator returns, or yields, and the calls of its largest step."""
    most, yielded, result = 0, [], []

    def step():
        try:
            yielded.append(next(steps))
        except StopIteration as end:
            result.append(end.value)

    while not result:
        most = max(most, count_calls(step))
    return result[0], [one for one in yielded if one is not None], most


def tree_nodes():
    nodes = {paths.state("t", index): node for index, node in STATES.items()}
    nodes[paths.topic("t")] = PLAIN_NODE
    nodes[paths.REASSIGN_PARTITIONS] = StoredNode(finish(encode_reassignment(WANTED)))
    nodes |= {paths.delete_topic(f"gone-{index}"): StoredNode(b"") for index in range(COUNT)}
    return nodes


@pytest.mark.parametrize(
    "work",
    [
        lambda: decode_topic("/t", NODE.data),
        lambda: encode_topic(TopicNode((MOVING,) * COUNT, ID)),
        lambda: encode_reassignment(WANTED),
        lambda: decode_reassignment(finish(encode_reassignment(WANTED))),
        lambda: decode_partitions("/p", finish(encode_reassignment(WANTED))),
        lambda: states_to_read(IMAGE, "t", NODE),
        lambda: read_topic(IMAGE, "t", NODE, {}),
        lambda: read_topic(MetadataImage(), "t", PLAIN_NODE, STATES),
        lambda: restored_topic(IMAGE, "t", OLD_NODE, ID),
        lambda: read_tree(tree_nodes(), 1),
    ],
)
def test_reading_and_writing_take_many_steps(work):
    _, _, most = largest_step(work())
    assert most < CALLS_MAX
    assert count_calls(lambda: finish(work())) > 2 * most


def test_a_commit_to_a_large_topic_takes_many_steps():
    change = PartitionChanged(ID, COUNT - 1, replicas=(1, 2, 3, 4), adding_replicas=(4,))
    after = IMAGE.apply([change], 2)
    versions = {paths.topic("t"): 0}
    _, writes, most = largest_step(iter(commit_writes(IMAGE, [change], after, 1, versions)))
    assert len(writes) == 2
    assert most < CALLS_MAX


def test_what_is_left_of_a_large_topic_is_removed_in_steps():
    nodes = {path: StoredNode(b"") for index in range(COUNT) for path in left_over(index)}
    _, writes, most = largest_step(leftover_removal("t", nodes))
    assert [one.path for one in writes][-2:] == ["/brokers/topics/t", "/admin/delete_topics/t"]
    assert len(writes) == 2 * COUNT + 4
    assert most < CALLS_MAX


def left_over(index):
    partition = paths.partition("t", index)
    return ("/brokers/topics/t", "/brokers/topics/t/partitions", partition, f"{partition}/state")


def test_a_config_may_name_all_replicas_of_a_large_topic():
    throttled = ",".join(f"{index}:{broker}" for index in range(20_000) for broker in (1, 2, 3))
    settings = {"leader.replication.throttled.replicas": throttled, "a": "b"}
    assert len(throttled) > 4 * ELEMENT_MAX
    assert finish(decode_config("/c", encode_config(settings))) == settings


# The parser


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of a few characters, so that short texts have many of them."""
    monkeypatch.setattr(json_parsing, "ELEMENT_MAX", 12)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        " { } ",
        '{"a":[],"b":{},"c":1}',
        '{"a" : [ 1 , 22 , [333, 4] ] , "b":\n{ "c" : null , "d":"e" }}',
        '{"a":[123456,1234567,12345678,123456789]}',
        '{"a":"a text without escapes may be long","b":"a\\nb\\"c"}',
        '{"a text without escapes may be long":[true,false,-1.5e3]}',
        '"text"',
        "[1, 2]",
        "12345",
    ],
)
@pytest.mark.usefixtures("small_windows")
def test_steps_parse_what_python_parses(text):
    assert finish(parse_in_steps(text.encode())) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":[1',
        '{"a":[1,]}',
        '{"a":1,}',
        '{"a":[1}]',
        '{"a":1]',
        '{"a":{"b":1]}',
        "{1:2}",
        '{"a" 1}',
        '{"a":1 2}',
        '{"a":1}{',
        '{"a":1,"a":2}',
        '{"b":{"a":1,"a":2}}',
        '{"b":[{"a":1,"a":2}]}',
        '{"a":NaN}',
        '{"a":"a\nb"}',
        '{"a":"a long text with an escape\\n"}',
        '{"a":[[1,2,3,4,5,6,7,8]]}',
        '{"a":[[[[[[[[]]]]]]]]}',
    ],
)
@pytest.mark.usefixtures("small_windows")
def test_steps_refuse_what_is_no_json_or_too_long(text):
    with pytest.raises(ValueError, match=r"."):
        finish(parse_in_steps(text.encode()))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
        b'{"a":' * 200_000,
        b'{"a":[' + b"[1]," * 250_000 + b"1]",
        b'{"a":[[' + b"1," * 500_000 + b"1]]}",
        b'{"a":"' + b"\\n" * 500_000 + b'"}',
        b'{"a":"' + b"x" * 1_000_000,
        b'{"a":' + b" " * 1_000_000,
        b'{"' + b'":1,"'.join(b"%d" % (number % 1000) for number in range(100_000)) + b'":1}',
    ],
)
def test_no_content_makes_a_step_long(data):
    with pytest.raises(MalformedNode, match="it is no JSON"):
        decode_object_in_steps("/node", data)
    most = 0
    steps = parse_in_steps(data)
    failed = []

    def step():
        try:
            next(steps)
        except (ValueError, RecursionError) as error:
            failed.append(error)

    while not failed:
        most = max(most, count_calls(step))
    assert most < CALLS_MAX
