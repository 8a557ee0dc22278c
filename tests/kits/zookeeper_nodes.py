"""Functions of `cluster/zookeeper/nodes` that work in steps, done to the end at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import ParamSpec, TypeVar

from moldau.cluster.zookeeper.nodes import (
    config_nodes,
    config_resources,
    node_changes,
    node_content,
    partition_list_nodes,
    topic_nodes,
    topic_reading,
    tree_image,
)

P = ParamSpec("P")
T = TypeVar("T")


def finish(steps: Generator[object, None, T]) -> T:
    """What a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _finishing(work: Callable[P, Generator[object, None, T]]) -> Callable[P, T]:
    @functools.wraps(work)
    def finished(*args: P.args, **kwargs: P.kwargs) -> T:
        return finish(work(*args, **kwargs))

    return finished


changed_node = _finishing(node_changes.changed_node)
decode_config = _finishing(config_nodes.decode_config)
decode_object_in_steps = _finishing(node_content.decode_object_in_steps)
decode_partitions = _finishing(partition_list_nodes.decode_partitions)
decode_reassignment = _finishing(partition_list_nodes.decode_reassignment)
decode_topic = _finishing(topic_nodes.decode_topic)
encode_partitions = _finishing(partition_list_nodes.encode_partitions)
encode_reassignment = _finishing(partition_list_nodes.encode_reassignment)
encode_topic = _finishing(topic_nodes.encode_topic)
read_topic = _finishing(topic_reading.read_topic)
read_tree = _finishing(tree_image.read_tree)
restored_topic = _finishing(topic_reading.restored_topic)
states_to_read = _finishing(topic_reading.states_to_read)
usable_configs = _finishing(config_resources.usable_configs)
