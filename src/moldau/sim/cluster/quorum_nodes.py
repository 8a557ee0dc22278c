"""The nodes of a simulated quorum as faults and checks look at them, from outside."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.states import Leader
from moldau.sim.process import SimBroker


def store_of(process: SimBroker) -> RaftStore | None:
    """Return the metadata store of a process that takes part in a quorum, also while it starts."""
    broker = process.newest_broker
    if not process.alive or broker is None or broker.parts.quorum is None:
        return None
    return broker.parts.quorum.store


def life_of(process: SimBroker) -> Life | None:
    """Return what the Raft core of a process knows; None while there is none."""
    store = store_of(process)
    return None if store is None else store.node.life


def leading(processes: Iterable[SimBroker]) -> SimBroker | None:
    """Return the process that leads the quorum in the newest epoch; None if none does."""
    found, epoch = None, -1
    for process in processes:
        life = life_of(process)
        if life is not None and isinstance(life.state, Leader) and life.epoch > epoch:
            found, epoch = process, life.epoch
    return found
