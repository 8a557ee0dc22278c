"""After a turn of the loop the monitors look only at nodes whose processes have run.

That is enough as long as nothing else changes a node. Here all nodes are looked at after each turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moldau.sim.cluster.nodes import Node, Nodes
from moldau.sim.cluster.quorum_faults import QUORUM_FAULTS
from moldau.sim.cluster.quorum_nodes import store_of
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.cluster.swarm import ClusterSwarm
from moldau.sim.cluster.zookeeper_faults import ZOOKEEPER_FAULTS
from moldau.sim.loop import SimLoop
from moldau.sim.process import SimBroker

MORE_FAULTS = {"voter": (), "zookeeper": tuple(ZOOKEEPER_FAULTS), "quorum": tuple(QUORUM_FAULTS)}


class Witness:
    """Looks at all nodes of a run after each turn, before the monitors do."""

    def __init__(self) -> None:
        self.turns = 0
        self.passed_by = 0
        self._found: dict[Node, tuple[Any, ...]] = {}

    def look(self, nodes: Nodes, ran: set[str]) -> None:
        looked_at = nodes.among(ran)
        self.turns += 1
        self.passed_by += len(nodes.all) - len(looked_at)
        for node in nodes.all:
            found = facts_of(node)
            if node not in looked_at:
                assert self._found.get(node, found) == found, f"{node.name} changed, {ran} ran"
            self._found[node] = found


def facts_of(node: Node) -> tuple[Any, ...]:
    """Return whatever the monitors compare."""
    twin = node.twin
    return (
        _life_of(node.process),
        _life_of(twin) if twin is not None and twin.alive else None,
        _partitions_of(node.process),
        _quorum_of(node.process),
    )


def _life_of(process: SimBroker) -> tuple[Any, ...]:
    newest = process.newest_broker
    image = None if newest is None else newest.parts.store.image
    return process.alive, process.serving, process.broker, newest, image


def _partitions_of(process: SimBroker) -> list[tuple[Any, ...]]:
    if process.broker is None or not process.serving:
        return []
    return [
        (
            partition,
            partition.role,
            partition.high_watermark,
            partition.log.log_start_offset,
            partition.log.log_end_offset,
            partition.log.offline,
            partition.delayed_count,
        )
        for partition in process.broker.parts.partitions
    ]


def _quorum_of(process: SimBroker) -> tuple[Any, ...]:
    store = store_of(process)
    life = None if store is None else store.node.life
    if store is None or life is None:
        return (store,)
    state = life.state
    download = getattr(state, "download", None)
    return (
        store,
        life,
        state,
        life.epoch,
        life.high_watermark,
        life.log.end_offset,
        store.committed_offset,
        download,
        getattr(download, "position", 0),
    )


def run(kind: str, seed: int) -> None:
    def shortened(swarm: ClusterSwarm) -> ClusterSwarm:
        faults = (*swarm.faults, *MORE_FAULTS[kind])
        return replace(swarm, duration_s=6.0, fault_mean_s=0.4, faults=faults)

    kinds = {"zookeeper": kind == "zookeeper", "quorum": kind == "quorum"}
    run_cluster_seed(seed, adjust=shortened, **kinds)


@pytest.fixture
def witness(monkeypatch):
    witness, made = Witness(), []
    make, run_once = Nodes.__init__, SimLoop._run_once

    def note(nodes, *args, **kwargs):
        make(nodes, *args, **kwargs)
        made.append(nodes)

    def run_and_look(loop):
        after_turn = loop.after_turn

        def look(ran):
            witness.look(made[0], ran)
            if after_turn is not None:
                after_turn(ran)

        loop.after_turn = look
        try:
            run_once(loop)
        finally:
            if loop.after_turn is look:
                loop.after_turn = after_turn

    monkeypatch.setattr(Nodes, "__init__", note)
    monkeypatch.setattr(SimLoop, "_run_once", run_and_look)
    return witness


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", MORE_FAULTS)
def test_no_node_changes_whose_processes_have_not_run(kind, seed, witness):
    run(kind, seed)
    assert witness.passed_by > witness.turns
