"""What a node says in its log of its part in the quorum: each news once.

A voter without a majority asks for pre-votes every second or two, for as long as that lasts. So
what was said in an epoch is not said in it again, until the leader was heard from.
"""

from __future__ import annotations

import logging

from moldau.base.ids import LeaderEpoch
from moldau.cluster.raft.effects import RoleChanged
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import NO_NODE

logger = logging.getLogger(__name__)


class RoleLines:
    """Those of one node while it runs."""

    def __init__(self) -> None:
        self._now = self._shown = RoleChanged(Role.UNATTACHED, LeaderEpoch(0), NO_NODE)
        self._said = {self._now}
        """In this epoch, since the leader was heard from."""

    def changed(self, role: RoleChanged) -> None:
        """Say another role, epoch or leader."""
        if role.epoch != self._now.epoch:
            self._said.clear()
        self._now = role
        if role not in self._said:
            self._said.add(role)
            self._say()

    def heard(self) -> None:
        """Take note that the leader has answered: what comes next is news again."""
        if len(self._said) > 1:
            self._said = {self._now}
            if self._shown != self._now:
                self._say()

    def _say(self) -> None:
        role = self._shown = self._now
        logger.info(
            "this node is %s in epoch %d, led by %d", role.role.value, role.epoch, role.leader
        )
