"""Mutants of a cluster on ZooKeeper: the controller, its commands, and what it takes for gone."""

from __future__ import annotations

import pytest

from kits.mutants.cluster_runs import on_zookeeper
from kits.mutants.mutant import Mutant
from moldau.cluster.controller_queue import ControllerQueue
from moldau.cluster.zookeeper import tree_following
from moldau.cluster.zookeeper.commands import incoming
from moldau.cluster.zookeeper.commands.fencing import CommandFence
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.tenure import Tenure
from moldau.server.zookeeper import broker_watches

Patch = pytest.MonkeyPatch

CONTROLLERS = ("zombie controller", "silence of the controller", "kill of the controller")
SESSIONS = ("session expiry", "kill", "lost connection to ZooKeeper")
SUSPICIONS = ("refused in its name", "kill of a leader")


def write_without_the_epoch(patch: Patch) -> None:
    """Leave the check of the controller epoch out of every multi."""
    whole = Tenure.write

    async def write(self, operations):
        multi = self.session.multi

        async def unchecked(checked):
            results = await multi(checked[1:])
            return [None, *results]

        self.session.multi = unchecked
        try:
            return await whole(self, operations)
        finally:
            del self.session.multi

    patch.setattr(Tenure, "write", write)


def obey_every_controller(patch: Patch) -> None:
    """Carry out commands of a controller that was replaced."""
    patch.setattr(CommandFence, "check", lambda *_: None)
    patch.setattr(incoming, "_check_header", lambda *_: None)


def forget_to_look_at_brokers(patch: Patch) -> None:
    """Do not read again who is alive when the watch on `/brokers/ids` was called."""
    whole = tree_following.TreeFollowing._look_at

    async def look_at(self, path):
        if path != paths.BROKER_IDS:
            await whole(self, path)

    patch.setattr(tree_following.TreeFollowing, "_look_at", look_at)


def go_on_when_fenced(patch: Patch) -> None:
    """Let a controller that has lost its session or its seat go on as if nothing had been."""
    whole = ControllerQueue.claim

    def claim(self):
        self._decisions = None  # it would notice that it claims what it holds
        return whole(self)

    patch.setattr(ControllerQueue, "claim", claim)
    patch.setattr(Tenure, "end", lambda _: None)


def suspect_without_fencing(patch: Patch) -> None:
    """Decide that a broker is gone, and leave its node and its epoch as they are."""

    async def evict(tenure, broker):
        following = tenure.following
        following._brokers.pop(broker.id, None)
        following._tell(tree_following.BrokersSeen(dict(following._brokers)))
        return True

    whole = tree_following.TreeFollowing.__init__

    def init(self, tenure):
        whole(self, tenure)
        tenure.following = self

    patch.setattr(tree_following.TreeFollowing, "__init__", init)
    patch.setattr(broker_watches, "evict_broker", evict)


ANY = "[IP][0-9]+|not finished"

MUTANTS = {
    "a controller on ZooKeeper writes without its epoch": Mutant(
        write_without_the_epoch, on_zookeeper(*CONTROLLERS), ANY
    ),
    "commands of a former controller are obeyed": Mutant(
        obey_every_controller, on_zookeeper(*CONTROLLERS), ANY
    ),
    "who is alive is not read again": Mutant(
        forget_to_look_at_brokers, on_zookeeper(*SESSIONS), ANY
    ),
    "a fenced controller goes on": Mutant(
        go_on_when_fenced, on_zookeeper(*CONTROLLERS), f"{ANY}|.*epoch was granted twice"
    ),
    "a process is taken for gone and not fenced": Mutant(
        suspect_without_fencing, on_zookeeper(*SUSPICIONS), ANY
    ),
}
