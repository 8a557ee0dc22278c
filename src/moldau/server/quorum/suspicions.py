"""How often the end of a broker's process was believed, and when it is not any more.

That a port refuses is good evidence, and no proof: a port can be closed while its broker goes on,
and sends heartbeats that put it into service again. So the evidence counts a few times in each life
of a broker. After that its session decides.
"""

from __future__ import annotations

from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.model import Broker

BELIEVED_MAX: Final = 3


class Suspicions:
    """Those of one node while it runs."""

    def __init__(self) -> None:
        self._believed: dict[BrokerId, tuple[int, int]] = {}
        """The epoch of each broker that was suspected last, and how often it was."""

    def is_believable(self, broker: Broker) -> bool:
        """Tell whether a broker may be fenced for the sake of its port."""
        return self._count(broker) < BELIEVED_MAX

    def believed(self, broker: Broker) -> None:
        """Take note that it was."""
        self._believed[broker.id] = broker.epoch, self._count(broker) + 1

    def _count(self, broker: Broker) -> int:
        epoch, count = self._believed.get(broker.id, (broker.epoch, 0))
        return count if epoch == broker.epoch else 0
