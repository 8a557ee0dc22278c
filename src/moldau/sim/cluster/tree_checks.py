"""Checks what is written into the simulated ZooKeeper, and what is in it at the end.

I14 controller epochs only rise, and whoever has not the newest one writes nothing that belongs
    to the controller
I15 when all is quiet, the tree and the images say the same
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import image_difference
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.controller_nodes import decode_controller_epoch
from moldau.cluster.zookeeper.nodes.state_nodes import decode_state
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tree_image import TreeReading, read_tree
from moldau.sim.history import Violation
from moldau.sim.zookeeper.ensemble import TOOL_SESSION_ID, SimEnsemble
from moldau.sim.zookeeper.tree import Change, Created, Deleted, Transaction

_OF_CONTROLLER = (paths.TOPICS, paths.CONFIG, paths.FEATURE, paths.PRODUCER_ID_BLOCK)
"""Only the controller and tools write these nodes and those below them, after the start."""


class TreeMonitor:
    """Follows all transactions of the ensemble."""

    def __init__(self, ensemble: SimEnsemble, seen: Counter[str]) -> None:
        self._ensemble = ensemble
        self._seen = seen
        self._epoch = 0
        self._winner = 0
        """The session of the controller with the newest epoch."""
        ensemble.on_commit = self._committed
        ensemble.on_expiry = self._expired

    def _expired(self) -> None:
        self._seen["session expiry"] += 1

    def _committed(self, session_id: int, transaction: Transaction) -> None:
        for change in transaction.changes:
            if change.path == paths.CONTROLLER_EPOCH:
                self._note_epoch(session_id, change)
            elif (
                change.path.startswith(_OF_CONTROLLER)
                and not _is_root(change)
                and session_id != TOOL_SESSION_ID
            ):
                self._check_writer(session_id, change)

    def _note_epoch(self, session_id: int, change: Change) -> None:
        if isinstance(change, Deleted):
            raise Violation(f"I14: {change.path} was deleted")
        epoch = decode_controller_epoch(change.data)
        if isinstance(change, Created):
            return
        if epoch <= self._epoch:
            raise Violation(f"I14: the controller epoch goes from {self._epoch} to {epoch}")
        self._seen["controller change"] += self._epoch > 0
        self._epoch, self._winner = epoch, session_id

    def _check_writer(self, session_id: int, change: Change) -> None:
        if session_id != self._winner:
            raise Violation(
                f"I14: session {session_id:#x} writes {change.path}, but {self._winner:#x} has "
                f"controller epoch {self._epoch}"
            )
        if paths.state_owner(change.path) is not None and not isinstance(change, Deleted):
            named = decode_state(change.path, change.data).controller_epoch
            if named != self._epoch:
                raise Violation(f"I14: {change.path} has controller epoch {named}, not the newest")


def _is_root(change: Change) -> bool:
    """Tell whether this is a node that every broker creates at its start."""
    return (
        isinstance(change, Created)
        and not change.data
        and any(f"{root}/".startswith(f"{change.path}/") for root in paths.CREATED_AT_START)
    )


def problem_of_tree(ensemble: SimEnsemble, image: MetadataImage) -> str | None:
    """I15: say how what a new controller would find differs from what all brokers know."""
    reading = _read(ensemble.nodes(), image.version)
    if reading.refused:
        return f"I15: a node is malformed: {reading.refused[0]}"
    if reading.requests:
        return f"I15: nobody has done what is asked for: {reading.requests[0]}"
    if reading.image != image:
        changes = list(image_difference(image, reading.image))
        return f"I15: the tree differs from the images by {changes[:3]}"
    return None


def _read(nodes: Mapping[str, StoredNode], version: int) -> TreeReading:
    steps = read_tree(nodes, version)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            reading: TreeReading = stop.value
            return reading
