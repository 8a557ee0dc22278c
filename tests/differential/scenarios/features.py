"""UpdateFeatures, to levels that are in force, to others, and to some that cannot be."""

from __future__ import annotations

from typing import Any

from differential.peer import Peer
from moldau.protocol.messages.brokers import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
LEVEL = 30


def updated(peer: Peer) -> None:
    """To the levels in force, to levels that cannot be, and down and up again."""
    for what, *updates in _UPDATES:
        keys = [FeatureUpdateKey(name, level, False, kind) for name, level, kind in updates]
        for only in (True, False):
            request = UpdateFeaturesRequest(feature_updates=keys, validate_only=only)
            peer.ask_all(f"{what} {only}", request, 1)
    keys = [FeatureUpdateKey("metadata.version", LEVEL)]
    peer.ask_all("in the first version", UpdateFeaturesRequest(feature_updates=keys))


_UPDATES: tuple[Any, ...] = (
    ("the level it has", ("metadata.version", LEVEL, UPGRADE)),
    ("all levels they have", ("metadata.version", LEVEL, UPGRADE),
     ("transaction.version", 2, UPGRADE), ("group.version", 1, UPGRADE)),
    ("a level beyond", ("metadata.version", 99, UPGRADE)),
    ("a level below", ("metadata.version", 7, UPGRADE)),
    ("a level before all", ("metadata.version", 1, SAFE_DOWNGRADE)),
    ("no level", ("metadata.version", 0, UPGRADE)),
    ("a negative level", ("metadata.version", -1, UPGRADE)),
    ("the level it has, downgrading", ("metadata.version", LEVEL, SAFE_DOWNGRADE)),
    ("an unknown feature", ("cats", 1, UPGRADE)),
    ("an unknown feature away", ("cats", 0, SAFE_DOWNGRADE)),
    ("an unknown kind", ("metadata.version", LEVEL, 9)),
    ("no kind", ("metadata.version", LEVEL, 0)),
    ("one feature twice", ("group.version", 1, UPGRADE), ("group.version", 1, UPGRADE)),
    ("one right, one wrong", ("group.version", 1, UPGRADE), ("cats", 1, UPGRADE)),
    ("transactions below", ("transaction.version", 1, UPGRADE)),
    ("a level below, downgrading", ("metadata.version", LEVEL - 1, SAFE_DOWNGRADE)),
    ("a level below, unsafely", ("metadata.version", LEVEL - 1, UNSAFE_DOWNGRADE)),
    ("transactions down", ("transaction.version", 1, SAFE_DOWNGRADE)),
    ("transactions above, downgrading", ("transaction.version", 2, SAFE_DOWNGRADE)),
    ("transactions off", ("transaction.version", 0, UNSAFE_DOWNGRADE)),
    ("transactions up again", ("transaction.version", 2, UPGRADE)),
    ("none",),
)  # fmt: skip

SCENARIOS = (updated,)
